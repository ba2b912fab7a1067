"""Programs of PVM, built and recorded once for all tests. Where PVM is not installed these tests are skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from machine import ability
from pvm.replays import PROGRAMS, build
from tests_support import WEFT, execute
from weft.launch.pvm.installation import find_daemon

Recorded = tuple[Path, str, str, int]
"""The run, what the program printed, what Weft said, the status."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs PVM where it is not."""
    header = Path("/usr/include/pvm3.h").exists()
    if find_daemon() is None or not header or ability("gcc").lack:
        for item in items:
            if Path(__file__).parent in item.path.parents and "programs" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason="PVM is not installed (Debian: apt install pvm pvm-dev)"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All programs of these tests, compiled."""
    folder = tmp_path_factory.mktemp("pvm")
    for source in PROGRAMS.iterdir():
        if source.suffix == ".c" or not ability("gfortran").lack:
            build(source, folder)
    return folder


@pytest.fixture(scope="session")
def recorded(programs: Path) -> Callable[..., Recorded]:
    """Records a program, each line of arguments once at each level."""
    known: dict[tuple[str, ...], Recorded] = {}

    def record(*words: str, level: str = "trace") -> Recorded:
        key = (level, *words)
        if key not in known:
            run = programs / f"run-{len(known)}"
            started = ["--level", level, "--out", run, "--", programs / words[0], *words[1:]]
            done = execute([*WEFT, "run", *started], timeout=120)
            known[key] = run, done.stdout, done.stderr, done.returncode
        return known[key]

    return record
