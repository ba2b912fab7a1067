"""Choose the options that make a compiler insert access hooks."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.access.hook_object import make_inlining_options
from weft.errors import UsageError
from weft.safety.folders import cache_folder, make_private

_ASK_SECONDS: Final = 60
_CALLED: Final = (
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "strcpy",
    "strncpy",
    "strcat",
    "strncat",
    "strcmp",
    "strncmp",
)
_DECIDING: Final = ("MPICH_CC", "MPICH_CXX", "MPICH_FC", "OMPI_CC", "OMPI_CXX", "OMPI_FC", "I_MPI_CC", "I_MPI_FC")
"""Variables that lead an MPI's wrapper to another compiler."""


def choose_hook_options(compiler: str) -> list[str]:
    """Return the options that make a compiler insert calls at memory accesses (hooks). Raises UsageError if it does not
    exist or has no such option.
    """
    found = shutil.which(compiler)
    if found is None:
        raise UsageError(f"weft cc: there is no compiler {compiler} on the PATH")
    version = _read_compiler_version(found)
    if re.search(r"\bclang\b|Intel\(R\) oneAPI DPC", version) and not re.search(r"\bflang\b", version):
        options = ["-tsan-instrument-func-entry-exit=0", "-tsan-distinguish-volatile=1"]
        return ["-fsanitize=thread", *(word for option in options for word in ("-mllvm", option))]
    gcc = re.search(r"(?:GNU Fortran|gcc|g\+\+|c\+\+|cc)\s.*?\s(\d+)\.\d+", version.splitlines()[0] if version else "")
    if gcc is None or "Free Software Foundation" not in version:
        said = version.splitlines()[0] if version else "nothing"
        raise UsageError(
            f"weft cc: {compiler} is neither gcc (g++, gfortran) nor clang (it says {said!r}): call one of "
            "these. A program built without `weft cc` can be recorded, too: then only some of its buffers are checked"
        )
    new = int(gcc[1]) >= 11
    volatile = ["--param=tsan-distinguish-volatile=1"] if new else []
    # Copies of a known size would become instructions behind the hooks' back: in Fortran small ones still do.
    copies = [f"-fno-builtin-{name}" for name in _CALLED]
    if "GNU Fortran" in version:
        copies = ["-mstringop-strategy=libcall"] if platform.machine() == "x86_64" else []
        copies.append("-fno-tree-pta")  # else an array of the main program that calls get has no hooks: nobody keeps it
    entries = "--param=tsan-instrument-func-entry-exit=0"
    return ["-fsanitize=thread", entries, *volatile, *copies, "-U__SANITIZE_THREAD__", *make_inlining_options()]


def _read_compiler_version(path: str) -> str:
    """Return the output of `COMPILER --version`, cached on disk for each compiler."""
    place = Path(path)
    key = " ".join([str(place.absolute()), str(place.stat().st_mtime_ns), *(os.environ.get(n, "") for n in _DECIDING)])
    kept = cache_folder() / "access" / "compilers.json"
    known: dict[str, str] = {}
    with suppress(OSError, ValueError):
        known = json.loads(kept.read_text())
    if key not in known:
        try:
            done = subprocess.run(
                [path, "--version"], capture_output=True, text=True, timeout=_ASK_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"weft cc: cannot run {path}: {error}") from None
        known[key] = done.stdout
        with suppress(OSError):
            make_private(kept.parent)
            work = kept.with_suffix(f".{os.getpid()}")
            work.write_text(json.dumps(known))
            work.replace(kept)
    return known[key]
