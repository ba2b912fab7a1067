"""Recording sends nothing: MPI is asked for the same messages, byte for byte, with the recorder as without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests_support import ROOT, Installed, execute
from weft.mpi.prebuilt import BuiltRecorder

PROGRAMS = ROOT / "benchmarks" / "programs"


@pytest.fixture(scope="module")
def compiled(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stencil, a sort, and a library that sums up what MPI is asked to send, placed between recorder and MPI."""
    folder = tmp_path_factory.mktemp("messages")
    for name, options in (("stencil", []), ("sort", []), ("spy", ["-shared", "-fPIC"])):
        done = execute([mpich.mpicc, "-O1", *options, "-o", folder / name, PROGRAMS / f"{name}.c"])
        assert done.returncode == 0, done.stderr
    return folder


def sent(mpich: Installed, program: list[str], variables: dict[str, str], folder: Path) -> list[str]:
    """For each of two ranks: how many sends MPI was asked for, their bytes, and a hash of bytes, peers and tags."""
    words = [f"{name}={value}" for name, value in {**variables, "SPY_OUT": str(folder / "spy")}.items()]
    done = execute([*mpich.mpiexec, "-n", "2", "env", *words, *program])
    assert done.returncode == 0, done.stderr
    return [(folder / f"spy.{rank}").read_text() for rank in range(2)]


@pytest.mark.cases(1)
@pytest.mark.parametrize("program", [["stencil", "32", "40"], ["sort", "500", "10"]])
def test_recording_adds_no_byte_to_any_message(
    mpich: Installed, recorder: BuiltRecorder, compiled: Path, tmp_path: Path, program: list[str]
) -> None:
    command = [str(compiled / program[0]), *program[1:]]
    spy = str(compiled / "spy")
    without = sent(mpich, command, {"LD_PRELOAD": spy}, tmp_path)
    assert all(int(rank.split()[0]) > 20 for rank in without)
    for level in ("outcomes", "trace"):
        ranks = tmp_path / level / "ranks"
        ranks.mkdir(parents=True)
        loaded = f"{recorder.path}:{spy}"
        recording = {"LD_PRELOAD": loaded, "WEFT_INTERNAL_RUN": str(ranks.parent), "WEFT_INTERNAL_LEVEL": level}
        assert sent(mpich, command, recording, tmp_path) == without
        assert len(list(ranks.glob("*.weft"))) == 2
