"""A marked program: compiled with the compiler's hooks, linked with the runtime, and run once."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.check import process
from weft.check.assembly import rewrite
from weft.check.process import Ended
from weft.check.runtime import WRAPPED, compiler, is_clang, objects, sources
from weft.check.texts import Marked
from weft.errors import UsageError, WeftError

COMPILE_SECONDS: Final = 600
HOOKS: Final = ("-fsanitize=thread",)
# clang's thread sanitizer leaves out what another thread could not see: reads of local arrays, reads before a write.
CLANG_HOOKS: Final = (
    *HOOKS, "-mllvm", "-tsan-instrument-memory-accesses=0", "-fsanitize-coverage=func,trace-loads,trace-stores",
    "-fno-sanitize=local-bounds",  # that one ends the program
)  # fmt: skip
C_FLAGS: Final = (
    "-O1",
    "-gdwarf-4",
    "-fno-var-tracking",  # only lines are asked for: where variables lie takes most of a compiler's time
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-fsanitize=bounds",
    "-fno-builtin-memset",  # the wrapped functions are to be called
    "-fno-builtin-memcpy",
    "-fno-builtin-memmove",
    "-w",
)
FORTRAN_FLAGS: Final = (
    "-O1", "-gdwarf-4", "-fno-var-tracking", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-w",
    "-fcheck=bounds",
    "-ffixed-line-length-none", "-ffree-line-length-none",
)  # fmt: skip
_LANGUAGE: Final = {".c": "c", ".cpp": "c++", ".f": "fortran", ".f90": "fortran"}
_MESSAGE: Final = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+)(:(?P<column>\d+))?:?\s+(fatal )?error: (?P<text>.*)$", re.M | re.I
)
_GFORTRAN: Final = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+):$", re.M)


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile: what the user's own line would have."""

    include: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """Passed to every compiler as they are."""
    link: tuple[str, ...] = ()


def build(marked: Sequence[Marked], folder: Path, options: Options = Options()) -> Path:
    """Compile and link in `folder`; the program. UsageError with the compiler's first error where that fails."""
    languages = [_LANGUAGE[one.suffix] for one in marked]
    made = []
    for number, (one, language) in enumerate(zip(marked, languages, strict=True)):
        source = folder / f"{number}-{one.original.stem}{one.suffix}"
        text = one.text
        if language != "fortran" and not text.startswith("#line"):
            text = f'#line 1 "{one.original}"\n{text}'
        source.write_text(text, encoding="utf-8", errors="surrogateescape")
        assembly, target = source.with_suffix(".s"), source.with_suffix(".o")
        flags = FORTRAN_FLAGS if language == "fortran" else C_FLAGS
        hooks = CLANG_HOOKS if language != "fortran" and is_clang(compiler(language)) else HOOKS
        command = [
            *compiler(language).split(), *flags, *hooks, "-S", str(source), "-o", str(assembly),
            *(["-J", str(folder)] if language == "fortran" else []),
            f"-I{sources()}", f"-I{one.original.parent}", *(f"-I{path}" for path in options.include),
            *(f"-D{name}" for name in options.define), *options.flags,
        ]  # fmt: skip
        _compile(command, one.original, folder)
        text = rewrite(assembly.read_text(errors="surrogateescape"), gcc=hooks is HOOKS)
        assembly.write_text(text, errors="surrogateescape")
        _compile([*compiler(language).split(), "-c", str(assembly), "-o", str(target)], one.original, folder)
        made.append(str(target))
    fortran = "fortran" in languages
    linker = compiler("fortran" if fortran else "c++" if "c++" in languages else "c").split()
    program = folder / marked[-1].original.stem
    command = [
        *linker, "-g", "-o", str(program), *made, str(objects(fortran)), *(f"-Wl,--wrap={name}" for name in WRAPPED),
        *options.link, *(["-lstdc++"] if fortran and "c++" in languages else []), "-lm", "-lpthread", "-ldl",
    ]  # fmt: skip
    _compile(command, marked[-1].original, folder)
    return program


def _compile(command: list[str], original: Path, folder: Path) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False, errors="replace",
            env=environment,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WeftError(f"{original} cannot be compiled: {error}") from error
    if done.returncode:
        raise UsageError(_first_error(done.stderr, original, folder))


def _first_error(output: str, original: Path, folder: Path) -> str:
    """`jac.c:12:3: error ...: mend that first`, with the user's own file and line."""
    found = _MESSAGE.search(output)
    if found and not re.match(rf"{re.escape(str(folder))}/\d+-", found["file"]):
        return f"{found['file']}:{found['line']}: the program does not compile: {found['text']}"
    place = _GFORTRAN.search(output)
    texts = [line for line in output.splitlines() if re.match(r"(fatal )?error:", line, re.I)]
    if place and texts:
        return f"{place['file']}:{place['line']}: the program does not compile: {texts[0].partition(':')[2].strip()}"
    undefined = re.search(r"undefined reference to [`'](?P<name>[^']+)'", output)
    if undefined:
        return (
            f"{original}: the program does not link: {undefined['name']} is defined nowhere; "
            "name its file or library on the command line"
        )
    tail = (output.strip().splitlines() or ["no message"])[-1]
    return f"{original}: the program does not compile: {tail}"


def execute(
    program: Path, arguments: Sequence[str], findings: Path, grid: str = "", timeout: float | None = None
) -> Ended:
    """Run the program with its standard streams as they are."""
    environment = {**os.environ, "WEFT_CHECK_FINDINGS": str(findings)}
    if grid:
        environment["WEFT_CHECK_GRID"] = grid
    findings.touch()
    return process.execute([str(program), *arguments], environment, timeout)
