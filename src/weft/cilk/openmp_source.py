"""Translates Cilk's keywords to OpenMP, line for line, so that a program can be debugged without a compiler for Cilk.

Keywords are `cilk_spawn`, `cilk_sync`, `cilk_for`, `cilk_scope` of OpenCilk and Cilk Plus (and `_Cilk_...`), and in
`.cilk` files Cilk-5's `cilk`, `spawn` and `sync`. A spawn's arguments are evaluated at the spawn, and a function waits
for its children before it returns (Frigo, Leiserson and Randall, 1998). One thing differs: a child runs later, while
its parent continues; Cilk runs the child at once and lets a thief take the parent.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from weft.errors import UsageError

ENDINGS = {".c": "c", ".cilk": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++"}
KEEP = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
"""What is no code: comments and texts."""
WAIT = '_Pragma("omp taskwait")'
REFUSED = re.compile(r"\b(inlet|abort|SYNCHED|cilk_reducer|_Hyperobject|reducer_\w+|cilk::\w*reducer\w*)\b")
CILK5 = ("inlet", "abort", "SYNCHED")
INCLUDE = re.compile(r"^[ \t]*#[ \t]*(include[ \t]*[<\"]cilk[^\n]*|pragma[ \t]+cilk[^\n]*)", re.M)
CALL = re.compile(
    r"\s*(?P<base>[A-Za-z_]\w*(?:(?:\.|->)[A-Za-z_]\w*)*(?:\.|->))?(?P<name>[A-Za-z_][\w:]*(?:<[^;()]*>)?)\s*\("
)
PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class TextEdit:
    """Replacement of the text from `start` to `end`."""

    start: int
    end: int
    text: str


class CilkSource:
    """One source file. `code` is its text with comments and strings blanked out, with the same length and lines."""

    def __init__(self, name: str, text: str) -> None:
        ending = Path(name).suffix
        if ending not in ENDINGS:
            raise UsageError(f"{name}: neither C, C++ nor Cilk: its name should end in {', '.join(ENDINGS)}")
        self.name, self.text = name, text
        self.cxx = ENDINGS[ending] == "c++"
        self.code = KEEP.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
        old = ending == ".cilk"
        self.spawn = r"\b(?:cilk_spawn|_Cilk_spawn" + (r"|spawn)\b" if old else r")\b")
        self.sync = r"\b(?:cilk_sync|_Cilk_sync" + (r"|sync)\b\s*;" if old else r")\b\s*;")
        self.is_cilk5 = old
        self._made = 0

    def describe_position(self, position: int) -> str:
        """Return `prog.c:9` for a position in the text."""
        return f"{Path(self.name).name}:{self.text.count(chr(10), 0, position) + 1}"

    def auto_type(self) -> str:
        """Return the keyword that gives a variable the type of its value."""
        return "auto" if self.cxx else "__auto_type"

    def new_name(self) -> str:
        """Return a variable name that the program does not use."""
        self._made += 1
        return f"weft_{self._made}"

    def find_closing_bracket(self, position: int) -> int:
        """Return the position of the bracket that closes the bracket at `position`. UsageError if there is none."""
        stack = []
        for i in range(position, len(self.code)):
            letter = self.code[i]
            if letter in "([{":
                stack.append(letter)
            elif letter in PAIRS:
                if not stack or stack.pop() != PAIRS[letter]:
                    break
                if not stack:
                    return i
        raise UsageError(f"{self.describe_position(position)}: this bracket is not closed")

    def find_statement_start(self, position: int) -> int:
        """Return the position at which the statement around `position` begins."""
        i = position
        while i and self.code[i - 1] not in ";{}:":
            i -= 1
            if self.code[i] == ")" and not re.match(r"\)\s*[\w.\->\[\]]*\s*[-+*/]?=", self.code[i:position]):
                return (
                    i + 1 + len(self.code[i + 1 : position]) - len(self.code[i + 1 : position].lstrip())
                )  # after `if (...)`
        found = re.match(r"\s*((else|do)\b\s*)?", self.code[i:position])
        return i + (found.end() if found is not None else 0)


def translate_to_openmp(name: str, text: str) -> str:
    """Return the text of a Cilk source file translated to OpenMP, for the same lines. UsageError with the line if
    OpenMP's tasks cannot express something. `name`: the path of the file.
    """
    source = CilkSource(name, text)
    found = next((f for f in REFUSED.finditer(source.code) if source.is_cilk5 or f[1] not in CILK5), None)
    if found is not None:
        raise UsageError(f"{source.describe_position(found.start())}: `{found[1]}` has no counterpart in OpenMP tasks")
    edits = [TextEdit(f.start(), f.end(), "") for f in INCLUDE.finditer(text)]
    edits += [TextEdit(f.start(), f.end(), f"{{ {WAIT} }}") for f in re.finditer(source.sync, source.code)]
    edits += edit_loops(source) + edit_functions(source)
    edits += [
        TextEdit(f.start(), f.end(), '_Pragma("omp taskgroup")') for f in re.finditer(r"\bcilk_scope\b", source.code)
    ]
    if source.is_cilk5:
        edits += [TextEdit(f.start(), f.end(), "") for f in re.finditer(r"\bcilk\b(?=\s+\w)", source.code)]
    edits += [TextEdit(end, end, "return 0; ") for _, end in find_main(source)]
    return f'#line 1 "{name}"\n' + apply_edits(text, edits) + render_main(source)


def apply_edits(text: str, edits: list[TextEdit]) -> str:
    """Return a text with all edits applied; lines keep their numbers."""
    out, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < at:
            continue  # within one that was made already
        lost = text.count("\n", edit.start, edit.end) - edit.text.count("\n")
        out += [text[at : edit.start], edit.text, "\n" * lost]
        at = edit.end
    return "".join([*out, text[at:]])


def edit_loops(source: CilkSource) -> list[TextEdit]:
    """Return the edits that make each `cilk_for` a taskloop of OpenMP, which waits for its tasks as Cilk does."""
    found = []
    for loop in re.finditer(r"\b(?:cilk_for|_Cilk_for)\b", source.code):
        head = source.code.index("(", loop.end())
        body = source.find_closing_bracket(head) + 1
        first = body + len(source.code[body:]) - len(source.code[body:].lstrip())
        end = source.find_closing_bracket(first) if source.code[first] == "{" else source.code.index(";", body)
        if (spawn := re.search(source.spawn, source.code[body:end])) is not None:
            place = source.describe_position(body + spawn.start())
            raise UsageError(
                f"{place}: a spawn within `cilk_for` is not supported: put the body of the loop into a function of "
                "its own"
            )
        found.append(TextEdit(loop.start(), loop.end(), '_Pragma("omp taskloop default(shared)") for'))
    return found


def edit_functions(source: CilkSource) -> list[TextEdit]:
    """Return the edits that translate the spawns in all functions. A function with spawns also waits for its children
    before it returns, as in Cilk.
    """
    found: list[TextEdit] = []
    depth, start = 0, None
    for i, letter in enumerate(source.code):
        if letter == "{":
            if start is None and re.search(r"\)\s*(const|noexcept|override|\s)*$", source.code[max(0, i - 200) : i]):
                start, depth = i, 0
            depth += 1
        elif letter == "}":
            depth -= 1
            if start is not None and depth == 0:
                found += edit_function(source, start, i)
                start = None
    return found


def edit_function(source: CilkSource, start: int, end: int) -> list[TextEdit]:
    """Return the edits that translate the spawns in one function, and let it wait for its children before each return.
    `start`, `end`: the positions of its braces. Empty if it spawns nothing.
    """
    spawns = [start + f.start() for f in re.finditer(source.spawn, source.code[start:end])]
    if not spawns:
        return []
    found = [edit_spawn(source, at) for at in spawns]
    for back in re.finditer(r"\breturn\b", source.code[start:end]):
        at = start + back.start()
        stop = source.code.index(";", at)
        value = source.text[at + 6 : stop]
        name = source.new_name()
        if not value.strip() or value.strip().startswith("{"):
            text = f"{{ {WAIT} return{value}; }}"
        else:
            kind = "decltype(auto)" if source.cxx else "__auto_type"
            text = f"{{ {kind} {name} = ({value.strip()}); {WAIT} return {name}; }}"
        found.append(TextEdit(at, stop + 1, text))
    return [*found, TextEdit(end, end, f"{WAIT} ; ")]


def edit_spawn(source: CilkSource, position: int) -> TextEdit:
    """Return the edit that turns a spawned call into a task of OpenMP. The arguments are evaluated before the task
    begins, and the task gets copies. `position`: of the keyword.
    """
    begin = source.find_statement_start(position)
    word = re.match(source.spawn, source.code[position:])
    call = CALL.match(source.code, position + (word.end() if word is not None else 0))
    if call is None:
        raise UsageError(f"{source.describe_position(position)}: only a call of a named function can be spawned")
    shut = source.find_closing_bracket(call.end() - 1)
    if not (ends := re.match(r"\s*;", source.code[shut + 1 :])):
        raise UsageError(
            f"{source.describe_position(position)}: a spawn must be a statement of its own, or the whole right side "
            "of an assignment"
        )
    before, own, held = "", [], []
    target = ""
    if left := source.text[begin:position].strip():
        before, target = split_assignment(source, left, position)
        held.append(f"{source.auto_type()} {(pointer := source.new_name())} = &({target});")
        own.append(pointer)
        target = f"*{pointer} {re.search(r'([-+*/|&^]?=)$', left)[1]} "  # type: ignore[index]
    base = call["base"] or ""
    if base:
        bare, dot = (base[:-2], False) if base.endswith("->") else (base[:-1], True)
        held.append(f"{source.auto_type()} {(pointer := source.new_name())} = {f'&({bare})' if dot else f'({bare})'};")
        own.append(pointer)
        base = f"{pointer}->"
    names = []
    for argument in split_arguments(source, call.end(), shut):
        held.append(f"{source.auto_type()} {(name := source.new_name())} = ({argument});")
        names.append(name)
    clause = f" firstprivate({', '.join([*own, *names])})" if own or names else ""
    text = (
        f'{before}{{ {" ".join(held)} _Pragma("omp task{clause}") {target}{base}{call["name"]}({", ".join(names)}); }}'
    )
    return TextEdit(begin, shut + 1 + ends.end(), text)


def split_assignment(source: CilkSource, text_before_spawn: str, position: int) -> tuple[str, str]:
    """Return (declaration, variable) for a spawn whose result is assigned. The declaration is empty if the variable was
    declared before.

    `text_before_spawn`: the statement up to the spawn, with the `=`. UsageError if it is no assignment.
    """
    if (found := re.fullmatch(r"(?s)(.*?)\s*[-+*/|&^]?=", text_before_spawn)) is None:
        raise UsageError(
            f"{source.describe_position(position)}: a spawn must be a statement of its own, or the whole right side "
            "of an assignment"
        )
    target = found[1]
    declared = re.fullmatch(r"(?s)((?:const\s+)?[A-Za-z_][\w:<>, ]*[\s*&]+)([A-Za-z_]\w*)", target)
    if declared is not None and declared[1].strip() == "auto":
        raise UsageError(
            f"{source.describe_position(position)}: the type of this variable is `auto`, and a spawn sets it: write "
            "its type"
        )
    return (f"{target}; ", declared[2]) if declared is not None else ("", target)


def split_arguments(source: CilkSource, start: int, end: int) -> list[str]:
    """Return the arguments of a call as texts. `start`, `end`: the positions between its parentheses."""
    found, depth, at = [], 0, start
    for i in range(start, end):
        depth += (source.code[i] in "([{") - (source.code[i] in ")]}")
        if source.code[i] == "," and depth == 0:
            found.append(source.text[at:i].strip())
            at = i + 1
    last = source.text[at:end].strip()
    return [*found, last] if last or found else []


def find_main(source: CilkSource) -> list[tuple[str, int]]:
    """Return, in a list, (parameters of the program's `main`, position of its closing brace). The list is empty if the
    file has no `main`.
    """
    found = re.search(r"\bmain\s*\(([^)]*)\)\s*\{", source.code)
    return [] if found is None else [(found[1].strip(), source.find_closing_bracket(found.end() - 1))]


def render_main(source: CilkSource) -> str:
    """Return C code of a new `main` function, which calls the program's former `main` in one thread of a parallel
    region. Empty if the file has no `main`.
    """
    found = find_main(source)
    if not found:
        return ""
    count = 0 if found[0][0] in ("", "void") else found[0][0].count(",") + 1
    names = ", ".join(("weft_count", "weft_words", "weft_environment")[:count])
    given = ", ".join(("int weft_count", "char **weft_words", "char **weft_environment")[:count]) or "void"
    return (
        f'\n#undef main\nint main({given}) {{ int weft_status = 0; _Pragma("omp parallel") _Pragma("omp single") '
        f"weft_status = cilk_main({names}); return weft_status; }}\n"
    )


def build_as_openmp(path: str, folder: Path) -> Path:
    """Translate a program in Cilk to OpenMP, compile it with -g, and return the path of the executable in `folder`.
    UsageError with the compiler's own words if that fails.
    """
    if not Path(path).is_file():
        raise UsageError(f"--as-openmp {path}: there is no such file")
    whole = str(Path(path).resolve())
    text = translate_to_openmp(whole, Path(path).read_text())
    cxx = ENDINGS[Path(path).suffix] == "c++"
    compiler = shutil.which(os.environ.get("CXX" if cxx else "CC") or ("g++" if cxx else "gcc"))
    if compiler is None:
        raise UsageError("there is no compiler with OpenMP here: install gcc, or set CC")
    made, program = folder / ("program.cc" if cxx else "program.c"), folder / Path(path).stem
    made.write_text(text)
    flags = shlex.split(os.environ.get("CXXFLAGS" if cxx else "CFLAGS", "-O0"))
    command = [compiler, *flags, "-g", "-fopenmp", "-Dmain=cilk_main", "-D__cilkrts_get_nworkers=omp_get_max_threads",
               "-I", str(Path(whole).parent), str(made), "-o", str(program), "-lm"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise UsageError(f"{path} cannot be compiled as OpenMP: {done.stderr.strip()}")
    return program
