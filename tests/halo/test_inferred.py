"""Ghost cells whose widths no line declares: they are told by where receives put data."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import test_native
from halo_programs import PROGRAMS
from test_halo import ALL, WAYS, WRONG_WAYS, fault_is_found, found, mistake_is_found

from tests_support import WEFT, Installed, execute
from weft.halo.global_arrays import DeclaredPart
from weft.halo.receive_boxes import Box, Received
from weft.halo.width_inference import infer_widths

HIDDEN = {"neighbours", "objects", "reduced", "largest"}
"""Ways that copy what came out of another buffer, or exchange nothing."""
COMPUTED = {"every-second"}
"""The right way computes the ghosts of an array that nothing is received into."""
ASTRAY = {"subarrays"}
"""A mistake by which a rank receives nothing where others do."""
ONE_SIDED = {"left out", "seldom", "once"}
"""Faults of faces by which one of two arrays is never received into: its ghosts are not judged, and that is told."""
SHOWN = [way for way in WRONG_WAYS if way not in HIDDEN | ASTRAY]

ROWS, COLUMNS = 10, 12


def cut(dimensions: int, ranks: int) -> bool:
    """Whether a grid of so many ranks cuts each dimension: in others receives tell no widths, nor where cells lie."""
    return ranks >= 2**dimensions


def part(rank: int, name: str = "u", shape: tuple[int, ...] = (ROWS, COLUMNS)) -> DeclaredPart:
    strides = tuple(8 * int(shape[1]) if k == 0 else 8 for k in range(len(shape)))
    return DeclaredPart(
        rank=rank, number=ord(name[0]), name=name, at=("p.py", 1, "main"), shape=shape, strides=strides,
        halo=((0, 0),) * len(shape), lower=None, whole=None, periodic=None, lag=0, dims=(3,), coordinates=(rank,),
        periods=(False,), copy=False, inferred=True,
    )  # fmt: skip


def rows(first: int, last: int) -> Box:
    return (first, last), (0, COLUMNS - 1)


LOW, HIGH = rows(0, 0), rows(ROWS - 1, ROWS - 1)
Got = dict[tuple[int, str], list[Box | None]]


def told(got: Got, names: str = "u") -> tuple[dict[tuple[int, str], DeclaredPart], list[str]]:
    """The parts with their widths, by rank and name, and why others have none."""
    parts = [part(rank, name) for name in names for rank in range(3)]
    boxes = {(rank, ord(name)): [Received(k, box) for k, box in enumerate(all_)] for (rank, name), all_ in got.items()}
    made = list(infer_widths(parts, boxes))
    return {(one.rank, one.name): one for one, why in made if not why}, [why for _, why in made if why]


RIGHT: Got = {(0, "u"): [HIGH], (1, "u"): [LOW, HIGH], (2, "u"): [LOW]}


def test_a_rank_without_a_neighbour_has_the_widths_of_the_others() -> None:
    parts, unclear = told(RIGHT)
    assert not unclear
    assert {one.halo for one in parts.values()} == {((1, 1), (0, 0))}


def test_what_nothing_is_received_into_has_no_ghosts_there() -> None:
    parts, unclear = told({(1, "u"): [LOW], (2, "u"): [LOW]})
    assert not unclear
    assert {one.halo for one in parts.values()} == {((1, 0), (0, 0))}


def test_layers_that_come_one_by_one_are_as_many() -> None:
    layers = [LOW, rows(1, 1), HIGH, rows(ROWS - 2, ROWS - 2)]
    parts, unclear = told({(rank, "u"): layers for rank in range(3)})
    assert not unclear
    assert {one.halo for one in parts.values()} == {((2, 2), (0, 0))}


def test_an_array_of_the_same_form_has_the_same_widths_and_its_ghosts_are_not_judged() -> None:
    parts, unclear = told(RIGHT, "uv")
    assert not unclear
    assert parts[1, "v"].halo == parts[1, "u"].halo
    assert parts[1, "v"].unfilled == {(0, 0), (0, 1)} and not parts[1, "u"].unfilled


def test_the_first_values_of_a_block_are_no_ghosts() -> None:
    whole, inner, corner = rows(0, ROWS - 1), ((1, ROWS - 2), (1, COLUMNS - 2)), ((0, 0), (0, 0))
    parts, unclear = told({**RIGHT, (1, "u"): [whole, inner, LOW, HIGH, corner]})
    assert not unclear
    assert parts[1, "u"].halo == ((1, 1), (0, 0))


@pytest.mark.parametrize(
    ("of_one", "words"),
    [
        ([LOW], "rank 1 receives nothing at the high end of dimension 1 of u"),
        ([LOW, rows(ROWS - 2, ROWS - 1)], "rank 0 receives 1 layer at the high end of dimension 1 of u, rank 1 2"),
        ([LOW, HIGH, rows(4, 5)], "call 2 of rank 1 receives into u from [4, 0] to [5, 11], which is not a layer"),
        ([LOW, HIGH, None], "Weft does not know what call 2 of rank 1 receives into u"),
        ([LOW, HIGH, rows(0, 6)], "call 2 of rank 1 receives into u from [0, 0] to [6, 11], which is not a layer"),
    ],
)
def test_what_is_ambiguous_is_told_and_not_judged(of_one: list[Box | None], words: str) -> None:
    parts, unclear = told({**RIGHT, (1, "u"): of_one})
    assert not parts
    assert (
        len(unclear) == 1 and unclear[0].startswith(words) and unclear[0].endswith("(the argument halo of weft.part)")
    )


def test_an_outermost_layer_that_nothing_fills_is_told() -> None:
    parts, unclear = told({(rank, "u"): [rows(1, 1), HIGH] for rank in range(3)})
    assert not parts
    assert len(unclear) == 1 and "not all layers from the outermost on" in unclear[0]


SHORT = [(2, 4, "corner"), (1, 3, "swapped"), (2, 4, "width")]


@pytest.mark.cases(1)
@pytest.mark.parametrize(("dimensions", "ranks", "fault"), SHORT)
def test_a_fault_is_found_at_its_line_rank_and_cell(
    mpich: Installed, tmp_path: Path, dimensions: int, ranks: int, fault: str
) -> None:
    fault_is_found(mpich, tmp_path, dimensions, ranks, fault, "inferred")


def test_a_corrected_twin_is_silent(mpich: Installed, tmp_path: Path) -> None:
    assert found(mpich, tmp_path, 4, "faces.py", "2", "box", "inferred") == []


def test_every_right_way_to_exchange_is_silent(mpich: Installed, tmp_path: Path) -> None:
    ways = ",".join(way for way in WAYS if way not in HIDDEN | COMPUTED)
    assert found(mpich, tmp_path, 3, "ways.py", ways, "inferred") == []


@pytest.mark.matrix
def test_ghosts_that_are_copied_out_of_a_buffer_are_told_as_not_seen(mpich: Installed, tmp_path: Path) -> None:
    command = [*WEFT, "run", "--out", tmp_path / "run", "--", *mpich.mpiexec, "-n", "2", mpich.python or ""]
    done = execute([*command, PROGRAMS / "faces.py", "1", "late", "inferred", "packed"], cwd=tmp_path,
                   env=mpich.environment)  # fmt: skip
    assert done.returncode == 0
    assert "not recorded: some uses of ghost cells, because no receive puts data into u" in done.stderr
    assert "halo-read" not in done.stderr and "remote-access" not in done.stderr


@pytest.mark.matrix
def test_a_rank_that_receives_nothing_where_others_do_is_told_as_not_seen(mpich: Installed, tmp_path: Path) -> None:
    command = [*WEFT, "run", "--out", tmp_path / "run", "--", *mpich.mpiexec, "-n", "3", mpich.python or ""]
    done = execute([*command, PROGRAMS / "ways.py", "subarrays", "wrong", "inferred"], cwd=tmp_path,
                   env=mpich.environment)  # fmt: skip
    assert done.returncode == 0
    assert "rank 0 receives nothing at the high end of dimension 1 of u" in done.stderr
    assert "halo-read" not in done.stderr and "remote-access" not in done.stderr


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("dimensions", "ranks", "fault"), [one for one in ALL if one[2] not in ONE_SIDED and cut(*one[:2])]
)
def test_each_fault_is_found_on_each_grid(
    mpich: Installed, tmp_path: Path, dimensions: int, ranks: int, fault: str
) -> None:
    fault_is_found(mpich, tmp_path, dimensions, ranks, fault, "inferred")


@pytest.mark.matrix
@pytest.mark.parametrize("words", ["box", "wide", "right", "boundary", "box periodic", "wide periodic"])
@pytest.mark.parametrize(("dimensions", "ranks"), sorted({(d, ranks) for d, ranks, _ in ALL}))
def test_each_corrected_twin_is_silent_on_each_grid(
    mpich: Installed, tmp_path: Path, dimensions: int, ranks: int, words: str
) -> None:
    assert found(mpich, tmp_path, ranks, "faces.py", str(dimensions), *words.split(), "inferred") == []


@pytest.mark.matrix
@pytest.mark.parametrize("way", SHOWN)
def test_each_mistake_in_the_exchange_is_found_at_its_line(mpich: Installed, tmp_path: Path, way: str) -> None:
    mistake_is_found(mpich, tmp_path, way, "inferred")


@pytest.mark.matrix
@pytest.mark.parametrize("way", SHOWN)
def test_a_mistake_in_the_exchange_is_found_with_open_mpi(openmpi: Installed, tmp_path: Path, way: str) -> None:
    mistake_is_found(openmpi, tmp_path, way, "inferred")


@pytest.fixture(scope="module")
def of_mpich(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> test_native.Built:
    return test_native.build(mpich, tmp_path_factory.mktemp("inferred-mpich"))


@pytest.fixture(scope="module")
def of_openmpi(openmpi: Installed, tmp_path_factory: pytest.TempPathFactory) -> test_native.Built:
    return test_native.build(openmpi, tmp_path_factory.mktemp("inferred-openmpi"))


NATIVE = [
    one
    for one in test_native.ALL
    if one[2] not in ONE_SIDED | {"early", "changed", "in place"} and (cut(*one[:2]) or one[2] != "width")
]
NATIVE_WAYS = "colours seidel persistent lagging looked".split()
RIGHT_WAYS = ["overlap", "again", "children"]


@pytest.mark.matrix
@pytest.mark.parametrize(("dimensions", "ranks", "fault"), [(2, 4, "corner"), (1, 3, "swapped")])
def test_a_fault_of_a_compiled_program_is_found(
    of_mpich: test_native.Built, tmp_path: Path, dimensions: int, ranks: int, fault: str
) -> None:
    test_native.fault_is_found(of_mpich, tmp_path, dimensions, ranks, fault, "inferred")


@pytest.mark.matrix
@pytest.mark.parametrize("words", ["faces 2 box", "faces 2 wide", "ways again", "guarded right"])
def test_the_twin_of_a_compiled_program_is_silent(of_mpich: test_native.Built, tmp_path: Path, words: str) -> None:
    program, *more = words.split()
    assert test_native.found(of_mpich, tmp_path, 4 if program == "faces" else 3, program, *more, "inferred") == []


def test_a_compiled_program_that_copies_ghosts_out_of_a_buffer_is_told(
    of_mpich: test_native.Built, tmp_path: Path
) -> None:
    mpi, programs = of_mpich
    command = [*WEFT, "run", "--out", tmp_path / "run", "--", *mpi.mpiexec, "-n", "3", programs / "ways"]
    done = execute([*command, "neighbours", "wrong", "inferred"], cwd=tmp_path, env=mpi.environment)
    assert done.returncode == 0
    assert "not recorded: some uses of ghost cells, because no receive puts data into neighbours u" in done.stderr
    assert "halo-read" not in done.stderr and "remote-access" not in done.stderr


@pytest.mark.matrix
@pytest.mark.parametrize(("dimensions", "ranks", "fault"), NATIVE)
def test_each_fault_of_a_compiled_program_is_found_on_each_grid(
    of_mpich: test_native.Built, tmp_path: Path, dimensions: int, ranks: int, fault: str
) -> None:
    test_native.fault_is_found(of_mpich, tmp_path, dimensions, ranks, fault, "inferred")


@pytest.mark.matrix
@pytest.mark.parametrize("fault", ["corner", "width", "late", "source", "written"])
def test_each_fault_of_a_compiled_program_is_found_with_open_mpi(
    of_openmpi: test_native.Built, tmp_path: Path, fault: str
) -> None:
    test_native.fault_is_found(of_openmpi, tmp_path, 2, 4, fault, "inferred")


@pytest.mark.matrix
@pytest.mark.parametrize("words", ["box", "wide", "right", "boundary"])
@pytest.mark.parametrize(("dimensions", "ranks"), sorted({(d, ranks) for d, ranks, _ in ALL}))
def test_each_twin_of_a_compiled_program_is_silent_on_each_grid(
    of_mpich: test_native.Built, tmp_path: Path, dimensions: int, ranks: int, words: str
) -> None:
    if words == "wide" and not cut(dimensions, ranks):
        pytest.skip("two layers in a dimension that no rank cuts: told as not seen, as its page says")
    assert test_native.found(of_mpich, tmp_path, ranks, "faces", str(dimensions), words, "inferred") == []


@pytest.mark.matrix
@pytest.mark.parametrize("way", NATIVE_WAYS)
def test_each_mistake_of_a_compiled_program_is_found(of_mpich: test_native.Built, tmp_path: Path, way: str) -> None:
    test_native.mistake_is_found(of_mpich, tmp_path, way, "inferred")


@pytest.mark.matrix
@pytest.mark.parametrize("way", RIGHT_WAYS)
def test_each_right_way_of_a_compiled_program_is_silent(of_mpich: test_native.Built, tmp_path: Path, way: str) -> None:
    assert test_native.found(of_mpich, tmp_path, 3, "ways", way, "inferred") == []
