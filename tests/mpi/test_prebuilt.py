"""Recorders that need no compiling: of the wheel, and those found before."""

import shutil
from pathlib import Path

import pytest

from tests_support import Installed
from weft.cli.main import make_parser
from weft.mpi import prebuilt, shim


@pytest.fixture
def packed(mpich: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A copy of libmpi and a wheel's folder that has its recorder; the cache is empty."""
    made, library = shim.build_shim(mpich.mpicc), tmp_path / "libmpi.so.12"
    shutil.copy(shim.probe_library(mpich.mpicc).path, library)
    monkeypatch.setattr(prebuilt, "wheel_folder", lambda: tmp_path / "ready")
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    return library, prebuilt.add_to_wheel(library, made, "one")


def test_the_wheels_recorder_is_taken_for_the_library_that_it_was_built_for(packed: tuple[Path, Path]) -> None:
    library, folder = packed
    for _ in range(2):  # by its digest, then by what was noted
        found = prebuilt.find_recorder(library)
        assert found is not None and found.path.parent == folder and found.soname == "libmpi.so.12"


def test_another_library_of_the_same_name_and_size_is_not_given_it(packed: tuple[Path, Path]) -> None:
    library, _ = packed
    assert prebuilt.find_recorder(library) is not None
    content = bytearray(library.read_bytes())
    content[len(content) // 2] ^= 1
    library.write_bytes(content)
    assert prebuilt.find_recorder(library) is None


def test_a_recorder_of_other_sources_is_not_taken(packed: tuple[Path, Path]) -> None:
    library, folder = packed
    facts = folder / prebuilt.FACTS
    facts.write_text(facts.read_text().replace('"sources": "', '"sources": "0'))
    assert prebuilt.find_recorder(library) is None


def test_what_the_wheel_brings_names_no_folder_of_the_machine_that_built_it(packed: tuple[Path, Path]) -> None:
    _, folder = packed
    assert str(Path.home()) not in (folder / prebuilt.FACTS).read_text()
    assert '"path": ""' in (folder / prebuilt.TABLE).read_text()


def test_np_is_taken_as_n() -> None:
    assert make_parser(["run"]).parse_args(["run", "-np", "3", "prog"]).n == 3
    assert make_parser(["run"]).parse_args(["run", "-n", "3", "prog"]).n == 3
