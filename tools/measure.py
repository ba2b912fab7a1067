"""How the code stands, as far as it is written by hand: rooms, lengths, repeated blocks, import circles, `Any`.

tools/measure.py             of this checkout
tools/measure.py COMMIT ...  and of commits, in columns beside it
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
BLOCK = 8
"""Lines of a block that counts as repeated; blank lines, comments, imports and lines of a bracket alone are none."""
LONG_FUNCTION, LONG_FILE = 40, 400
ENDS = (".py", ".c", ".h", ".S", ".f90", ".js", ".ts", ".css", ".html")
THIRD_PARTY = "third_party/"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
GENERATED = "native/headers/"
"""Where the build writes Python: of that, only what git keeps counts."""

IMPORT = re.compile(r"^from \S+ import \([^)]*\)$", re.MULTILINE)
"""An import of several lines."""

Sources = Mapping[str, str]
"""Texts by paths below src/weft."""


def here() -> Sources:
    """The files of this checkout."""
    folder = ROOT / "src" / "weft"
    kept = folder / GENERATED / "__init__.py"
    paths = [path for path in folder.rglob("*") if path.suffix in ENDS]
    paths = [path for path in paths if folder / GENERATED not in path.parents or path == kept]
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in paths}


def at(commit: str) -> Sources:
    """The files of a commit."""
    packed = subprocess.run(["git", "archive", commit, "src/weft"], cwd=ROOT, check=True, capture_output=True).stdout
    found = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None and member.name.endswith(ENDS):
                found[member.name.removeprefix("src/weft/")] = file.read().decode()
    return found


def trees(sources: Sources) -> dict[str, ast.Module]:
    """The syntax trees of the Python files."""
    return {path: ast.parse(text) for path, text in sources.items() if path.endswith(".py")}


def functions(sources: Sources) -> list[int]:
    """The lengths of all functions in lines, docstrings included."""
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in trees(sources).values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def files(sources: Sources, *ends: str) -> list[int]:
    """The lengths of all files in lines."""
    return [text.count("\n") for path, text in sources.items() if path.endswith(ends)]


def anys(sources: Sources) -> int:
    """How often the type Any is used, imports of it left out."""
    nodes = (node for tree in trees(sources).values() for node in ast.walk(tree))
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)


def repeated(sources: Sources) -> int:
    """Lines that stand in blocks of BLOCK significant lines which stand elsewhere too, the first place left out."""
    places: dict[bytes, list[tuple[str, int]]] = defaultdict(list)
    held = {path: significant(text) for path, text in sources.items() if path.endswith((".py", ".c", ".h"))}
    for path, lines in held.items():
        for start in range(len(lines) - BLOCK + 1):
            block = "\n".join(lines[start : start + BLOCK])
            places[hashlib.sha1(block.encode()).digest()].append((path, start))
    copies: set[tuple[str, int]] = set()
    for found in places.values():
        for path, start in found[1:]:
            copies |= {(path, line) for line in range(start, start + BLOCK)}
    return len(copies)


def significant(text: str) -> list[str]:
    """The lines of a file that count as repeated where they are."""
    lines = (line.strip() for line in IMPORT.sub("", text).splitlines())
    return [
        line for line in lines
        if len(line) > 3 and not line.startswith(("#", "//", "/*", "*", "import ", "from ", '"""'))
    ]  # fmt: skip


Nodes = Callable[[ast.AST], Iterator[ast.AST]]
"""Which statements of a module are looked at for imports."""


def imports(sources: Sources, of: Nodes) -> dict[str, set[str]]:
    """Which modules each module imports in these statements."""
    known = {module(path) for path in sources if path.endswith(".py")}
    return {
        module(path): {name for node in of(tree) for name in imported(node, known)}
        for path, tree in trees(sources).items()
    }


def module(path: str) -> str:
    """`weft.trace.run` for trace/run.py."""
    return ".".join(["weft", *path.removesuffix(".py").removesuffix("__init__").strip("/").split("/")]).rstrip(".")


def at_once(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements that run when a module is imported, what only the type checker reads left out."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if isinstance(node, ast.Try | ast.With):
            yield from at_once(node)


def sooner_or_later(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements that run at some time, those of functions too; not what only the type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from sooner_or_later(node)


def imported(node: ast.AST, known: set[str]) -> Iterator[str]:
    """The modules of the package that a statement imports."""
    if isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            below = f"{node.module}.{alias.name}"
            yield from {below if below in known else node.module} & known
    elif isinstance(node, ast.Import):
        yield from {alias.name for alias in node.names} & known


def circles(sources: Sources, of: Nodes) -> list[list[str]]:
    """Modules that need each other: the strongly connected ones (Tarjan 1972)."""
    edges = imports(sources, of)
    numbers: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(one: str) -> None:
        numbers[one] = low[one] = len(numbers)
        stack.append(one)
        for other in sorted(edges.get(one, ())):
            if other not in numbers:
                visit(other)
                low[one] = min(low[one], low[other])
            elif other in stack:
                low[one] = min(low[one], numbers[other])
        if low[one] == numbers[one]:
            at = stack.index(one)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for one in sorted(edges):
        if one not in numbers:
            visit(one)
    return found


def room(path: str) -> str:
    """The folder of the package that a file is in; a file beside them is a room of its own."""
    return path.split("/", maxsplit=1)[0]


def arrows(sources: Sources) -> set[tuple[str, str]]:
    """Which file of one room needs which file of another: by an import, in functions too, or by an include."""
    of = {module(path): path for path in sources if path.endswith(".py")}
    found = {(of[one], of[other]) for one, others in imports(sources, sooner_or_later).items() for other in others}
    headers = [path for path in sources if path.endswith((".c", ".h"))]
    for path in headers:
        for name in INCLUDE.findall(sources[path]):
            tail = "/" + name.lstrip("./")
            beside = path.rpartition("/")[0] + tail
            targets = [beside] if beside in sources else [other for other in headers if f"/{other}".endswith(tail)]
            found |= {(path, target) for target in targets if len(targets) == 1}
    return {(one, other) for one, other in found if room(one) != room(other)}


def back(sources: Sources) -> list[tuple[str, str]]:
    """Arrows between two rooms whose arrows go the other way more often."""
    found = sorted(arrows(sources))
    counts = Counter((room(one), room(other)) for one, other in found)
    against = {(a, b) for a, b in counts if (counts[b, a], b) > (counts[a, b], a)}
    return [(one, other) for one, other in found if (room(one), room(other)) in against]


def largest(sources: Sources) -> str:
    """The room with the most lines."""
    lines: Counter[str] = Counter()
    for path, text in sources.items():
        lines[room(path)] += text.count("\n") * (not path.startswith(THIRD_PARTY))
    name, most = lines.most_common(1)[0]
    return f"{name}, {most:,} lines"


def share(lengths: list[int], limit: int) -> str:
    """`93.1 %` of them are no longer than the limit."""
    return f"{100 * sum(length <= limit for length in lengths) / max(1, len(lengths)):.1f} %"


ROWS: Mapping[str, Callable[[Sources], object]] = {
    "rooms": lambda of: len({room(path) for path in of} - {"third_party"}),
    "rooms that need another": lambda of: len({(room(one), room(other)) for one, other in arrows(of)}),
    "arrows from file to file between them": lambda of: len(arrows(of)),
    "arrows that run back up": lambda of: len(back(of)),
    "largest room": largest,
    "lines, third parties' left out": lambda of: sum(
        text.count("\n") for path, text in of.items() if not path.startswith(THIRD_PARTY) and "xxhash" not in path
    ),
    "Python files": lambda of: len(files(of, ".py")),
    "Python lines": lambda of: sum(files(of, ".py")),
    "C lines": lambda of: sum(files(of, ".c", ".h")),
    "functions": lambda of: len(functions(of)),
    "function, median": lambda of: f"{median(functions(of)):g} lines",
    f"functions to {LONG_FUNCTION} lines": lambda of: share(functions(of), LONG_FUNCTION),
    "longest function": lambda of: f"{max(functions(of))} lines",
    f"Python files to {LONG_FILE} lines": lambda of: share(files(of, ".py"), LONG_FILE),
    "longest Python file": lambda of: f"{max(files(of, '.py'))} lines",
    "repeated lines": repeated,
    "import circles": lambda of: len(circles(of, at_once)),
    "with imports in functions": lambda of: len(circles(of, sooner_or_later)),
    "and for types": lambda of: len(circles(of, ast.walk)),
    "modules in these": lambda of: sum(map(len, circles(of, ast.walk))),
    "Any": anys,
}


def main(commits: list[str]) -> None:
    """Print the table, Markdown."""
    columns = {**{commit: at(commit) for commit in commits}, "here": here()}
    print("|", *(f"| {name} " for name in columns), "|", sep=" ")
    print("|---|" + "---|" * len(columns))
    for name, of in ROWS.items():
        print(f"| {name} |", *(f"{value:,} |" if isinstance(value := of(held), int) else f"{value} |"
                                 for held in columns.values()))  # fmt: skip
    for one, other in back(columns["here"]):
        print(f"back up: {one} -> {other}", file=sys.stderr)
    for circle in circles(columns["here"], ast.walk):
        print("circle:", ", ".join(circle), file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
