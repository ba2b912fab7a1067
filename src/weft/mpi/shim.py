"""Builds the recorder for one MPI library with the user's own mpicc, once, into a cache.

The three ABIs of MPI (MPICH, Open MPI, the standard's own) differ in handles, constants and the layout of a status,
so the recorder is compiled against the header that the program was compiled with.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from weft.base.cache import exclusive_build
from weft.base.lifetime import temporary_folder
from weft.errors import WeftError
from weft.mpi import access_hooks, generate, generic_wrapper, prebuilt, table, tools
from weft.mpi.prebuilt import BuiltRecorder
from weft.safety.folders import cache_folder, is_safely_cached, make_private

_SOURCES = ("process.c", "shim.c", "objects.c", "rings.c", "peek.c", "sites.c", "python.c", "outcomes.c", "replay.c",
            "threads.c", "windows.c", "turns.c", "ends.c", "buffers.c", "blocks.c", "access.c", "memory.c", "endings.c",
            "crash.c", "leaving.c", "cores.c", "shared.c", "seldom.c", "strangers.c", "hashes.c", "halo.c",
            "halo_log.c", "halo_infer.c")  # fmt: skip
_BY_HAND = (("o", ("outcomes.c", "windows.c")), ("p", ("replay.c", "turns.c")), ("t", ("threads.c",)))
_HEADERS = (
    "calls.h",
    "nibbles.h",
    "process.h",
    "shim.h",
    "wrap.h",
    "stub.h",
    "plan.h",
    "replay.h",
    "endings.h",
    "seldom.h",
    "times.h",
    "access.h",
    "halo.h",
    "halo_kinds.h",
    "own_memory.h",
    "peek.h",
    "client.h",
)
_INSIDE = "leaving.py"  # runs in Python programs
_TOGETHER = {
    "hot": ("objects.c", "peek.c", "sites.c", "buffers.c", "access.c", "python.c"),
    "warm": ("blocks.c", "rings.c", "seldom.c", "shim.c", "threads.c", "windows.c", "outcomes.c"),
    "follow": ("replay.c", "turns.c"),
    "hashed": ("hashes.c", "halo.c", "halo_log.c", "halo_infer.c"),
    "cold": (
        "endings.c",
        "crash.c",
        "leaving.c",
        "ends.c",
        "cores.c",
        "strangers.c",
        "memory.c",
        "tables.c",
        "accessed.c",
        "seldom_table.c",
    ),
}
"""Sources that are compiled as one, as every compilation reads mpi.h: what each recorded call goes through, what loops
seldom meet, what a replay adds, what hashes messages, and what runs once."""
_EFFORT = {
    "process.c": ["-O2"],
    "shared.c": ["-O2"],
    "cold.c": ["-O0"],
    "lean.c": ["-O0", "-DWEFT_LEAN"],
}
"""How hard the compiler is to try where it is not -O1: on most of what each call goes through -O2 gains nothing that
counts (benchmarks/capture.py --only instructions), and of what is called seldom only the time to compile it counts."""
_LINK = ("-s", "-Wl,-z,noexecstack", "-Wl,-z,defs", "-ldl", "-lpthread")
"""Without the recorder's own names: a debugger would offer them beside the program's."""
_PROBE = """#include <mpi.h>
#include <stdio.h>
int main(void) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING]; int length;
    if (MPI_Get_library_version(version, &length)) return 1;
    puts(version);
    return 0;
}
"""


class RecorderError(WeftError):
    """The recorder cannot be built: no compiler, no mpicc, or one that does not work."""


@dataclass(frozen=True)
class Library:
    """What an mpicc links programs with: path and soname of libmpi, its version text, and what it exports: functions,
    Fortran's entries, variables that predefined handles stand for."""

    path: Path
    soname: str
    version: str
    exported: frozenset[str]
    fortran: tuple[str, ...]
    variables: tuple[str, ...]


def run_tool(command: list[str], purpose: str, cwd: Path) -> str:
    """Run a compiler or another tool in the folder `cwd`, and return what it prints. RecorderError if it fails, with
    the `purpose` it was needed for.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, cwd=cwd, check=False, errors="replace",
            env=tools.tool_environment(command[0]),
        )  # fmt: skip
    except FileNotFoundError:
        raise RecorderError(f"{command[0]} is missing, and Weft needs it to {purpose}: install it") from None
    except subprocess.TimeoutExpired:
        raise RecorderError(f"`{' '.join(command)}` did not end within 300 s") from None
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
        raise RecorderError(f"cannot {purpose}: `{' '.join(command)}` failed:\n{tail}")
    return done.stdout


def _list_symbols(path: Path, kinds: str = "TWi") -> set[str]:
    """Return the names of the symbols that a library defines. `kinds`: the letters by which nm marks the kinds to
    list.
    """
    out = run_tool(["nm", "-D", "--defined-only", str(path)], f"read the symbols of {path}", path.parent)
    return {
        fields[2].split("@")[0] for line in out.splitlines() if len(fields := line.split()) == 3 and fields[1] in kinds
    }


def _linked_libraries(binary: Path) -> dict[str, Path]:
    out = run_tool(["ldd", str(binary)], "see which MPI library the compiler links", binary.parent)
    return {m[1]: Path(m[2]) for m in re.finditer(r"^\s*(\S+) => (\S+) \(", out, re.MULTILINE)}


def probe_library(mpicc: str) -> Library:
    """Return which MPI library an mpicc links. To see this, a program of five lines is compiled and run. RecorderError
    if that fails.
    """
    with temporary_folder("probe") as folder:
        source = Path(folder) / "probe.c"
        source.write_text(_PROBE)
        run_tool([mpicc, "-o", str(source.with_suffix("")), str(source)], f"compile with {mpicc}", source.parent)
        version = run_tool([str(source.with_suffix(""))], "ask the MPI library for its version", source.parent)
        linked = _linked_libraries(source.with_suffix(""))
    candidates = [(name, path) for name, path in linked.items() if re.match(r"libmp(i|ich)\w*\.so", name)]
    for name, path in candidates:
        symbols = _list_symbols(path)
        if "PMPI_Init" in symbols:
            exported = frozenset(s for s in symbols if s.startswith("MPI_") and "P" + s in symbols)
            return Library(
                path.resolve(),
                name,
                version.strip(),
                exported,
                _fortran_entries(path, symbols),
                _handle_variables(linked),
            )
    raise RecorderError(
        f"programs compiled with {mpicc} are not linked with a shared libmpi (found {sorted(linked)}), so Weft cannot "
        "record them"
    )


def _handle_variables(linked: dict[str, Path]) -> tuple[str, ...]:
    """Return the names of the library's variables that predefined handles point to. Open MPI has them in libmpi, from 6
    on in libopen_mpi. `linked`: the libraries that the program links.
    """
    handle = re.compile(r"ompi_(mpi|request|message)_\w+|MPI_(UNWEIGHTED|WEIGHTS_EMPTY)")
    libraries = [path for name, path in linked.items() if re.match(r"lib(open_)?mp(i|ich)\w*\.so", name)]
    return tuple(sorted({v for path in libraries for v in _list_symbols(path, "BDRV") if handle.fullmatch(v)}))


def _fortran_entries(path: Path, symbols: set[str]) -> tuple[str, ...]:
    """Return the names of the Fortran functions that the library and its companions export. They are wrapped so that
    calls have the lines of the Fortran program.
    """
    names = set(symbols)
    for companion in path.resolve().parent.glob("libmpi*.so*"):
        if re.match(r"libmpi(\w*fort|_mpifh|_usempi\w*)\w*(-gfortran)?\.so\.\d+$", companion.name):
            names |= _list_symbols(companion)
    entry = re.compile(r"mpi_[a-z0-9_]+?(_f08|_f08ts|_f|_cptr)?_{1,2}")
    internal = re.compile(r"mpi_(conversion_fn_null|\w*_(copy|delete)_fn\w*|\w*dup_fn\w*|sizeof\w*)_*")
    return tuple(sorted(n for n in names if entry.fullmatch(n) and not internal.fullmatch(n)))


def _read_sources() -> dict[str, bytes]:
    """Return the recorder's own sources: path → content."""
    weft = files("weft")
    found = {name: weft.joinpath("native", name).read_bytes() for name in ("format.h", "record.h", "record.c")}
    found["recorder/xxhash.h"] = weft.joinpath("third_party/xxhash.h").read_bytes()
    own = (f"recorder/{name}" for name in (*_SOURCES, *_HEADERS, _INSIDE))
    return found | {name: weft.joinpath(name).read_bytes() for name in own}


def _show_compiler_call(mpicc: str) -> subprocess.CompletedProcess[str]:
    """Return what `mpicc -show` prints: the compiler that mpicc calls, with its options."""
    return subprocess.run(
        [mpicc, "-show"], capture_output=True, text=True, timeout=60, check=False, env=tools.tool_environment(mpicc)
    )


def _build_key(mpicc: str, library: Library, sources: dict[str, bytes]) -> str:
    """Return a digest of everything from which the recorder is made, also of the compiler's options."""
    digest = hashlib.sha256()
    show = _show_compiler_call(mpicc)
    for part in (os.path.realpath(mpicc), show.stdout, str(library.path), library.version, library.soname, *_LINK):
        digest.update(part.encode() + b"\0")
    for name, text in sorted(sources.items()):
        digest.update(name.encode() + b"\0" + text + b"\0")
    return digest.hexdigest()[:20]


def build_shim(
    mpicc: str, cache: Path | None = None, announce: Callable[[Path], object] | None = None
) -> BuiltRecorder:
    """Return the recorder for the library that `mpicc` links; compile it if the cache has none.

    `announce` is called with the library's path before a compilation, which takes some ten seconds. RecorderError if
    mpicc, the C compiler or nm is missing or fails.
    """
    found = shutil.which(mpicc)
    if found is None:
        raise RecorderError(f"no compiler {mpicc} on the PATH, and Weft needs it to build the recorder")
    found = str(Path(found).absolute())  # it is run in other folders
    root = (cache or cache_folder()) / "shim"
    note = root / f"{_remembered_key(found)}.json"
    known = _read_note(note, root)
    if known is not None:
        if cache is None:
            prebuilt.remember_recorder(*known)
        return known[1]
    library = probe_library(found)
    sources = _read_sources() | _generate_sources(library)
    folder = root / _build_key(found, library, sources)
    shim = BuiltRecorder(folder / "libweft-shim.so", folder / "functions.json", library.soname, library.version)
    if not is_safely_cached(shim.path):
        with _building_alone(folder):
            if not shim.path.exists():
                if announce:
                    announce(library.path)
                _compile_recorder(found, sources, folder)
    _write_note(note, shim, library)
    if cache is None:
        prebuilt.remember_recorder(library.path, shim)
    return shim


def _remembered_key(mpicc: str) -> str:
    """Return a digest that changes when an mpicc may need another recorder than last time. The library itself is not
    looked at, as that takes half a second.
    """
    digest = hashlib.sha256()
    show = _show_compiler_call(mpicc)
    digest.update(f"{os.path.realpath(mpicc)} {Path(mpicc).stat().st_mtime_ns} {show.stdout}".encode())
    for text in [
        *(module.read_bytes() for module in prebuilt.generator_modules()),
        *(t for _, t in sorted(_read_sources().items())),
    ]:
        digest.update(text + b"\0")
    return digest.hexdigest()[:20]


def _file_stamp(library: Path) -> list[int]:
    status = library.stat()
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def _write_note(note: Path, shim: BuiltRecorder, library: Library) -> None:
    """Note in a file which library an mpicc links and which recorder it has, for the next run."""
    content = {"folder": shim.path.parent.name, "soname": shim.soname, "library": shim.library,
               "path": str(library.path), "stamp": _file_stamp(library.path)}  # fmt: skip
    with suppress(OSError):
        work = note.with_suffix(f".{os.getpid()}")
        work.write_text(json.dumps(content))
        work.replace(note)


def _read_note(note: Path, root: Path) -> tuple[Path, BuiltRecorder] | None:
    """Return the library and the recorder that were noted last time; None if something has changed since. `root`: the
    folder of recorders.
    """
    try:
        content = json.loads(note.read_text())
        folder = root / Path(content["folder"]).name
        shim = BuiltRecorder(
            folder / "libweft-shim.so", folder / "functions.json", content["soname"], content["library"]
        )
        unchanged = _file_stamp(Path(content["path"])) == content["stamp"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    whole = unchanged and is_safely_cached(shim.path) and shim.functions_json_path.exists()
    return (Path(content["path"]), shim) if whole else None


@contextmanager
def _building_alone(folder: Path) -> Iterator[None]:
    """During a `with` block, keep other runs from building the same recorder; they wait, and then find it.
    RecorderError if the cache cannot be written.
    """
    with ExitStack() as held:
        try:
            held.enter_context(exclusive_build(folder))
        except OSError as error:
            raise RecorderError(
                f"cannot write the recorder's cache {folder.parent}: {error.strerror}; set WEFT_CACHE to a folder "
                f"of yours"
            ) from None
        yield


@contextmanager
def build_folder(folder: Path, sources: dict[str, bytes]) -> Iterator[Path]:
    """Make a temporary folder with the files `sources`, for a `with` block, and rename it to `folder` at the end. So
    the folder is always whole, even if two runs build it at once.

    RecorderError if it cannot be written. If the block fails, nothing is left behind.
    """
    try:
        make_private(folder.parent)
        work = Path(tempfile.mkdtemp(prefix="build-", dir=folder.parent))
    except OSError as error:
        raise RecorderError(
            f"cannot write the recorder's cache {folder.parent}: {error.strerror}; set WEFT_CACHE to a folder of yours"
        ) from None
    try:
        for name, text in sources.items():
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_bytes(text)
        yield work
        try:
            work.rename(folder)
        except OSError:  # another run was first
            shutil.rmtree(work, ignore_errors=True)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _compile_recorder(mpicc: str, sources: dict[str, bytes], folder: Path) -> None:
    """Compile the sources in several processes, and link the recorder in `folder`."""
    with build_folder(folder, sources) as work:
        flags = ["-std=gnu11", "-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec", "-fexceptions",
                 "-Werror=implicit", "-I", str(work / "recorder")]  # fmt: skip
        parts = {f"recorder/{name}" for together in _TOGETHER.values() for name in together}
        units = [name for name in sources if name.endswith((".c", ".S")) and name not in parts]
        objects = [unit.rsplit(".", 1)[0].replace("/", "-") + ".o" for unit in units]
        compile_ = _compiler_command(mpicc)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            commands = [
                [*compile_, *flags, *_EFFORT.get(Path(u).name, ["-O1"]), "-c", str(work / u), "-o", str(work / o)]
                for u, o in zip(units, objects, strict=True)
            ]
            list(pool.map(lambda command: run_tool(command, "compile the recorder", work), commands))
        compiler = os.environ.get("CC") or "cc"
        link = [compiler, "-shared", "-o", "libweft-shim.so", *objects, "-Wl,-soname,libweft-shim.so"]
        link += _LINK
        run_tool(link, "link the recorder", work)
        for leftover in objects:
            (work / leftover).unlink()


def _compiler_command(mpicc: str) -> list[str]:
    """Return the compiler that `mpicc` calls, with the options that it adds; `mpicc` itself if that is not known."""
    try:
        shown = _show_compiler_call(mpicc)
        words = shlex.split(shown.stdout) if shown.returncode == 0 and shown.stdout.count("\n") == 1 else []
    except (OSError, ValueError, subprocess.TimeoutExpired):
        words = []
    kept = [word for word in words[1:] if not word.startswith(("-L", "-l", "-Wl,"))]
    whole = all(word.startswith("-") for word in kept) and any(word.startswith("-I") for word in kept)
    return [words[0], *kept] if whole and shutil.which(words[0]) else [mpicc]


def _include_all(parts: tuple[str, ...]) -> str:
    """Return a C source that includes these."""
    return "#define _GNU_SOURCE\n" + "".join(f'#include "{name}"\n' for name in parts)


def _handwritten_functions(letter: str, sources: tuple[str, ...]) -> set[str]:
    """Return the functions of MPI that are written by hand in some of the recorder's sources. `letter`: the one in the
    names of these functions, weft_LETTER_….
    """
    text = "".join(files("weft").joinpath("recorder", source).read_text() for source in sources)
    return set(
        re.findall(rf"(?:WEFT_(?:OUTCOME_WRAPPER|REPLAY_CALL|SPLIT_CALL)\(|double weft_{letter}_)(MPI_\w+)", text)
    )


def _generate_sources(library: Library) -> dict[str, bytes]:
    """Return the sources that are generated for a library, by file name, and the functions.json of its runs."""
    functions = generate.select_recorded(set(library.exported))
    fortran, variables = list(library.fortran), list(library.variables)
    by_hand = {
        letter: _handwritten_functions(letter, sources) & {f.name for f in functions} for letter, sources in _BY_HAND
    }
    mpi = {"library": library.version, "soname": library.soname, "path": str(library.path)}
    texts = {
        "recorder/names.h": generate.render_names_h(functions, variables),
        "recorder/predefined.h": generate.render_predefined_h(),
        "recorder/tables.c": generate.render_tables_c(functions, by_hand, library.soname, fortran, variables),
        "recorder/stubs.S": generate.render_stubs(
            functions, fortran, [f for f in functions if generic_wrapper.is_generic(f)]
        ),
        "recorder/leaving_py.h": generate.render_text_h("weft_leaving_py", _read_sources()[f"recorder/{_INSIDE}"]),
        "recorder/seldom_table.c": generic_wrapper.render_table_c(functions),
        "recorder/often.c": generate.render_wrappers_c([f for f in functions if generic_wrapper.is_called_in_loops(f)]),
        "recorder/lean.c": generate.render_wrappers_c(
            [f for f in functions if not generic_wrapper.is_called_in_loops(f) and not generic_wrapper.is_generic(f)]
        ),
        "recorder/accessed.c": access_hooks.render_access_hooks(functions),
        **{f"recorder/{name}.c": _include_all(parts) for name, parts in _TOGETHER.items()},
        "functions.json": json.dumps(table.to_json(set(library.exported), mpi)),
    }
    return {name: text.encode() for name, text in texts.items()}
