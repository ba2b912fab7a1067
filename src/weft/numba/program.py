"""Run a Python program with its parallel functions checked, and read what was found."""

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
from weft.evidence import CheckCase, Compared, Loop
from weft.findings import Finding, Site
from weft.kinds import KINDS
from weft.numba.runtime import build_numba_library
from weft.safety.started import own_python

COMPARED: Final = "numba.json"
"""What comparing results found, beside the side file."""


def run_checked(
    script: Path, arguments: Sequence[str], findings_path: Path, source_map_path: Path, timeout: float | None = None
) -> ProcessEnd:
    """Run the user's script, checked, in a process of its own, and return how it ended.

    The runtime writes to `findings_path`, the source map goes to `source_map_path`, the results of comparisons beside
    it.
    """
    require_numba()
    _verify_syntax(script)
    command = own_python(
        "-m", "weft.numba.inside", str(source_map_path), str(build_numba_library()), str(script), *arguments
    )
    environment = {**os.environ, "WEFT_INTERNAL_CHECK_FINDINGS": str(findings_path)}
    findings_path.touch()
    return run_process(command, environment, timeout)


def require_numba() -> None:
    """Raise UsageError if Numba is not installed beside Weft."""
    if importlib.util.find_spec("numba") is None:
        raise UsageError(
            f"Numba is not installed for {sys.executable}; install it there: pip install 'weft-debugger[check]'"
        )


CHANGING: Final = frozenset(
    "append extend insert pop remove clear sort reverse add discard update setdefault popitem".split()
)
"""Methods of lists, sets and dictionaries that change them."""


def _verify_syntax(script: Path) -> None:
    """Raise UsageError if the script is not valid Python."""
    try:
        compile(script.read_bytes(), str(script), "exec", dont_inherit=True)
    except SyntaxError as error:
        at = f":{error.offset}" if error.offset else ""
        raise UsageError(f"{script}:{error.lineno}{at}: the program does not compile: {error.msg}") from error
    except (ValueError, OSError) as error:
        raise UsageError(f"{script} is not a Python program: {error}") from error


def read_merged_output(findings_path: Path, source_map: SourceMap) -> RuntimeOutput:
    """Return the runtime's output after a checked run, with one finding for each loop, line and variable. Indices of
    elements get the number of dimensions that the array has in Python.
    """
    told = read_runtime_output(findings_path)
    ranks = _array_ranks(findings_path.parent)
    first = _merge_by_line(list(told.raw_findings.values()), source_map)
    for one in first:
        _fix_index_rank(one, ranks.get(str(one.get("data", 0))))
        place = source_map.places.get(one.get("site", 0))
        if (
            not one.get("data")
            and place
            and (
                name := find_changed_container(place.file, place.line)
                or find_only_subscripted_array(place.file, place.line, bool(one.get("write")))
            )
        ):
            one["symbol"] = f"`{name}`"
    told.raw_findings = {one["id"]: one for one in first}
    told.modules = []
    return told


def _merge_by_line(findings: Sequence[dict[str, Any]], source_map: SourceMap) -> list[dict[str, Any]]:
    """Merge the raw findings that agree in kind, loop, variable and source line, and return the results. The merged one
    has the sum of their counts. A finding without a line is merged with one that agrees in the rest.
    """
    lines: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in findings:
        place = source_map.places.get(one.get("site", 0))
        name = getattr(source_map.variables.get(one.get("data", 0)), "name", "")
        line = (place.file, place.line) if place else (None, 0)
        lines.setdefault((one["kind"], one["construct"], name, *line), []).append(one)
    for key in [key for key in lines if not key[-1]]:
        if other := next((one for one in lines if one[:3] == key[:3] and one[-1]), None):
            lines[other] += lines.pop(key)
    for same in lines.values():
        same[0]["count"] = sum(one["count"] for one in same)
    return [same[0] for same in lines.values()]


def _fix_index_rank(finding: dict[str, Any], dimensions: int | None) -> None:
    """Cut an element's index to the number of dimensions of the array itself; a shorter index is removed. The runtime
    sees a view as a part of another array, which may have other dimensions.
    """
    finding["order"] = "python"
    if "index" in finding and dimensions is not None and len(finding["index"]) != dimensions:
        finding["index"] = finding["index"][:dimensions] if len(finding["index"]) > dimensions else []


def find_only_subscripted_array(file: str, line: int, stored: bool) -> str:
    """Return the only array of which a line reads (or, if `stored`, writes) an element; "" if there are several or
    none.
    """
    names = {
        node.value.id for node in ast.walk(_parse_file(file))
        if isinstance(node, ast.Subscript) and node.lineno == line and isinstance(node.value, ast.Name)
        and (isinstance(node.ctx, ast.Store) == stored)
    }  # fmt: skip
    return names.pop() if len(names) == 1 else ""


def find_changed_container(file: str, line: int) -> str:
    """Return the name of the only container that a line changes by a method; "" if there are several or none."""
    names = {
        node.func.value.id for node in ast.walk(_parse_file(file))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.lineno == line
        and node.func.attr in CHANGING and isinstance(node.func.value, ast.Name)
    }  # fmt: skip
    return names.pop() if len(names) == 1 else ""


@cache
def _parse_file(file: str) -> ast.AST:
    """Return the syntax tree of a file; an empty module if it cannot be read or parsed."""
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _array_ranks(folder: Path) -> dict[str, int]:
    return dict(_read_comparisons(folder).get("ranks", {}))


def _read_comparisons(folder: Path) -> dict[str, Any]:
    """Return what comparing results left in a folder, as an object from JSON; {} if nothing was written."""
    path = folder / COMPARED
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def read_comparison_findings(folder: Path) -> list[Finding]:
    """Return the findings from comparing results with a sequential run."""
    return [_make_comparison_finding(one) for one in _read_comparisons(folder).get("mismatches", ())]


def _make_comparison_finding(mismatch: Mapping[str, Any]) -> Finding:
    """Return the finding for a difference between results, or a variable read too early, that the checked process
    recorded.
    """
    sites = [
        Site(
            0,
            "compare" if mismatch["line"] == mismatch["loop"] else "assign" if mismatch["evidence"] else "read",
            mismatch["file"],
            mismatch["line"],
            mismatch["function"],
        )
    ]
    if mismatch["loop"] != mismatch["line"]:
        sites.append(Site(0, "prange", mismatch["file"], mismatch["loop"], mismatch["function"]))
    evidence = mismatch["evidence"]
    facts: dict[str, Any] = {
        "count": mismatch["count"],
        "variable": mismatch["name"],
        "loop": Loop(kind="prange", file=mismatch["file"], line=mismatch["loop"]),
    }
    times = f" ({plural(mismatch['count'], 'time')})" if mismatch["count"] > 1 else ""
    return Finding(
        kind=mismatch["kind"],
        severity=KINDS[mismatch["kind"]].severity,
        certainty=mismatch["certainty"],
        message=mismatch["message"] + times,
        sites=tuple(sites),
        evidence=Compared(**evidence, **facts, case="compared") if evidence else CheckCase(**facts, case="early"),
    )


def read_unchecked(folder: Path) -> Iterable[str]:
    """Return phrases for what was not checked."""
    return [str(one) for one in _read_comparisons(folder).get("left", ())]
