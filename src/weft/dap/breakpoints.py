"""Map the breakpoints of an editor to those of the debugger: by file, by function, by instruction, and on data."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.debug.debugger import Debugger
from weft.errors import UsageError, WeftError

Given = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EditorBreakpoint:
    """A breakpoint as the editor gave it (`key`), and its number in the debugger."""

    key: str
    number: int


class EditorBreakpoints:
    """All breakpoints of a session.

    `groups` holds the breakpoints that one request replaces, by file name or as `functions` or `instructions`.
    """

    def __init__(self, debugger: Debugger) -> None:
        self.debugger = debugger
        self.groups: dict[str, list[EditorBreakpoint]] = {}
        self._data: dict[str, list[int]] = {}
        """The debugger's watches, by the data's id."""

    def stop_reason(self, number: int) -> str:
        """Return the protocol's reason for a stop at the breakpoint with a number, such as `function breakpoint`."""
        of = next((name for name, group in self.groups.items() if any(one.number == number for one in group)), "")
        return {"functions": "function breakpoint", "instructions": "instruction breakpoint"}.get(of, "breakpoint")

    def replace_group(self, group_name: str, breakpoints: Sequence[tuple[str, Given]]) -> list[Given]:
        """Make `breakpoints` those of a group, and return each as verified or with the reason why it was refused.
        Unchanged ones stay.

        `breakpoints`: pairs of a location and what the editor sent for it. `group_name`: a source file, `functions` or
        `instructions`.
        """
        old = {one.key: one for one in self.groups.pop(group_name, [])}
        alive = {b.id for b in self.debugger.stops.breakpoints.all}
        wanted = {self._breakpoint_key(where, given) for where, given in breakpoints}
        for key, one in list(old.items()):
            if key not in wanted or one.number not in alive:
                del old[key]
                if one.number in alive:
                    self.debugger.stops.delete(str(one.number))
        kept: list[EditorBreakpoint] = []
        told: list[Given] = []
        self.groups[group_name] = kept
        for where, given in breakpoints:
            key = self._breakpoint_key(where, given)
            line: Given = {"line": given["line"]} if "line" in given else {}
            try:
                one = old.get(key) or EditorBreakpoint(key, self._create_breakpoint(where, given))
            except WeftError as error:
                told.append({"verified": False, "message": str(error), **line})
                continue
            kept.append(one)
            told.append({"verified": True, "id": one.number, **line})
        return told

    @staticmethod
    def _breakpoint_key(where: str, given: Given) -> str:
        return json.dumps([where, *(given.get(name) for name in ("condition", "hitCondition", "logMessage"))])

    def _create_breakpoint(self, location: str, editor_fields: Given) -> int:
        """Create a breakpoint in the debugger, and return its number. WeftError if it cannot be set. `editor_fields`:
        what the editor sent, such as a condition.
        """
        passed = parse_hit_condition(str(editor_fields.get("hitCondition") or ""))
        condition = str(editor_fields.get("condition") or "").strip()
        log = str(editor_fields.get("logMessage") or "")
        made = self.debugger.stops.break_at(f"{location} if {condition}" if condition else location, log=log)[
            "breakpoint"
        ]
        if passed:
            made = self.debugger.stops.ignore(f"{made['id']} {passed}")["breakpoint"]
        return int(made["id"])

    def replace_watchpoints(self, wanted: Sequence[Given]) -> list[Given]:
        """Make `wanted` the watchpoints of the session, and return each as verified or with the reason why it was
        refused. Each names its variable by an id that the adapter gave to the editor.
        """
        ids = [str(given["dataId"]) for given in wanted]
        for gone in [one for one in self._data if one not in ids]:
            for number in self._data.pop(gone):
                if number in self.debugger.stops.watches:
                    self.debugger.stops.delete(str(number))
        told: list[Given] = []
        for given, name in zip(wanted, ids, strict=True):
            try:
                if given.get("condition") or given.get("hitCondition"):
                    raise UsageError(
                        "a data breakpoint cannot have a condition: set a breakpoint with that condition at the line "
                        "that sets the value"
                    )
                if not any(number in self.debugger.stops.watches for number in self._data.get(name, [])):
                    self._data[name] = self._create_watchpoint(name)
                told.append({"verified": True, "id": self._data[name][0]})
            except WeftError as error:
                told.append({"verified": False, "message": str(error)})
        return told

    def _create_watchpoint(self, data_id_text: str) -> list[int]:
        """Set watchpoints on a variable, and return their numbers in the debugger. `data_id_text`: the id of the
        variable that the adapter gave to the editor.
        """
        rank, level, expression = json.loads(data_id_text)
        self.debugger.frames.choose(int(rank), int(level))
        try:
            return list(self.debugger.stops.watch(expression, [int(rank)])["ids"])
        finally:
            self.debugger.frames.level.pop(int(rank), None)


def data_id(rank: int, level: int, expression: str) -> str:
    """Return the name under which the editor knows the data of an expression."""
    return json.dumps([rank, level, expression])


def parse_hit_condition(condition: str) -> int:
    """Return how many hits a breakpoint ignores before it stops, by a hit condition such as `5`, `>= 5` or `> 5`; 0 for
    an empty one. UsageError for other texts.
    """
    if not condition.strip():
        return 0
    found = re.fullmatch(r"\s*(>=|>)?\s*(\d+)\s*", condition)
    if found is None or (found[1] != ">" and int(found[2]) < 1):
        raise UsageError(f"{condition!r} is not a hit count: write 5 or >= 5 (from the fifth visit on), or > 5")
    return int(found[2]) - (found[1] != ">")


def source_location(path: str, line: int, files: Sequence[str]) -> str:
    """Return `FILE:LINE` for a breakpoint, with FILE as the record names it, even if the editor's path leads there
    through a link.

    `files`: the source files in the record.
    """
    if path not in files:
        real = Path(path).resolve()
        path = next((file for file in files if Path(file).resolve() == real), path)
    *_, blank = -1, *(i for i, part in enumerate(path.split("/")) if " " in part)
    return f"{'/'.join(path.split('/')[blank + 1 :])}:{line}"  # a command's words end at blanks
