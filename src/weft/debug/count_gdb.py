"""Count ticks in a native rank: executed by the Python inside gdb, never imported by Weft.

A tick is a visit of a breakpoint, a change of a watched value, or a line, counted from where the rank was when counting
began. gdb calls `stop` of each mark that is hit; only the requested one stops the rank, so a hit costs some tens of
microseconds instead of a conversation.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

import gdb

LOG = 100_000
gdb.execute("set backtrace past-main on")
"""Depths are counted from the process's first frame. gdb ends a stack at the main program otherwise, whose name (one of
Fortran has its own) it may not know yet when it is asked first: the same place would have two depths."""


def depth_now() -> int:
    """Return the number of frames from the outermost to the innermost."""
    depth, frame = 0, gdb.newest_frame()
    while frame is not None:
        depth, frame = depth + 1, frame.older()
    return depth


def at_depth(depth: int) -> Any:
    """Return the frame at a depth; None if there is none."""
    frames, frame = [], gdb.newest_frame()
    while frame is not None:
        frames.append(frame)
        frame = frame.older()
    return frames[-depth] if 0 < depth <= len(frames) else None


class Visit(gdb.Breakpoint):  # type: ignore[misc]
    """A breakpoint that counts. `kind`: `point`, `line`, `place`, or `begin` of a function with a watched
    expression.
    """

    def __init__(self, count: Count, spec: str, kind: str, told: dict[str, Any]) -> None:
        super().__init__(spec)
        self.count, self.kind, self.told = count, kind, told
        self.point = told["id"] if kind == "point" else 0

    def stop(self) -> bool:
        """Return whether the rank has to stop; gdb calls this at each visit."""
        return self.count.visited(self)


class Change(gdb.Breakpoint):  # type: ignore[misc]
    """A watchpoint that counts; the frame of its expression, at `depth`, is selected when it is made."""

    def __init__(self, count: Count, text: str, depth: int) -> None:
        super().__init__(text, gdb.BP_WATCHPOINT, gdb.WP_WRITE)
        self.count, self.depth = count, depth

    def stop(self) -> bool:
        """Return whether the rank has to stop; gdb calls this at each change, and when the frame has returned.

        Only if the rank then stops does gdb remove the watchpoint, and the debugger lets the rank run on.
        """
        depth = depth_now()
        return depth < self.depth or self.count.tick(gdb.newest_frame().find_sal().line, depth)


class Count:
    """Count ticks, and stop the rank at one of them (`stop_at`) or at a visit of a place (`visit_at`)."""

    def __init__(self, marks: dict[str, Any], stop_at: int, visit_at: int, news: str) -> None:
        self.stop_at, self.visit_at = stop_at, visit_at
        self.ticks = self.visits = self.own = self.way = 0
        self.log: list[tuple[int, int, int]] = []
        self.watched: dict[str, Change] = {}
        self.made: list[Any] = []
        self.place = marks["place"]
        here, depth = gdb.newest_frame().pc(), depth_now()
        for told in marks["watches"]:  # first: a change is counted before a visit of the place where it is seen
            self.watch(told)
            if told["depth"]:
                self.add(told["function"], "begin", told)  # of each call of the function that is at this depth
            self.own += news == told["text"]
        for told in marks["points"]:
            spec = f"{told['file']}:{told['line']}" if told["line"] else told["function"]
            self.add(spec, "point", told)
        if marks["lines"]:
            for line in self.place["lines"]:
                self.add(f"*{line['address']}", "line", line)
        self.own += sum(self.counts(one, depth) for one in self.made if here in addresses(one))
        if self.place.get("address"):  # outside of MPI
            self.add(f"*{self.place['address']}", "place", self.place)

    def add(self, spec: str, kind: str, told: dict[str, Any]) -> None:
        """Add a mark."""
        self.made.append(Visit(self, spec, kind, told))

    def watch(self, told: dict[str, Any]) -> None:
        """Watch an expression if its frame is on the stack."""
        frame = at_depth(told["depth"]) if told["depth"] else gdb.newest_frame()
        old = self.watched.get(told["text"])
        if (
            frame is None
            or (told["depth"] and frame.name() != told["function"])
            or (old is not None and old.is_valid())
        ):
            return
        selected = gdb.selected_frame()
        frame.select()
        try:
            self.watched[told["text"]] = Change(self, told["text"], told["depth"])
        finally:
            selected.select()

    def counts(self, mark: Visit, depth: int) -> bool:
        """Tell whether a visit is a tick: of a point whose condition holds, or of a line of the wanted frame."""
        if mark.kind == "line":
            return bool(depth == mark.told["depth"])
        if mark.kind != "point" or not mark.told["condition"]:
            return mark.kind == "point"
        try:
            return bool(gdb.parse_and_eval(mark.told["condition"]))
        except gdb.error:
            return True

    def visited(self, mark: Visit) -> bool:
        """Handle one visit of a mark; return whether the rank has to stop."""
        depth = depth_now()
        if mark.kind == "begin":
            self.watch(mark.told) if depth == mark.told["depth"] else None
            return False
        if mark.kind == "place":
            self.visits += depth == self.place["depth"]
            return bool(depth == self.place["depth"] and self.visits == self.visit_at)
        return self.counts(mark, depth) and self.tick(mark.told.get("line") or 0, depth)

    def tick(self, line: int, depth: int) -> bool:
        """Count a tick; return whether the rank has to stop."""
        self.ticks += 1
        self.way = zlib.crc32(b"%d %d" % (line, depth), self.way)
        self.log.append((line, depth, self.way))
        if len(self.log) > 2 * LOG:
            del self.log[:LOG]
        return self.ticks == self.stop_at


def addresses(mark: Any) -> list[int]:
    """Return the addresses of a breakpoint."""
    found = getattr(mark, "locations", None)  # from gdb 13 on
    if found is not None:
        return [one.address for one in found]
    return [sal.pc for sal in gdb.decode_line(mark.location)[1] or ()]


def lines_of(frame: Any, depth: int) -> list[dict[str, Any]]:
    """Return the lines of a frame's function after its prologue, with the depth at which they count."""
    function, sal = frame.function(), frame.find_sal()
    if function is None or sal.symtab is None:
        return []
    block = frame.block()
    while block.function is None:
        block = block.superblock
    ready = next((one.pc for one in gdb.decode_line(f"{sal.symtab.filename}:{function.name}")[1] or ()), block.start)
    return [
        {"address": entry.pc, "line": entry.line, "depth": depth}
        for entry in sal.symtab.linetable() if ready <= entry.pc < block.end
    ]  # fmt: skip


def place(level: int) -> None:
    """Print the place of one of the rank's frames, and the lines of its function and of its caller."""
    depth = depth_now() - level
    frame = at_depth(depth)
    outer = frame.older()
    lines = lines_of(frame, depth) + (lines_of(outer, depth - 1) if outer is not None else [])
    print(json.dumps({"address": frame.pc(), "depth": depth, "function": frame.name(), "lines": lines}))


def frameless(text: str, level: int) -> None:
    """Print whether an expression names no variable of the frame."""
    frame = at_depth(depth_now() - level)
    try:
        symbols = [gdb.lookup_symbol(name, frame.block())[0] for name in re.findall(r"[A-Za-z_]\w*", text)]
    except RuntimeError:
        symbols = []
    print(json.dumps(not any(symbol is not None and symbol.needs_frame for symbol in symbols)))


def count(text: str, stop_at: int, visit_at: int, news: str) -> None:
    """Start to count; print the ticks of this place itself, and the marks: gdb's numbers and those of breakpoints."""
    global now  # noqa: PLW0603
    now = Count(json.loads(text), stop_at, visit_at, news)
    print(json.dumps({"own": now.own, "numbers": [(one.number, one.point) for one in now.made]}))


def counted(last: int) -> None:
    """Print the counts."""
    print(json.dumps({"ticks": now.ticks, "visits": now.visits, "lines": now.log[-last:]}))


def away() -> None:
    """Remove all marks."""
    for one in [*now.made, *now.watched.values()]:
        if one.is_valid():
            one.delete()
    print(json.dumps(True))


now: Count
