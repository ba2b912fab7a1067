"""Programs that come out differently each time come out as recorded; campaign.py does it with many replays."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from replay.campaign import HERE, PROGRAMS, campaign, compile_c, environment, streams
from tests_support import Installed, execute

CROSS = [("pool trace", False), ("pool trace", True), ("balance order", False), ("futures trace", True),
         ("pickled order", False)]  # fmt: skip


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("name", "mpi"),
    [
        ("balance", "mpich"),
        ("threads", "mpich"),
        ("threads", "openmpi"),
        *(pytest.param(*case, marks=pytest.mark.matrix) for case in (("futures", "mpich"), ("halo", "openmpi"))),
    ],
)
def test_every_replay_is_the_recorded_run(name: str, mpi: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    venv = Path(request.getfixturevalue(mpi).mpicc).parents[1]
    same, replays, _ = campaign(name, venv, 2, tmp_path, plain_runs=0, loads=(0,))
    assert same == replays


def command(venv: Path, name: str, folder: Path) -> list[str]:
    """A program of the campaign, of an environment's MPI."""
    source, _, arguments = PROGRAMS[name]
    if source.endswith(".c"):
        (folder / venv.name).mkdir(exist_ok=True)
        return [compile_c(venv, source, folder / venv.name), *arguments]
    return [str(venv / "bin" / "python"), str(HERE / source), *arguments]


@pytest.mark.matrix
@pytest.mark.parametrize(("case", "back"), CROSS, ids=lambda v: {False: "to Open MPI", True: "to MPICH"}.get(v, v))
def test_another_mpi_replays_the_run(
    case: str, back: bool, mpich: Installed, openmpi: Installed, tmp_path: Path
) -> None:
    name, level = case.split()
    venvs = [Path(one.mpicc).parents[1] for one in (mpich, openmpi)]
    recorded_by, replayed_by = venvs[::-1] if back else venvs

    def weft(venv: Path, *words: str) -> subprocess.CompletedProcess[str]:
        done = execute([venv / "bin" / "weft", *words], cwd=tmp_path, env=environment())
        assert done.returncode == 0, done.stderr
        return done

    program = command(recorded_by, name, tmp_path)
    recorded = weft(recorded_by, "run", "--out", "run", "--level", level, "-n", str(PROGRAMS[name][1]), "--", *program)
    again = weft(replayed_by, "replay", "run", "--out", "again", "--", *command(replayed_by, name, tmp_path))
    assert again.stdout == recorded.stdout
    assert "as recorded; recorded in" in again.stderr
    if level == "outcomes":
        assert len(streams(tmp_path / "again")) == PROGRAMS[name][1]
