"""Count what each runtime of `weft tasks` takes: lines of code without blank lines, comments and docstrings.

python tools/hooks.py    writes the table of tests/evidence/tasks.md
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
TASKS = ROOT / "src" / "weft" / "tasks"
INPROCESS = TASKS.parent / "inprocess"
PARTS = {
    "hooks in the runtime or the program": {
        "OpenMP": ["native/tool.c", "native/table.h", "native/ompt.h"],
        "asyncio": ["inprocess/births.py", "inprocess/creation.py", "native/births.c", "native/births.h"],
        "Cilk-5": [
            "cilk/cilk5/native/header/cilk-cilk2c.h",
            "cilk/cilk5/native/weft-cilk.h",
            "cilk/cilk5/native/weft-cilk.c",
            "cilk/cilk5/native/first/math.h",
        ],
        "OpenCilk": [],
    },
    "the table read": {
        "OpenMP": ["layout.py"],
        "asyncio": [
            "inprocess/task_table.py",
            "inprocess/waits.py",
            "inprocess/wait_descriptions.py",
            "inprocess/threads.py",
            "inprocess/source_lines.py",
            "inprocess/thread_monitor.py",
        ],
        "Cilk-5": ["cilk/cilk5/layout.py", "cilk/cilk5/variables.py"],
        "OpenCilk": [
            "cilk/opencilk/layout.py",
            "cilk/opencilk/table.py",
            "cilk/opencilk/cactus.py",
            "cilk/opencilk/code.py",
        ],
    },
    "one task stepped": {
        "OpenMP": ["openmp.py", "gdb.py", "stacks.py", "bodies.py"],
        "asyncio": [
            "inprocess/tracer.py",
            "inprocess/thread_callback.py",
            "inprocess/breakpoints.py",
            "inprocess/watchpoints.py",
            "inprocess/agent.py",
            "python.py",
        ],
        "Cilk-5": ["cilk/cilk5/backend.py"],
        "OpenCilk": ["cilk/opencilk/backend.py", "cilk/opencilk/course.py", "cilk/opencilk/gdb.py"],
    },
    "started": {
        "OpenMP": ["runtime.py", "cilk/openmp_source.py"],
        "asyncio": [
            "commandline.py",
            "inprocess/program.py",
            "inprocess/__main__.py",
            "attached.py",
            "inprocess/attach.py",
            "processes.py",
            "inprocess/child_processes.py",
            "code_injection.py",
            "symbols.py",
            "rendezvous.py",
            "gdb_call.py",
        ],
        "Cilk-5": ["cilk/cilk5/build.py"],
        "OpenCilk": [],
    },
    "hung programs, deaths, order, holding": {
        "OpenMP": ["native/turns.c", "native/turns.h", "native/holds.c", "native/holds.h", "holds.py", "mutexes.py"],
        "asyncio": [
            "hang_messages.py",
            "inprocess/hangs.py",
            "inprocess/loop_states.py",
            "inprocess/cancellations.py",
            "inprocess/call_search.py",
            "inprocess/resource_holders.py",
            "inprocess/blocked_threads.py",
            "inprocess/context_managers.py",
            "inprocess/task_deaths.py",
            "threads.py",
            "inprocess/schedule.py",
            "inprocess/schedule_file.py",
        ],
        "Cilk-5": [],
        "OpenCilk": [],
    },
}
RUNTIMES = ("OpenMP", "asyncio", "Cilk-5", "OpenCilk")
SHARED = ["model.py", "backend.py", "debugger.py", "console.py", "answers.py", "api.py", "output.py", "schedule.py"]


def path_of(name: str) -> Path:
    """The file that a name of PARTS stands for: those of `inprocess` begin with it, the others are of `tasks`."""
    return (TASKS.parent if name.startswith(("inprocess/", "cilk/")) else TASKS) / name


def code_lines(path: Path) -> int:
    """Lines of a file with code in them."""
    text = path.read_text()
    return python_lines(text) if path.suffix == ".py" else c_lines(text)


def c_lines(text: str) -> int:
    """Of C."""
    bare = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    return sum(bool(line.strip()) for line in bare.splitlines())


def python_lines(text: str) -> int:
    """Of Python: what is neither a comment nor a text that stands alone."""
    alone = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            alone |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    used = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            used |= set(range(token.start[0], token.end[0] + 1))
    return len(used - alone)


def counted(names: list[str]) -> int:
    """Lines of several files of the room."""
    return sum(code_lines(path_of(name)) for name in names)


def table() -> str:
    """The table as Markdown."""
    rows = [f"| lines of code | {' | '.join(RUNTIMES)} |", "|---|" + "---|" * len(RUNTIMES)]
    for part, of in PARTS.items():
        rows.append(f"| {part} | {' | '.join(str(counted(of[runtime])) for runtime in RUNTIMES)} |")
    return "\n".join([*rows, f"| commands, on any runtime | {counted(SHARED)} |" + " |" * (len(RUNTIMES) - 1)])


if __name__ == "__main__":
    page = ROOT / "tests" / "evidence" / "tasks.md"
    found = re.sub(r"(<!-- hooks -->\n).*?(<!-- /hooks -->)", rf"\g<1>{table()}\n\2", page.read_text(), flags=re.S)
    page.write_text(found)
    print(table())
