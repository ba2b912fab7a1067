"""Communicators, datatypes and the other definitions mean on every rank what they meant to the program."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.trace import Datatype
from weft.trace.builder import WORLD, Builder, Type
from weft.trace.communicators import format_members
from weft.trace.datatypes import concatenate_signatures, repeat_signature
from weft.trace.definitions import Definitions
from weft.trace.layout import Def
from weft.trace.varint import encode_signed, encode_string, encode_unsigned

# Communicators


def test_a_communicator_has_one_name_on_every_rank() -> None:
    b = Builder(ranks=4)
    dup = b.dup()
    halves = b.split([0, 1, 0, 1], dup)
    trace = b.open()
    names = [trace.ranks[i].comm(halves[i % 2].ids[i]) for i in range(4)]
    assert names[0] is names[2]
    assert names[1] is names[3]
    assert [c.name for c in names[:2] if c] == ["world.dup#0.split#0[0,2]", "world.dup#0.split#0[1,3]"]
    assert names[0] is not None
    assert names[0].members == (0, 2)
    assert names[0].parent is trace.ranks[0].comm(dup.ids[0])


def test_ids_that_differ_from_rank_to_rank_lead_to_the_same_communicator() -> None:
    b = Builder(ranks=3)
    b.comm("MPI_Comm_create_group", [0, 1], tag=1, group=256, key="1")
    everyone = b.dup()
    trace = b.open()
    assert len(set(everyone.ids.values())) > 1
    assert len({trace.ranks[i].comm(id) for i, id in everyone.ids.items()}) == 1


def test_equal_communicators_made_twice_are_two() -> None:
    b = Builder(ranks=2)
    first, second = b.dup(), b.dup()
    trace = b.open()
    assert trace.ranks[0].comm(first.ids[0]) is not trace.ranks[0].comm(second.ids[0])
    assert trace.ranks[0].comm(second.ids[0]) is trace.ranks[1].comm(second.ids[1])


def test_the_sides_of_an_intercommunicator_see_one_another() -> None:
    b = Builder(ranks=4)
    low, high = b.split([0, 0, 1, 1]).values()
    inter = b.comm("MPI_Intercomm_create", [0, 1], remote=[2, 3], key="9", peer_comm=WORLD)
    trace = b.open()
    comm = trace.ranks[0].comm(inter.ids[0])
    assert comm is not None
    assert comm.inter
    assert comm is trace.ranks[3].comm(inter.ids[3])
    assert (comm.members, comm.remote_members) == ((0, 1), (2, 3))
    assert (comm.peer(0, 1), comm.peer(3, 1)) == (3, 1)
    assert (comm.rank_of(3), comm.group(3)) == (1, (2, 3))
    assert low.members != high.members


def test_self_is_a_communicator_of_its_own_on_each_rank() -> None:
    trace = Builder(ranks=2).open()
    first, second = trace.ranks[0].comm(3), trace.ranks[1].comm(3)
    assert first is not second
    assert first is not None
    assert first.members == (0,)


def test_a_column_of_ids_becomes_indices_of_communicators() -> None:
    b = Builder(ranks=2)
    dup = b.dup()
    b.ranks[1].barrier()
    b.ranks[1].barrier(comm=dup)
    b.ranks[1].barrier(comm=777)
    trace = b.open()
    indices = trace.ranks[1].comm_indices()
    assert [trace.communicators[i].name if i >= 0 else None for i in indices[1:]] == ["world", "world.dup#0", None]


def test_members_are_written_as_ranges() -> None:
    assert format_members([0, 1, 2, 5, 7, 8, -1]) == "0-2,5,7-8,?"
    assert format_members(range(0, 400, 2)).endswith("...200 ranks")


def test_a_spawned_world_comes_behind_its_parent_and_shares_its_intercommunicator() -> None:
    b = Builder(ranks=2)
    b.spawn([0, 1], 3)
    trace = b.open()
    assert [r.world for r in trace.ranks] == [0, 0, 1, 1, 1]
    assert not trace.problems
    (spawned,) = [c for c in trace.communicators if c.inter]
    assert (spawned.members, spawned.remote_members) == ((0, 1), (2, 3, 4))
    assert set(spawned.local_ids) == {0, 1, 2, 3, 4}
    assert spawned.peer(0, 2) == 4
    assert spawned.peer(4, 1) == 1


@pytest.mark.parametrize("names", [("one", "two"), ("two", "one")])
def test_worlds_of_one_size_are_paired_by_the_names_of_their_spawns(names: tuple[str, str]) -> None:
    """Two ranks spawn at once: in which order the worlds started tells nothing. A third one nobody named."""
    b = Builder(ranks=3)
    alone = [b.comm("MPI_Comm_split", [i]) for i in range(3)]
    for parent, name in zip((0, 1, 2), (*names, ""), strict=True):
        b.spawn([parent], 2, comm=alone[parent], name=name)
    b.world_start[1], b.world_start[2] = b.world_start[2], b.world_start[1]
    trace = b.open()
    jobs = [rank.header.job for rank in trace.ranks if rank.header]
    children = {c.members: {jobs[i] for i in c.remote_members} for c in trace.communicators if c.inter}
    assert children == {(i,): {f"weft-builder-{i + 1}"} for i in range(3)}


# Datatypes

BASIC = ["MPI_INT", "MPI_DOUBLE", "MPI_BYTE"]
SIZES = {"MPI_INT": 4, "MPI_DOUBLE": 8, "MPI_BYTE": 1}


def signature(build: object) -> object:
    """The signature of a type that a function of one RankBuilder makes."""
    b = Builder(ranks=1)
    made = build(b.ranks[0])  # type: ignore[operator]
    datatype = b.open().ranks[0].datatype(made.id)
    assert isinstance(datatype, Datatype)
    return datatype.signature()


def test_neighbours_of_one_type_are_one_run() -> None:
    assert signature(lambda r: r.type_struct([2, 3, 1], [0, 8, 32], ["MPI_INT", "MPI_INT", "MPI_DOUBLE"])) == (
        ("MPI_INT", 5),
        ("MPI_DOUBLE", 1),
    )


def test_gaps_do_not_count() -> None:
    assert signature(lambda r: r.type_vector(3, 2, 10, "MPI_INT")) == (("MPI_INT", 6),)


@pytest.mark.parametrize(
    ("combiner", "integers", "count"),
    [
        ("DUP", [], 1),
        ("CONTIGUOUS", [7], 7),
        ("VECTOR", [3, 2, 9], 6),
        ("HVECTOR", [3, 2], 6),
        ("INDEXED", [2, 3, 4, 0, 9], 7),
        ("HINDEXED", [2, 3, 4], 7),
        ("INDEXED_BLOCK", [3, 5, 0, 9, 20], 15),
        ("HINDEXED_BLOCK", [3, 5], 15),
        ("SUBARRAY", [2, 10, 10, 3, 4, 1, 1, 56], 12),
        ("DARRAY", [4, 0, 2, 10, 10], 5),
        ("RESIZED", [], 1),
    ],
)
def test_every_way_of_making_a_type_from_one_other(combiner: str, integers: list[int], count: int) -> None:
    found = signature(
        lambda r: r.define_datatype(combiner, types=["MPI_INT"], integers=integers, size=4 * count, extent=4 * count)
    )
    assert found == (("MPI_INT", count),)


def test_pair_types_have_the_signature_of_their_struct() -> None:
    assert signature(lambda r: r.type_contiguous(2, "MPI_DOUBLE_INT")) == (
        ("MPI_DOUBLE", 1), ("MPI_INT", 1), ("MPI_DOUBLE", 1), ("MPI_INT", 1),
    )  # fmt: skip


def test_a_type_of_itself_has_no_signature() -> None:
    assert signature(lambda r: r.define_datatype("CONTIGUOUS", types=[256], integers=[2], size=8, extent=8)) is None


def test_a_signature_beyond_holding_is_unknown_and_soon_so() -> None:
    def tower(rank: object) -> Type:
        made: object = "MPI_INT"
        for _ in range(90):
            made = rank.define_datatype("STRUCT", types=[made, "MPI_BYTE"], integers=[2, 9, 1], size=1, extent=1)  # type: ignore[attr-defined]
        return made  # type: ignore[return-value]

    assert signature(tower) is None


@st.composite
def nested(draw: st.DrawFn, depth: int = 3) -> object:
    """A basic name, or (blocks, children)."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(BASIC))
    children = draw(st.lists(nested(depth - 1), min_size=1, max_size=3))  # type: ignore[call-arg]
    return draw(st.lists(st.integers(0, 3), min_size=len(children), max_size=len(children))), children


def flat(shape: object) -> list[str]:
    """The slow definition: every element by name."""
    if isinstance(shape, str):
        return [shape]
    blocks, children = shape  # type: ignore[misc]
    return [name for n, child in zip(blocks, children, strict=True) for _ in range(n) for name in flat(child)]


@pytest.mark.matrix
@settings(max_examples=60, deadline=None)
@given(nested())
def test_a_signature_is_what_the_elements_say_one_by_one(shape: object) -> None:
    b = Builder(ranks=1)

    def make(shape: object) -> object:
        if isinstance(shape, str):
            return shape
        blocks, children = shape  # type: ignore[misc]
        types = [make(child) for child in children]
        return b.ranks[0].type_struct(blocks, [0] * len(blocks), types)  # type: ignore[arg-type]

    made = make((([1]), [shape]))
    datatype = b.open().ranks[0].datatype(made.id)  # type: ignore[attr-defined]
    assert datatype is not None
    assert datatype.signature() == concatenate_signatures([((name, 1),) for name in flat(shape)])


@given(st.lists(st.tuples(st.sampled_from(BASIC), st.integers(1, 4)), max_size=5), st.integers(0, 5))
def test_repeating_is_joining_one_by_one(parts: list[tuple[str, int]], times: int) -> None:
    once = concatenate_signatures([(part,) for part in parts])
    assert repeat_signature(once, times) == concatenate_signatures([once] * times)


# The stream of definitions

TEXT = st.text(max_size=20)


@given(st.lists(st.tuples(st.integers(256, 2**40), st.integers(0, 2**63), st.integers(0, 99), TEXT), max_size=5))
def test_definitions_come_back_as_they_were_written(files: list[tuple[int, int, int, str]]) -> None:
    data = b""
    for id, comm, amode, name in files:
        payload = encode_unsigned(id) + encode_unsigned(comm) + encode_unsigned(amode) + encode_string(name)
        data += encode_unsigned(Def.FILE) + encode_unsigned(len(payload)) + payload
    definitions = Definitions(data)
    assert not definitions.problems
    for id, comm, amode, name in reversed(files):
        first = next(f for f in files if f[0] == id)
        found = definitions.file(id)
        assert found is not None
        assert (found.comm, found.amode, found.name) == first[1:]
        assert (comm, amode, name) in [f[1:] for f in files]


def test_a_kind_of_definition_that_there_is_not_is_left_out_and_said() -> None:
    whole = encode_unsigned(Def.CWD) + encode_unsigned(5) + encode_string("/tmp")
    definitions = Definitions(encode_unsigned(99) + encode_unsigned(3) + b"new" + whole)
    assert definitions.cwd == "/tmp"
    assert len(definitions.problems) == 1
    assert "99 is not a kind of definition" in definitions.problems[0]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    definitions = Definitions(data)
    for kind in (Def.COMM, Def.DATATYPE, Def.SITE):
        list(definitions.all(kind))


def test_definitions_that_are_cut_off_end_with_a_problem() -> None:
    whole = encode_unsigned(Def.CWD) + encode_unsigned(5) + encode_string("/tmp")
    assert Definitions(whole).cwd == "/tmp"
    assert Definitions(whole).problems == []
    cut = Definitions(whole + whole[:-2])
    assert cut.cwd == "/tmp"
    assert "end early" in cut.problems[0]


def test_a_damaged_definition_does_not_take_the_others_with_it() -> None:
    bad = encode_unsigned(Def.ARGV) + encode_unsigned(3) + encode_unsigned(2**14)
    good = encode_unsigned(Def.CWD) + encode_unsigned(5) + encode_string("/tmp")
    definitions = Definitions(bad + good)
    assert definitions.cwd == "/tmp"
    assert "damaged" in definitions.problems[0]


def test_a_lower_bound_may_be_negative() -> None:
    payload = (
        encode_unsigned(256)
        + encode_unsigned(8)
        + encode_signed(-16)
        + encode_signed(24)
        + encode_unsigned(1)
        + encode_unsigned(0)
        + encode_unsigned(0)
        + encode_unsigned(1)
        + encode_unsigned(4)
    )
    definitions = Definitions(encode_unsigned(Def.DATATYPE) + encode_unsigned(len(payload)) + payload)
    made = definitions.get(Def.DATATYPE, 256)
    assert (made.lb, made.extent) == (-16, 24)
