"""What another runtime needs, as counted for the page."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def hooks() -> Any:
    """tools/hooks.py as a module."""
    spec = importlib.util.spec_from_file_location("tools_hooks", ROOT / "tools" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_of_code_are_those_without_comments_blanks_and_texts_that_stand_alone() -> None:
    found = hooks()
    python = '"""Page."""\n\n# why\nA = """one\ntwo"""  # both count\n\n\ndef f():\n    """Says."""\n    return A\n'
    assert found.python_lines(python) == 4
    assert found.c_lines("// no\nint a; // yes\n\n/* no\n   no */\nint f(void) {\n    return a;\n}\n") == 4


def test_each_file_of_the_room_is_counted_once_or_belongs_to_ranks_and_editors() -> None:
    found = hooks()
    counted = [name for of in found.PARTS.values() for names in of.values() for name in names] + found.SHARED
    assert len(counted) == len(set(counted))
    package = found.TASKS.parent
    rooms = [(found.TASKS, found.TASKS), (package, found.INPROCESS), (package, package / "cilk")]
    paths = [(base, path) for base, room in rooms for end in ("*.py", "*.c", "*.h") for path in room.rglob(end)]
    files = {str(path.relative_to(base)) for base, path in paths}
    assert set(counted) <= files
    others = {
        "ranks.py",
        "views.py",
        "call_recording.py",
        "native/switches.c",
        "native/switches.h",
        "native/steps.c",
        "inprocess/step_recording.py",
        "inprocess/gc_pause.py",
        "inprocess/start/sitecustomize.py",
    }
    assert files - set(counted) == others | {name for name in files if name.endswith("__init__.py")}


def test_each_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "tests" / "evidence" / "tasks.md").read_text()))
    there = {
        name
        for path in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    assert len(named) > 10
    assert named <= there, f"tests/evidence/tasks.md names {sorted(named - there)}"
