"""The house: layers point one way, and nothing in it names a workplace."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "weft"

# Each room and the rooms that it may import from, besides base, debuginfo, safety, errors and findings.
ALLOWED: dict[str, set[str]] = {
    "safety": set(),
    "base": set(),
    "debuginfo": set(),
    "native": set(),
    "sources": {"trace"},
    "terms": {"mpi", "native", "trace", "match", "sources"},
    "mpi": set(),
    "pvm": {"native", "mpi"},
    "trace": {"native", "mpi"},
    "match": {"native", "mpi", "trace"},
    "order": {"mpi", "native", "trace", "match"},
    "segments": {"native", "mpi", "trace", "match", "order", "terms", "races", "usage"},
    "races": {"native", "trace", "match", "order", "terms"},
    "deadlock": {"mpi", "native", "trace", "match", "order", "races", "terms"},
    "usage": {"mpi", "sources", "native", "trace", "match", "order", "terms", "deadlock"},
    "access": {"sources", "native", "mpi", "trace", "match", "order", "terms", "deadlock", "usage"},
    "halo": {"native", "trace", "order", "terms"},
    "waits": {"mpi", "native", "trace", "match", "order", "terms"},
    "endings": {"native", "trace", "match", "terms", "deadlock"},
    "report": {
        "native",
        "sources",
        "trace",
        "match",
        "terms",
        "order",
        "races",
        "deadlock",
        "usage",
        "access",
        "halo",
        "waits",
        "endings",
        "picture",
        "segments",
    },
    "picture": {"mpi", "native", "trace", "match", "terms", "deadlock"},
    "export": {"mpi", "native", "trace", "match", "terms", "picture"},
    "values": {"native", "trace", "halo"},
    "compare": {"native", "trace", "match", "order", "terms", "values", "picture"},
    "replay": {"native", "sources", "mpi", "trace", "match", "order", "terms", "launch", "compare"},
    "explore": {"trace", "match", "order", "races", "terms", "replay", "report", "launch"},
    "gdb": set(),
    "debug": {"gdb", "mpi", "trace", "match", "order", "terms", "launch", "replay"},
    "tasks": {"gdb", "inprocess", "native", "terms", "mpi", "trace", "launch", "debug"},
    "cilk": {"tasks", "gdb"},
    "dap": {"trace", "launch", "debug", "tasks"},
    "recorder": set(),
    "inprocess": set(),
    "instrument": {"native"},
    "dataparallel": {"native", "trace", "mpi", "terms", "values", "instrument", "sources"},
    "dvm": {"native", "terms", "dataparallel"},
    "openmp": {"native", "terms", "trace", "sources", "dataparallel"},
    "numba": {"native", "mpi", "terms", "report", "dataparallel"},
    "check": {"native", "terms", "trace", "report", "values", "sources", "dataparallel", "dvm", "openmp", "numba"},
    "view": {
        "sources",
        "native",
        "mpi",
        "trace",
        "match",
        "order",
        "terms",
        "waits",
        "report",
        "picture",
        "endings",
        "dap",
        "compare",
        "values",
    },
    "launch": {"pvm", "sources", "native", "mpi", "trace", "terms", "deadlock", "report", "endings"},
    "watchdogs": {"launch", "terms"},
    "pytest_plugin": {"numba", "dataparallel", "report", "launch", "watchdogs", "terms"},
    "attach": {"gdb", "sources", "mpi", "trace", "terms", "launch", "debug", "picture"},
}


def imported(file: Path) -> set[str]:
    """Rooms of weft that a file imports from, inside functions too."""
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module == "weft":
            names += [f"weft.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("weft.")}
    return rooms & ALLOWED.keys() | (rooms & {"cli"})


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_room_imports_only_from_the_layers_below_it(room: str) -> None:
    for file in (PACKAGE / room).rglob("*.py"):
        above = imported(file) - ALLOWED[room] - {room, "safety", "base", "debuginfo"}
        assert not above, f"{file.relative_to(ROOT)} imports from {sorted(above)}"


def names_of(package: Path) -> Iterator[tuple[str, str]]:
    """The names that a package gives itself, and what each of them is: a module's dotted name, or another thing."""
    for node in ast.parse((package / "__init__.py").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, "defined here"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, "assigned here") for target in targets if isinstance(target, ast.Name))


PACKAGES = sorted(init.parent for init in PACKAGE.rglob("__init__.py"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(PACKAGE.parent)))
def test_a_package_gives_no_name_of_a_module_of_its_own_to_another_thing(package: Path) -> None:
    """`from weft.races import served` would be the module or the function, as it was imported before or not."""
    dotted = ".".join(package.relative_to(PACKAGE.parent).parts)
    below = {one.stem for one in package.glob("*.py")} | {one.name for one in package.iterdir() if one.is_dir()}
    shadowed = {name: what for name, what in names_of(package) if name in below and what != f"{dotted}.{name}"}
    assert not shadowed, f"{dotted} hides its modules behind other things: {shadowed}"


def test_every_room_has_its_place_in_the_layers() -> None:
    rooms = {folder.name for folder in PACKAGE.iterdir() if folder.is_dir() and any(folder.glob("*.py"))}
    assert rooms - ALLOWED.keys() == {"cli", "examples"}


@pytest.mark.parametrize("room", sorted({*ALLOWED, "cli"}))
def test_a_room_has_a_readme_that_names_what_is_there(room: str) -> None:
    folder = PACKAGE / room
    text = (folder / "README.md").read_text()
    assert text.startswith(f"# {room}\n")
    named = re.findall(r"`((?:\.\./|tests/)?[\w/]+(?:\.(?:py|c|h|js|md)|/))`|`(tests/\w+)`", text)
    assert named
    for word in {one or other for one, other in named} - {"RUN/"}:
        place = (ROOT if word.startswith("tests/") else folder) / word
        assert place.exists(), f"src/weft/{room}/README.md names {word}, which is not there"


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = ["CONTRIBUTING.md", "docs/architecture.md"]


def files_named(page: str) -> set[str]:
    """Files in backticks, from the root or from src/weft; words in capitals stand for names of one's own."""
    text = (ROOT / page).read_text()
    words = set(re.findall(r"`([\w./-]+/[\w./-]+|\w+\.(?:py|md|toml))`", text))
    return {word for word in words if not re.search(r"[A-Z]{4}\b(?!\.md)|NAME|SLUG|^RUN/|weft-report|^build/", word)}


def is_there(word: str) -> bool:
    """Whether a file that a page names exists."""
    return any((base / word).exists() for base in (ROOT, PACKAGE))


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_for_newcomers_names_is_there(page: str) -> None:
    assert files_named(page)
    assert [word for word in sorted(files_named(page)) if not is_there(word)] == []


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_its_parts_and_names_what_is_there(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(f"# {page.name[:4]}: ")
    assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.M) == ["Context", "Decision", "Consequences"]
    assert "| refused | why |" in text
    assert [word for word in sorted(files_named(str(page.relative_to(ROOT)))) if not is_there(word)] == []


def test_each_dependency_has_a_range_and_a_line_that_says_what_it_is_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    packages = {package for group in (project["dependencies"], *extras) for package in group}
    rows = re.findall(r"^\| (`.+`) \| \S", (ROOT / "docs/decisions/0032-dependencies.md").read_text(), re.M)
    named = set(re.findall(r"`([\w-]+)`", " ".join(rows)))
    assert {re.split(r"[\[<>=;]", package)[0] for package in packages} - named == set()
    assert [package for package in packages if ">=" not in package] == []


def test_decisions_are_numbered_without_gaps_and_references_to_them_lead_somewhere() -> None:
    numbers = [page.name[:4] for page in DECISIONS]
    assert numbers == [f"{n:04}" for n in range(1, len(numbers) + 1)]
    command = ["git", "grep", "-ohE", r"decisions?/?\]? ?\[?0[0-9]{3}\b", "--", "src", "docs", "tests", "benchmarks"]
    named = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    assert {word[-4:] for word in named if word} - set(numbers) == set()


def test_each_make_target_that_a_page_names_is_there() -> None:
    rules = re.findall(r"^([\w -]+):(?!=)", (ROOT / "Makefile").read_text(), re.M)
    targets = {target for rule in rules for target in rule.split()}
    for page in (*PAGES, "README.md"):
        for target in re.findall(r"(?m)(?:^|`)make ([a-z-]+)", (ROOT / page).read_text()):
            assert target in targets, f"{page}: make {target}"


def imports_in_functions(tree: ast.Module) -> Iterator[list[ast.Import | ast.ImportFrom]]:
    """The imports of all functions, those that follow each other together."""
    for function in ast.walk(tree):
        block: list[ast.Import | ast.ImportFrom] = []
        for node in ast.walk(function) if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else ():
            if isinstance(node, ast.Import | ast.ImportFrom):
                if block and node.lineno - (block[-1].end_lineno or 0) > 2:
                    yield block
                    block = []
                block.append(node)
        if block:
            yield block


@pytest.mark.parametrize("room", sorted({*ALLOWED, "."}))
def test_an_import_in_a_function_says_why_it_stands_there(room: str) -> None:
    """In a comment above it or behind it. Commands need none: their help is printed without what they run."""
    for file in (PACKAGE / room).glob("*.py" if room == "." else "**/*.py"):
        text = file.read_text()
        if "The imports are in\nfunctions" in text:  # report/registry.py says it once for all
            continue
        lines = text.splitlines()
        for block in imports_in_functions(ast.parse(text)):
            first, last = block[0].lineno, block[-1].end_lineno or block[-1].lineno
            said = lines[first - 2].lstrip().startswith("#") or any("  # " in line for line in lines[first - 1 : last])
            assert said, f"{file.relative_to(ROOT)}:{first}: why does it import here, and not at the top?"


def test_commands_are_read_without_numpy() -> None:
    """Help and completion read all commands, and wait for no room behind them."""
    commands = [f"weft.cli.{file.stem}" for file in (PACKAGE / "cli").glob("[a-z]*.py")]
    commands.append("weft.values.recording")  # at every start of a recorded run, probes or not
    code = f"import sys, {', '.join(commands)}; print(sorted({{'numpy', 'rich', 'weft.trace'}} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


NOT_PLAIN = re.compile(
    r"\b(?:is|are) no (?!longer\b|such\b|more than\b)|\bno more$|\bcannot be had\b"
    r"|\bnothing to mend\b|\bthey part\b|\bthat is none\b"
)
"""Words that plain English has others for: "X is not a number" for "X is no number"."""
MEANT = re.compile(r"\bthere (?:is|are) no ", re.IGNORECASE)


def literals(file: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file that a program may print, each with its line: all literals but docstrings."""
    tree = ast.parse(file.read_text())
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.lineno, node.value


@pytest.mark.parametrize("room", sorted({*ALLOWED, "cli"}))
def test_what_a_room_says_is_plain_english(room: str) -> None:
    for file in (PACKAGE / room).rglob("*.py"):
        odd = [(line, text) for line, text in literals(file) if NOT_PLAIN.search(MEANT.sub("", text))]
        assert not odd, f"{file.relative_to(ROOT)}: {odd}"


OTHERS_TOLD = {"attach/slurm_job.py", "access/hook_object.py"}
"""Where a command for another place is written: with -P, or -I."""


def test_python_is_started_by_one_function_and_imports_nothing_of_the_working_folder() -> None:
    for file in PACKAGE.rglob("*.py"):
        name = str(file.relative_to(PACKAGE))
        for found in re.finditer(r'sys\.executable,\s*"(-\w+)"', file.read_text()):
            told = name == "safety/started.py" or (name in OTHERS_TOLD and found[1] in ("-P", "-IS"))
            assert told, f"src/weft/{name} starts Python by itself: weft.safety.started.own_python does"
