"""Chooses the OpenMP runtime for a native program, and builds Weft's tool for it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from weft.errors import DebuggerError, UsageError, WeftError
from weft.safety.folders import cache_folder, is_safely_cached, make_private

INSIDE = Path(__file__).parents[1] / "inprocess"
SWITCHES = ("switches.c", "switches.h", "record.c", "record.h", "format.h")
"""What writes down which task makes which calls, and the writer of records that it uses."""
SOURCE_PREFIX = "/weft/tasks/native"
"""Where Weft's part says that its sources lie, so that nobody takes them for the program's."""
FLAGS = ("-std=c11", "-O2", "-g", "-fPIC", "-fvisibility=hidden", "-shared")
NAMES = ("libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so")
"""What programs call their runtime: gcc's, clang's, Intel's. LLVM's has the functions of all of them."""
CILK_PLUS = (b"libcilkrts.so", b"__cilkrts_enter_frame")
"""What programs of Cilk Plus have in them."""
OPENCILK = (b"libopencilk.so", b"__cilkrts_internal_invoke_cilkified_root")
"""And those of OpenCilk, also where its runtime is linked statically."""


def find_runtimes() -> Iterator[Path]:
    """Yield the paths of the OpenMP runtimes on this machine that support OMPT: first Debian's, the newest first, then
    those of Python packages.
    """
    debian = sorted(Path("/usr/lib").glob("llvm-*/lib/libomp.so.5"), key=lambda p: -int(p.parts[3][5:]))
    yield from debian
    yield from Path("/usr/lib").glob("*-linux-gnu/libomp.so.5")
    for folder in dict.fromkeys((*sys.path, sysconfig.get_path("purelib"))):
        yield from Path(folder).glob("numba/openmp/libs/openmp/lib/libomp.so")
    yield from Path(sys.prefix, "lib").glob("libiomp5.so")


def select_runtime(chosen_path: str) -> Path:
    """Return the path of the OpenMP runtime to use: `chosen_path`, or, if that is empty, the first one that is found.
    UsageError that says what to install if there is none.
    """
    if chosen_path:
        if not Path(chosen_path).is_file():
            raise UsageError(f"--runtime {chosen_path}: there is no such file")
        return Path(chosen_path).resolve()
    for found in find_runtimes():
        return found.resolve()
    raise UsageError("there is no OpenMP runtime with OMPT here: apt install libomp5, or pip install pyomp")


def require_followable_program(program: Path) -> None:
    """Raise a UsageError if Weft's OpenMP tool would crash a program, or show none of its tasks. Its text says why."""
    code = program.read_bytes()
    if not code.startswith(b"\x7fELF"):
        raise UsageError(f"{program}: neither a Python program nor a native one")
    if not has_openmp(code) and has_opencilk(code):
        raise UsageError(
            f"{program} is a program of OpenCilk, which `weft tasks` can only start: leave the other options out"
        )
    if not has_openmp(code) and any(name in code for name in CILK_PLUS):
        raise UsageError(
            f"{program} is compiled for Cilk Plus, whose tasks Weft does not follow: "
            "`weft tasks --as-openmp SOURCE` builds the same source as OpenMP"
        )
    if not has_openmp(code):
        raise UsageError(f"{program} uses no shared OpenMP runtime: compile with -fopenmp -g, not -static")
    if b"omp_fulfill_event" in code and b"GOMP_task" in code:
        raise UsageError(
            f"{program} has tasks with `detach` from gcc, which crash on LLVM's runtime: compile it with clang, or "
            "take `detach` out to debug its tasks"
        )


def has_openmp(code: bytes) -> bool:
    """Return whether a file's contents are a native program with a shared OpenMP runtime."""
    return code.startswith(b"\x7fELF") and any(name.encode() + b"\0" in code for name in NAMES)


def has_opencilk(code: bytes) -> bool:
    """Return whether a file's contents are a native program with OpenCilk's runtime."""
    return code.startswith(b"\x7fELF") and any(name in code for name in OPENCILK)


def make_runtime_folder(library: Path) -> Path:
    """Return a folder, to be searched for libraries, in which every name by which programs load an OpenMP runtime is a
    link to `library`. It is made in Weft's cache if it is missing.
    """
    key = hashlib.sha256(str(library).encode()).hexdigest()[:16]
    folder = cache_folder() / "openmp" / key
    make_private(folder)
    for name in NAMES:
        link = folder / name
        if not (link.is_symlink() and link.readlink() == library):
            fresh = folder / f".{name}.{os.getpid()}"
            fresh.symlink_to(library)
            fresh.replace(link)
    return folder


def tool_environment(library: str) -> dict[str, str]:
    """Return the environment variables that give a program LLVM's runtime and Weft's tool."""
    paths = [str(make_runtime_folder(select_runtime(library))), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {"LD_LIBRARY_PATH": ":".join(paths), "OMP_TOOL_LIBRARIES": str(build_tool()), "OMP_TOOL": "enabled"}


def schedule_environment(mode: str, file: str) -> dict[str, str]:
    """Return the environment variables with which Weft's tool records or replays the order in which tasks take their
    turns. `mode`: `record` or `replay`; `file`: the path of the file with the order.
    """
    preloaded = [str(build_tool()), *filter(None, [os.environ.get("LD_PRELOAD")])]
    return {"WEFT_INTERNAL_TASKS_TURNS": f"{mode}:{Path(file).resolve()}", "LD_PRELOAD": ":".join(preloaded)}


def replay_environment(programs: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return the environment variables with which Weft's OMPT tool follows the tasks in the ranks of a replay. Empty if
    no program has OpenMP tasks that Weft can follow. `programs`: their command lines.
    """
    for program in programs:
        found = shutil.which(program[0])
        with suppress(WeftError):
            if found is not None:
                require_followable_program(Path(found))
                return tool_environment("")
    return {}


def recording_environment(programs: Iterable[Sequence[str]], run: Path) -> dict[str, str]:
    """Return the environment variables with which the ranks of a run record the task of each call, into RUN/tasks.

    UsageError if a program has OpenMP tasks that cannot be followed; a program without tasks runs unchanged.
    """
    wanted = {"WEFT_INTERNAL_TASKS": str(run), "WEFT_INTERNAL_TASKS_LIBRARY": str(_build_birth_library())}
    wanted["PYTHONPATH"] = os.pathsep.join(filter(None, [str(INSIDE / "start"), os.environ.get("PYTHONPATH")]))
    for program in programs:
        found = shutil.which(program[0]) if program else None
        if found is not None and has_openmp(Path(found).read_bytes()):
            require_followable_program(Path(found))
            wanted |= tool_environment("")
    return wanted


def build_tool() -> Path:
    """Return the path of Weft's OMPT tool. It is compiled at first use with the system's compiler. DebuggerError if
    that fails.
    """
    return _build_library("tool.c", "turns.c", "turns.h", "holds.c", "holds.h", "table.h", "ompt.h", *SWITCHES)


def find_birth_library() -> str:
    """Return the path of the C library that numbers asyncio's tasks. Empty if it cannot be built: then Python code
    numbers them.
    """
    try:
        return str(_build_birth_library())
    except DebuggerError:
        return ""


def _build_birth_library() -> Path:
    return _build_library("births.c", "steps.c", "births.h", *SWITCHES)


def _find_source(name: str) -> Traversable:
    """Return a source file of tasks/native, or of the native code that all of Weft shares."""
    own = files("weft.tasks") / "native" / name
    return own if own.is_file() else files("weft.native") / name


def _build_library(*source_names: str) -> Path:
    """Return the path of a shared library that is made of these source files of tasks/native. It is compiled at first
    use, and kept in the cache. DebuggerError if that fails.
    """
    sources = {name: _find_source(name).read_bytes() for name in source_names}
    key = hashlib.sha256(
        b"".join([*sources.values(), *(flag.encode() for flag in (*FLAGS, SOURCE_PREFIX))])
    ).hexdigest()[:16]
    target = cache_folder() / f"libweft-tasks-{Path(source_names[0]).stem}-{key}.so"
    if is_safely_cached(target):
        return target
    compiler = shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise DebuggerError("Weft needs a C compiler for its library inside the program and found none: install gcc")
    make_private(target.parent)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        for name, text in sources.items():
            Path(folder, name).write_bytes(text)
        made = Path(folder, "made.so")
        command = [
            compiler,
            *FLAGS,
            f"-ffile-prefix-map={folder}={SOURCE_PREFIX}",
            "-o",
            str(made),
            *(str(Path(folder, name)) for name in source_names if name.endswith(".c")),
            "-ldl",
            "-pthread",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise DebuggerError(f"Weft's library inside the program cannot be built: {done.stderr.strip()}")
        made.replace(target)
    return target
