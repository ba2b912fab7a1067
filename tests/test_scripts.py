"""What nothing imports (tools, benchmarks, campaigns) still imports what the package has."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("tools", "benchmarks", "tests/tasks")


def imported(script: Path) -> list[tuple[str, str]]:
    """The names that a script takes from the package, each with its module."""
    nodes = ast.walk(ast.parse(script.read_text()))
    taken = [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("weft")]
    return [(node.module or "", alias.name) for node in taken for alias in node.names]


def is_there(module: str, name: str) -> bool:
    """Whether a module has that name, or a package that module."""
    return hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("script", [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.py"))],
                         ids=lambda path: str(path.relative_to(ROOT)))  # fmt: skip
def test_a_script_takes_what_the_package_has(script: Path) -> None:
    assert [name for name in imported(script) if not is_there(*name)] == []
