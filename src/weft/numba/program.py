"""Runs a Python program with its parallel functions checked, and reads what was found."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from weft.base.words import plural
from weft.dataparallel.process import ProcessEnd, run_process
from weft.dataparallel.runtime_output import RuntimeOutput, read_runtime_output
from weft.dataparallel.source_map import SourceMap
from weft.errors import UsageError
from weft.evidence import Compared, Loop
from weft.findings import Finding, Site
from weft.kinds import KINDS
from weft.numba.runtime import library
from weft.safety.started import own_python

COMPARED: Final = "numba.json"
"""What comparing results found, beside the side file."""


def run(
    script: Path, arguments: Sequence[str], findings: Path, texts: Path, timeout: float | None = None
) -> ProcessEnd:
    """Run the script in a process of its own with this interpreter.

    `findings` gets the runtime's lines, `texts` the side file; what comparing results found stands beside it.
    """
    needs_numba()
    _compiles(script)
    command = own_python("-m", "weft.numba.inside", str(texts), str(library()), str(script), *arguments)
    environment = {**os.environ, "WEFT_INTERNAL_CHECK_FINDINGS": str(findings)}
    findings.touch()
    return run_process(command, environment, timeout)


def needs_numba() -> None:
    """Raise UsageError where Numba is not installed beside Weft."""
    if importlib.util.find_spec("numba") is None:
        raise UsageError(
            f"Numba is not installed for {sys.executable}; install it there: pip install 'weft-debugger[check]'"
        )


def _compiles(script: Path) -> None:
    try:
        compile(script.read_bytes(), str(script), "exec", dont_inherit=True)
    except SyntaxError as error:
        at = f":{error.offset}" if error.offset else ""
        raise UsageError(f"{script}:{error.lineno}{at}: the program does not compile: {error.msg}") from error
    except (ValueError, OSError) as error:
        raise UsageError(f"{script} is not a Python program: {error}") from error


def tidied(findings: Path, texts: SourceMap) -> RuntimeOutput:
    """What the runtime told, one finding for a loop, line and variable: a statement reads and writes in several places.

    Elements get the index that Python would write.
    """
    told = read_runtime_output(findings)
    ranks = _ranks(findings.parent)
    first = _first(list(told.raw_findings.values()), texts)
    for one in first:
        _index(one, ranks.get(str(one.get("data", 0))))
        place = texts.places.get(one.get("site", 0))
        if not one.get("data") and place and (name := subscripted(place.file, place.line, bool(one.get("write")))):
            one["symbol"] = f"`{name}`"
    told.raw_findings = {one["id"]: one for one in first}
    told.modules = []
    return told


def _first(held: Sequence[dict[str, Any]], texts: SourceMap) -> list[dict[str, Any]]:
    """The first finding of each line, with the count of all; what the compiler left without a line is another's."""
    lines: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in held:
        place = texts.places.get(one.get("site", 0))
        name = getattr(texts.variables.get(one.get("data", 0)), "name", "")
        line = (place.file, place.line) if place else (None, 0)
        lines.setdefault((one["kind"], one["construct"], name, *line), []).append(one)
    for key in [key for key in lines if not key[-1]]:
        if other := next((one for one in lines if one[:3] == key[:3] and one[-1]), None):
            lines[other] += lines.pop(key)
    for same in lines.values():
        same[0]["count"] = sum(one["count"] for one in same)
    return [same[0] for same in lines.values()]


def _index(one: dict[str, Any], rank: int | None) -> None:
    """Give an element's index the array's own rank: views were told to the runtime as parts of an array."""
    one["order"] = "python"
    if "index" in one and rank is not None and len(one["index"]) != rank:
        one["index"] = one["index"][:rank] if len(one["index"]) > rank else []


def subscripted(file: str, line: int, stored: bool) -> str:
    """The only array that a line of a program reads, or writes, an element of; "" where there are several or none."""
    names = {
        node.value.id for node in ast.walk(_tree(file))
        if isinstance(node, ast.Subscript) and node.lineno == line and isinstance(node.value, ast.Name)
        and (isinstance(node.ctx, ast.Store) == stored)
    }  # fmt: skip
    return names.pop() if len(names) == 1 else ""


@cache
def _tree(file: str) -> ast.AST:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _ranks(folder: Path) -> dict[str, int]:
    return dict(_compared(folder).get("ranks", {}))


def _compared(folder: Path) -> dict[str, Any]:
    path = folder / COMPARED
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def compared(folder: Path) -> list[Finding]:
    """What comparing results found, as findings."""
    return [_finding(one) for one in _compared(folder).get("mismatches", ())]


def _finding(one: Mapping[str, Any]) -> Finding:
    sites = [Site(0, "compare" if one["line"] == one["loop"] else "assign", one["file"], one["line"], one["function"])]
    if one["loop"] != one["line"]:
        sites.append(Site(0, "prange", one["file"], one["loop"], one["function"]))
    times = f" ({plural(one['count'], 'time')})" if one["count"] > 1 else ""
    return Finding(
        kind=one["kind"],
        severity=KINDS[one["kind"]].severity,
        certainty=one["certainty"],
        message=one["message"] + times,
        sites=tuple(sites),
        evidence=Compared(
            **one["evidence"],
            case="compared",
            count=one["count"],
            variable=one["name"],
            loop=Loop(kind="prange", file=one["file"], line=one["loop"]),
        ),
    )


def left(folder: Path) -> Iterable[str]:
    """What was not looked at, a phrase each."""
    return [str(one) for one in _compared(folder).get("left", ())]
