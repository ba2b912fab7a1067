"""Builds the recorder for PVM, once, in the cache. It needs a C compiler, and no header of PVM's."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Final

from weft.errors import WeftError
from weft.mpi import generate
from weft.mpi.prebuilt import LIBRARY, TABLE, BuiltRecorder
from weft.mpi.shim import build_folder, run_tool
from weft.pvm import table, wrappers
from weft.safety.folders import cache_folder, is_safely_cached

_SHARED: Final = ("process.c", "peek.c", "sites.c", "python.c", "endings.c", "crash.c", "leaving.c", "cores.c")
"""What the recorder of MPI is made of, too."""
_HEADERS: Final = ("calls.h", "nibbles.h", "process.h", "endings.h", "own_memory.h", "peek.h", "plan.h")
_OWN: Final = ("birth.c", "calls.c", "outcomes.c", "tasks.c", "follow.c")
_OWN_HEADERS: Final = ("pvm.h", "tasks.h")
_FLAGS: Final = ("-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec", "-fexceptions",
                 "-Wall", "-Werror=implicit", "-shared", "-Wl,-soname," + LIBRARY, "-s", "-Wl,-z,noexecstack",
                 "-Wl,-z,defs")  # fmt: skip
SONAME: Final = "libpvm3.so.3"


def collect_sources() -> dict[str, bytes]:
    """Return {path as the compiler sees it: content} of all source files of the recorder."""
    root = files("weft")
    native, own = root.joinpath("native"), root.joinpath("pvm/native")
    found = {name: native.joinpath(name).read_bytes() for name in ("format.h", "record.h", "record.c")}
    found |= {f"recorder/{name}": root.joinpath("recorder", name).read_bytes() for name in (*_SHARED, *_HEADERS)}
    found |= {f"pvm/{name}": own.joinpath(name).read_bytes() for name in (*_OWN, *_OWN_HEADERS)}
    leaving = root.joinpath("recorder/leaving.py").read_bytes()
    made = {
        "pvm/names.h": wrappers.render_names_header(),
        "pvm/wrappers.c": wrappers.render_wrappers(),
        "recorder/leaving_py.h": generate.render_text_h("weft_leaving_py", leaving),
        TABLE: json.dumps(table.to_json()),
    }
    return found | {name: text.encode() for name, text in made.items()}


def build_recorder(announce: Callable[[], object] | None = None) -> BuiltRecorder:
    """Return the recorder, compiled now if the cache has none. WeftError if there is no C compiler or no space.

    `announce`: is called before a compilation.
    """
    texts = collect_sources()
    digest = hashlib.sha256(" ".join(_FLAGS).encode())
    for name, text in sorted(texts.items()):
        digest.update(name.encode() + b"\0" + text + b"\0")
    folder = cache_folder() / "pvm" / digest.hexdigest()[:20]
    shim = BuiltRecorder(folder / LIBRARY, folder / TABLE, SONAME, "PVM")
    if not is_safely_cached(shim.path):
        if announce is not None:
            announce()
        _compile_recorder(texts, folder)
    return shim


def _compile_recorder(texts: dict[str, bytes], folder: Path) -> None:
    """Compile the recorder into the cache. WeftError with the compiler's words if that fails."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise WeftError(
            "the recorder for PVM cannot be built: there is no C compiler (Debian: apt install gcc libc6-dev)"
        )
    with build_folder(folder, texts) as work:
        units = [name for name in texts if name.endswith(".c")]
        command = [compiler, *_FLAGS, "-I", "recorder", "-o", LIBRARY, *units, "-ldl", "-lpthread"]
        run_tool(command, "compile the recorder of PVM", work)
