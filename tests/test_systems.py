"""What sets up a system: packages that are not there end nothing, and what is tried in roots is told as it was."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests_support import execute

TOOLS = Path(__file__).parents[1] / "tools"

STAND_INS = {
    "dpkg-query": """
        for p in $INSTALLED; do if [ "$p" = "${!#}" ]; then echo -n "install ok installed"; exit; fi; done
        exit 1""",
    "apt-cache": """
        case $1 in
        pkgnames) printf '%s\\n' $OFFERED ;;
        policy) for p in $OFFERED; do if [ "$p" = "$2" ]; then echo "  Candidate: 1.0"; exit; fi; done
            echo "  Candidate: (none)" ;;
        esac""",
    "apt-get": 'echo "$*" >> "$LOG"; case "$*" in *" $BROKEN"*) exit 1 ;; esac',
    "id": "echo $USER_ID",
}
"""apt and dpkg of a distribution whose packages the environment names."""


@pytest.fixture
def distribution(tmp_path: Path) -> Path:
    """A folder with the stand-ins."""
    for name, body in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def set_up(folder: Path, offered: str, installed: str = "", user: int = 0, broken: str = "nothing") -> tuple[str, str]:
    """What tools/debian.sh says there, and the lines that apt-get was given. It never fails."""
    log = folder / "log"
    log.touch()
    own = {
        "PATH": f"{folder}:{os.environ['PATH']}", "OFFERED": offered, "INSTALLED": installed, "USER_ID": str(user),
        "LOG": str(log), "BROKEN": broken,
    }  # fmt: skip
    done = execute(["bash", TOOLS / "debian.sh"], env=own)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr, log.read_text()


ALL = (
    "gcc g++ gfortran mpich libmpich-dev openmpi-bin libopenmpi-dev valgrind gdb binutils otf2-tools chromium "
    "chromium-driver zsh fish groff slurm-wlm munge nodejs xz-utils iproute2 autoconf "
    "automake libtool fuse3 libfuse3-dev pkg-config"
)


def test_the_newest_clang_that_has_its_own_openmp_is_taken(distribution: Path) -> None:
    said, given = set_up(distribution, f"{ALL} pvm pvm-dev clang-21 clang-17 libomp-17-dev libomp-16-dev clang-16")
    assert "clang-17 libomp-17-dev" in given and "clang-21" not in given and "clang-16" not in given
    assert "not installed" not in said


def test_a_package_that_the_distribution_lacks_is_named_and_the_others_are_installed(distribution: Path) -> None:
    said, given = set_up(distribution, ALL.replace("fish ", ""), installed="clang libomp-dev")
    assert "the tests that need them are skipped: fish, pvm, pvm-dev" in said
    assert " zsh " in given and " fish" not in given


def test_a_package_that_cannot_be_installed_costs_no_other(distribution: Path) -> None:
    said, given = set_up(distribution, f"{ALL} pvm pvm-dev clang libomp-dev", broken="chromium")
    assert "skipped: chromium, chromium-driver\n" in said
    assert given.splitlines()[-1].endswith(" libomp-dev") or given.splitlines()[-1].endswith(" pvm-dev")


def test_where_all_is_there_nothing_is_said_or_done(distribution: Path) -> None:
    everything = f"{ALL} pvm pvm-dev clang libomp-dev"
    assert set_up(distribution, everything, installed=everything) == ("", "")


def test_without_root_what_is_missing_is_named(distribution: Path) -> None:
    said, given = set_up(distribution, ALL, installed=ALL, user=1000)
    assert "skipped: clang and its libomp, pvm, pvm-dev\n" in said and given == ""


@pytest.mark.parametrize(("end", "shown"), [("true", ""), ("exit 7", "told\n")])
def test_what_is_done_quietly_is_shown_only_where_it_fails(end: str, shown: str, tmp_path: Path) -> None:
    log = tmp_path / "some" / "log"
    done = execute(["bash", TOOLS / "quietly.sh", log, "trying", "bash", "-c", f"echo told; {end}"])
    assert (done.stdout, done.stderr, log.read_text()) == ("", shown, "told\n")
    assert done.returncode == (7 if shown else 0)


@pytest.fixture(scope="module")
def systems() -> ModuleType:
    """tools/systems.py."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.syspath_prepend(str(TOOLS))  # as for a script
    spec = importlib.util.spec_from_file_location("systems", TOOLS / "systems.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["systems"] = module
    spec.loader.exec_module(module)
    monkeypatch.undo()
    return module


def test_a_system_that_was_tried_again_has_one_row_and_others_keep_theirs(systems: ModuleType) -> None:
    table = systems.TABLE
    page = f"before\n{table.begin}{table.header}| Debian a | old |\n| Debian b | kept |\n<!-- to here -->\nafter\n"
    written = table.replace_rows(page, ["| Debian a | new |\n"])
    assert written == page.replace("old", "new")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("== 3 failed, 50 passed, 2 skipped in 61.20s (0:01:01) ==\n", "3 failed, 50 passed, 2 skipped"),
        ("50 passed in 3.10s\n", "50 passed"),
        ("make: *** [debian] Error 100\n", "ended before its tests"),
    ],
)
def test_a_row_tells_what_pytest_counted(systems: ModuleType, said: str, told: str) -> None:
    assert systems.counts(said) == told
