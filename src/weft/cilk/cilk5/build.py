"""Compiles sources in Cilk-5's language to a program with Weft's part: cpp, cilk2c, cpp and gcc, as cilkc does.

Cilk-5 is the user's own and stays unchanged: a header before its `cilk-cilk2c.h` defines what the output calls.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft.errors import UsageError

NATIVE = Path(__file__).parent / "native"
PLACES = (
    "CILK_ROOT names its folder, or its cilkc is on the PATH; `make cilk5` in Weft's repository fetches it from "
    "https://github.com/zakkak/cilk and builds it"
)
SOURCES = (".cilk", ".c", ".o", ".a")
"""What may stand on the command line after the first source, before the program's arguments."""
FRAME = re.compile(r"(?<=struct )_cilk_(\w+)_frame\{CilkStackFrame header;")
"""The frame that cilk2c makes for a procedure."""
SCOPES = re.compile(r"struct _cilk_(\w+)_frame\{CilkStackFrame header;((?:struct\{[^{}]*\}scope\d+;)*)\};")
SCOPE = re.compile(r"struct\{([^{}]*)\}scope(\d+);")
FIELD = re.compile(r"\(\*\s*(\w+)\)|(\w+)\s*(?:\[[^;]*\])*;")
"""The variables of a procedure's blocks, as its frame has room for them."""
OPENED = re.compile(
    r"^# (\d+)[^\n]*\n((?:(?!^#)[^;{}])*?\b(\w+)\s*\(CilkWorkerState\*const _cilk_ws[^;{}]*)\{[^\n]*CILK2C_INIT_FRAME",
    re.M,
)
"""The head of a fast clone: the line that it begins in, all up to its first brace, and the name."""
KEPT = re.compile(r"_cilk_sync(\d+):((?:\w+=_cilk_frame->scope\d+\.\w+;)*)")
"""Where a slow clone goes on, and the variables that it takes from its frame there."""


@dataclass(frozen=True, slots=True)
class CilkInstallation:
    """A Cilk-5 of this machine."""

    compiler: Path
    headers: Path
    libraries: tuple[Path, ...]


@dataclass(slots=True)
class Procedures:
    """What cilk2c's output tells of a program's procedures, by their names.

    `opened`: the last line of the head, with the end of the parameters. `scopes`: the blocks of the procedure's frame
    with each variable. `kept`: what a slow clone takes back from the frame at a spawn or sync. `saved`: the variables
    that are ever stored in the frame.
    """

    opened: dict[str, int] = field(default_factory=dict)
    scopes: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    kept: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    saved: dict[str, frozenset[str]] = field(default_factory=dict)


def _cilk_roots() -> Iterator[Path]:
    """Yield the folders in which a Cilk-5 may be installed."""
    if os.environ.get("CILK_ROOT"):
        yield Path(os.environ["CILK_ROOT"])
        return
    if found := shutil.which("cilkc"):
        yield Path(found).resolve().parent.parent


def find_cilk() -> CilkInstallation:
    """Return the user's installation of Cilk-5. UsageError with what to do if there is none, or only a part of one."""
    for root in _cilk_roots():
        compiler = next((p for p in (root / "bin/cilk2c", root / "lib/cilk/cilk2c") if p.is_file()), None)
        headers = next((p for p in (root / "include/cilk", root / "include") if (p / "cilk.h").is_file()), None)
        libraries = tuple(p for p in (root / "lib", root / "lib/cilk") if p.is_dir())
        if compiler is None or headers is None or not libraries:
            missing = "cilk2c" if compiler is None else "cilk.h" if headers is None else "lib"
            raise UsageError(f"{root} is not a Cilk-5: it has no {missing}. {PLACES}")
        return CilkInstallation(compiler, headers, libraries)
    raise UsageError(f".cilk files need Cilk-5, which was not found: {PLACES}; `--as-openmp` works without it")


def split_command(command: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return (the source files at the beginning of a command line, the program's arguments after them). UsageError if a
    file is missing.
    """
    count = next((n for n, word in enumerate(command) if not word.endswith(SOURCES)), len(command))
    sources = [Path(word) for word in command[:count]]
    if missing := next((path for path in sources if not path.is_file()), None):
        raise UsageError(f"{missing}: there is no such file")
    return sources, list(command[count:])


def build_program(sources: Sequence[Path], build_folder: Path) -> tuple[Path, Procedures]:
    """Compile Cilk-5 sources, and return (path of the executable in `build_folder`, what is known of the program's
    procedures). UsageError with the compiler's own words if that fails.
    """
    cilk, known = find_cilk(), Procedures()
    options = shlex.split(os.environ.get("CILKFLAGS", ""))
    parts = [
        _compile_source(source, build_folder / f"{n}-{source.stem}", cilk, options, known)
        if source.suffix == ".cilk"
        else source
        for n, source in enumerate(sources)
    ]
    program = build_folder / sources[0].stem
    where = [option for place in cilk.libraries for option in (f"-L{place}", f"-Wl,-rpath,{place}")]
    named = [word for word in options if word.startswith(("-O", "-l", "-L"))]
    _run_compiler([
        *_compiler(), "-g", "-O0", *_paths(cilk), *options, "-w", *map(str, parts), str(NATIVE / "weft-cilk.c"), "-o",
        str(program), *where, *named, "-lcilkrt0", "-lcilk", "-ldl", "-lm", "-pthread",
    ])  # fmt: skip
    return program, known


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or "gcc")


def _paths(cilk: CilkInstallation) -> list[str]:
    return [f"-I{NATIVE / 'header'}", f"-I{NATIVE}", f"-I{cilk.headers}", "-D_REENTRANT"]


def _compile_source(
    source: Path, base_path: Path, cilk: CilkInstallation, options: list[str], procedures: Procedures
) -> Path:
    """Compile one source file, and return the path of its object file. Its procedures are added to `procedures`.
    `base_path`: the path of the files to write, without suffix.
    """
    plain = [
        option for option in options if not option.startswith("-O")
    ]  # with one, headers hold what cilk2c cannot read
    expanded, made, target = (base_path.with_suffix(suffix) for suffix in (".cilki", ".c", ".o"))
    _run_compiler([*_compiler(), "-E", "-xc", "-include", str(cilk.headers / "cilk.h"), f"-I{NATIVE / 'first'}",
          f"-I{cilk.headers}", "-D__CILK__", "-D__CILK2C__", "-D__REENTRANT", *plain, str(source.resolve()),
          "-o", str(expanded)])  # fmt: skip
    _run_compiler([str(cilk.compiler), str(expanded), "-o", str(made)])
    made.write_text(add_task_records(made.read_text("latin-1"), procedures), "latin-1")  # bytes as they are
    _run_compiler([*_compiler(), "-g", "-O0", *_paths(cilk), *options, "-w", "-c", str(made), "-o", str(target)])
    return target


def add_task_records(c_code: str, procedures: Procedures) -> str:
    """Return cilk2c's output with Weft's record of a task added to each procedure's frame. The procedures and their
    variables are added to `procedures`.

    The record is in the frame's own type, so that all sizes and offsets that cilk2c asks the C compiler for stay true.
    """
    for name, blocks in SCOPES.findall(c_code):
        procedures.scopes[name] = [
            (int(n), a or b) for inner, n in SCOPE.findall(blocks) for a, b in FIELD.findall(inner)
        ]
    procedures.opened.update((name, int(line) + head.count("\n")) for line, head, name in OPENED.findall(c_code))
    begins = [*FRAME.finditer(c_code)]
    ends = [found.start() for found in begins[1:]] + [len(c_code)] * bool(begins)
    for found, end in zip(begins, ends, strict=True):
        clones = c_code[found.end() : end]
        procedures.saved[found[1]] = frozenset(re.findall(r"_cilk_frame->scope\d+\.(\w+)=", clones))
        for label, names in KEPT.findall(clones):
            taken = frozenset(word.partition("=")[0] for word in names.split(";") if word)
            procedures.kept[found[1], int(label)] = taken
    return FRAME.sub(r"_cilk_\1_frame{CilkStackFrame header;struct weft_cilk_task weft;", c_code)


def _run_compiler(command: list[str]) -> None:
    """Run one compiler. UsageError with the end of its output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise UsageError(f"{Path(command[0]).name} cannot compile it:\n" + "\n".join(said[-12:]))
    if Path(command[0]).name == "cilk2c":
        for line in done.stderr.splitlines():
            if not line.startswith("/usr/"):  # it knows less than the C library's headers say today
                print(line, file=sys.stderr)
