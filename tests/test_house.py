"""The house: layers point one way, and nothing in it names a workplace."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "weft"

# Each room and the rooms that it may import from, besides errors and findings.
ALLOWED: dict[str, set[str]] = {
    "native": set(),
    "sources": {"trace"},
    "terms": {"mpi", "native", "trace", "match", "sources"},
    "mpi": set(),
    "trace": {"native", "mpi"},
    "match": {"native", "mpi", "trace"},
    "order": {"mpi", "native", "trace", "match"},
    "races": {"native", "trace", "match", "order", "terms"},
    "deadlock": {"mpi", "native", "trace", "match", "order", "races", "terms"},
    "usage": {"mpi", "sources", "native", "trace", "match", "order", "terms", "deadlock"},
    "access": {"sources", "native", "mpi", "trace", "match", "order", "terms", "deadlock", "usage"},
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
        "waits",
        "endings",
        "picture",
    },
    "picture": {"mpi", "native", "trace", "match", "terms", "deadlock"},
    "export": {"mpi", "native", "trace", "match", "terms", "picture"},
    "replay": {"mpi", "trace", "match", "order", "terms", "launch"},
    "debug": {"trace", "match", "order", "terms", "launch", "replay"},
    "tasks": {"native", "terms", "mpi", "trace", "launch", "debug"},
    "check": {"native", "mpi", "terms", "trace", "report"},
    "view": {"sources", "native", "mpi", "trace", "match", "order", "terms", "waits", "report", "picture", "endings"},
    "launch": {"sources", "native", "mpi", "trace", "deadlock", "report", "endings"},
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
        above = imported(file) - ALLOWED[room] - {room}
        assert not above, f"{file.relative_to(ROOT)} imports from {sorted(above)}"


def test_every_room_has_its_place_in_the_layers() -> None:
    rooms = {folder.name for folder in PACKAGE.iterdir() if folder.is_dir() and any(folder.glob("*.py"))}
    assert rooms - ALLOWED.keys() == {"cli", "examples"}
