"""What the tests need of a machine: each thing is tried once, and a test that lacks one is skipped with the reason.

`@pytest.mark.needs("gdb", "gcc")` says it of a test or a file; `need("gfortran")` in a fixture or a test skips, or says
where it is. A name is one of ABILITIES, else a program on the PATH; a compiler has to build something.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from weft.base import abilities
from weft.base.abilities import Ability

COMPILER: Final = re.compile(r"(cc|gcc|clang|gfortran|mpicc|mpi(f90|fort)|g\+\+|clang\+\+|mpicxx)(-\d+|\.\w+)?")
SOURCES: Final = {
    ".c": "int main(void) { return 0; }\n", ".f90": "end\n",
    ".cpp": "#include <vector>\nint main() { return std::vector<int>{0}[0]; }\n",
}  # fmt: skip
BROWSER: Final = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
MOUNT: Final = ("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs")


def need(*names: str) -> str:
    """Skip the test where the machine lacks one of these, with the reason; else what was found of the first."""
    for name in names:
        if lack := ability(name).lack:
            pytest.skip(f"needs {name}: {lack}")
    return ability(names[0]).detail


@cache
def ability(name: str) -> Ability:
    """What the machine can do of that name."""
    if name in ABILITIES:
        return ABILITIES[name]()
    return compiler(name) if COMPILER.fullmatch(name) else program(name)


def program(name: str) -> Ability:
    """Whether a program is on the PATH."""
    found = shutil.which(name)
    return Ability(found) if found else Ability("", "it is not on the PATH (tools/debian.sh says what the tests use)")


def compiler(name: str) -> Ability:
    """Whether a compiler makes a program: its wrapper may be here without it."""
    found = shutil.which(name)
    if found is None:
        return program(name)
    suffix = ".cpp" if "++" in name or "cxx" in name else ".f90" if re.search("fort|f90", name) else ".c"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty").with_suffix(suffix)
        source.write_text(SOURCES[suffix])
        done = asked([found, source.name, "-o", "empty"], Path(folder))
    said = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
    return Ability(found) if not done.returncode else Ability("", f"{found} compiles nothing: {said}")


def asked(words: Sequence[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. One that is not there, or does not end, fails with the reason as its words."""
    try:
        return subprocess.run(
            words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=60,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(words, 127, "", str(error))


def root() -> Ability:
    """Whether this is root."""
    return Ability("root") if os.geteuid() == 0 else Ability("", "this is a user without root")


def mounting() -> Ability:
    """Whether a file system can be mounted: in a container root may not."""
    with tempfile.TemporaryDirectory() as place:
        done = asked([*MOUNT, place])
        if done.returncode:
            return Ability("", done.stderr.strip() or f"mount ends with {done.returncode}")
        asked(["umount", "--lazy", place]).check_returncode()
    return Ability("tmpfs")


def fuse() -> Ability:
    """Whether programs can be file systems, and be compiled: libfuse3 and its device."""
    if root().lack:
        return root()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return Ability("", "there is no /dev/fuse")
    flags = asked(["sh", "-c", "pkg-config --cflags --libs fuse3"])
    if flags.returncode:
        return Ability("", "there is no libfuse3 (Debian: fuse3, libfuse3-dev, pkg-config)")
    return Ability(flags.stdout) if not mounting().lack else mounting()


def openmp_tools() -> Ability:
    """Whether there is an OpenMP runtime that tells a tool of its tasks."""
    from weft.tasks.runtime import find_runtimes  # all of weft.tasks: few tests ask

    found = next(find_runtimes(), None)
    return Ability(str(found)) if found else Ability("", "no OpenMP runtime with OMPT here (apt install libomp5)")


def browser(*options: str, log: bool = False) -> Any:
    """A Chromium that is driven; the test is skipped where it does not start."""
    binary, driver = need("chromium", "chromedriver"), need("chromedriver")
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException

    settings: Any = webdriver.ChromeOptions()
    settings.binary_location = binary
    for one in (*BROWSER, *options):
        settings.add_argument(one)
    if log:
        settings.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        return webdriver.Chrome(options=settings, service=webdriver.ChromeService(driver))
    except WebDriverException as error:
        pytest.skip(f"needs chromium: it does not start here: {str(error).splitlines()[0]}")


ABILITIES: Final = {
    **abilities.ABILITIES,
    "root": root,
    "mounting": mounting,
    "fuse": fuse,
    "OMPT": openmp_tools,
}
"""Those of `weft doctor`, and what only tests ask for."""
