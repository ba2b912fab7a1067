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


def depth_of(frame: Any) -> int:
    """Return how many functions are called from the outermost frame to this one, both included.

    Inlined functions are not counted: whether gdb shows a frame for one at its first instruction depends on how the
    rank came there.
    """
    depth = 0
    while frame is not None:
        depth, frame = depth + (frame.type() != gdb.INLINE_FRAME), frame.older()
    return depth


def names_of_stack(frame: Any) -> list[str]:
    """Return the names of the functions from the outermost frame to this one, those of inlined functions included."""
    found: list[str] = []
    while frame is not None:
        found.insert(0, frame.name() or "")
        frame = frame.older()
    return found


def depth_now() -> int:
    """Return the number of calls from the outermost frame to the innermost."""
    return depth_of(gdb.newest_frame())


def frame_at(level: int) -> Any:
    """Return the frame that gdb numbers `level` (0: innermost)."""
    frame = gdb.newest_frame()
    for _ in range(level):
        frame = frame.older()
    return frame


def find_frame(depth: int, function: str) -> Any:
    """Return the frame of the function `function` (also an inlined one) at a depth as `depth_of` counts it; None if
    there is none.
    """
    frame = gdb.newest_frame()
    while frame is not None:
        if frame.name() == function and depth_of(frame) == depth:
            return frame
        frame = frame.older()
    return None


def inline_chain(block: Any) -> list[int]:
    """Return the start addresses of the functions that contain a block: first the function that was called, then those
    inlined into it, innermost last.
    """
    found: list[int] = []
    while block is not None and not block.is_global and not block.is_static:
        if block.function is not None:
            found.insert(0, block.start)
        block = block.superblock
    return found


class Visit(gdb.Breakpoint):  # type: ignore[misc]
    """A breakpoint that counts. `kind`: `point`, `line`, `place`, or `begin` of a function with a watched
    expression.
    """

    def __init__(self, count: Count, spec: str, kind: str, told: dict[str, Any]) -> None:
        # At a breakpoint of a person's, gdb shows the functions that are inlined there, and steps on in another way.
        super().__init__(spec, internal=kind != "point")
        self.count, self.kind, self.told = count, kind, told
        self.point = told["id"] if kind == "point" else 0

    def stop(self) -> bool:
        """Return whether the rank has to stop; gdb calls this at each visit."""
        return self.count.handle_visit(self)


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
        return depth < self.depth or self.count.count_tick(gdb.newest_frame().find_sal().line, depth)


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
            self.watch_if_on_stack(told)
            if told["depth"]:
                self.add_mark(told["function"], "begin", told)  # of each call of the function that is at this depth
            self.own += news == told["text"]
        for told in marks["points"]:
            spec = f"{told['file']}:{told['line']}" if told["line"] else told["function"]
            self.add_mark(spec, "point", told)
        if marks["lines"]:
            for line in self.place["lines"]:
                self.add_mark(f"*{line['address']}", "line", line)
        self.own += sum(self.is_tick(one, depth) for one in self.made if here in breakpoint_addresses(one))
        if self.place.get("address"):  # outside of MPI
            self.add_mark(f"*{self.place['address']}", "place", self.place)

    def add_mark(self, spec: str, kind: str, mark_facts: dict[str, Any]) -> None:
        """Add a breakpoint that counts. `spec`: its location for gdb; `kind`: as in Visit."""
        self.made.append(Visit(self, spec, kind, mark_facts))

    def watch_if_on_stack(self, watch_facts: dict[str, Any]) -> None:
        """Set a watchpoint on an expression if its frame is on the stack and the expression is not watched yet.

        `watch_facts`: the expression, the depth of its frame (0: none) and the frame's function.
        """
        frame = (
            find_frame(watch_facts["depth"], watch_facts["function"]) if watch_facts["depth"] else gdb.newest_frame()
        )
        old = self.watched.get(watch_facts["text"])
        if frame is None or (old is not None and old.is_valid()):
            return
        selected = gdb.selected_frame()
        frame.select()
        try:
            self.watched[watch_facts["text"]] = Change(self, watch_facts["text"], watch_facts["depth"])
        finally:
            selected.select()

    def is_tick(self, mark: Visit, depth: int) -> bool:
        """Return whether a visit of a mark counts: the condition of its breakpoint is true or cannot be computed, or
        its line is executed in the right frame.
        """
        if mark.kind == "line":
            return bool(depth == mark.told["depth"])
        if mark.kind != "point" or not mark.told["condition"]:
            return mark.kind == "point"
        try:
            return bool(gdb.parse_and_eval(mark.told["condition"]))
        except gdb.error:
            return True

    def handle_visit(self, mark: Visit) -> bool:
        """Count a visit of a mark, and return whether the rank has to stop there."""
        depth = depth_now()
        if mark.kind == "begin":
            self.watch_if_on_stack(mark.told) if depth == mark.told["depth"] else None
            return False
        if mark.kind == "place":
            self.visits += depth == self.place["depth"]
            return bool(depth == self.place["depth"] and self.visits == self.visit_at)
        return self.is_tick(mark, depth) and self.count_tick(
            mark.told.get("line") or 0, mark.told["level"] if mark.kind == "line" else depth
        )

    def count_tick(self, line: int, depth: int) -> bool:
        """Count a tick at a line and depth, and return whether it is the one at which the rank has to stop."""
        self.ticks += 1
        self.way = zlib.crc32(b"%d %d" % (line, depth), self.way)
        self.log.append((line, depth, self.way))
        if len(self.log) > 2 * LOG:
            del self.log[:LOG]
        return self.ticks == self.stop_at


def breakpoint_addresses(mark: Any) -> list[int]:
    """Return the addresses at which a breakpoint of gdb is set."""
    found = getattr(mark, "locations", None)  # from gdb 13 on
    if found is not None:
        return [one.address for one in found]
    return [sal.pc for sal in gdb.decode_line(mark.location)[1] or ()]


def stop_lines_of(frame: Any) -> list[dict[str, Any]]:
    """Return the lines of a frame's function at which a rank can be stopped, as dictionaries with address, line and
    depth. For an inlined frame they are the lines of the function into which it is inlined, and of those between.

    Each has the number of functions on the stack there, inlined ones included (`level`). Lines before the end of the
    prologue are left out, and of other inlined functions all but those at which they are entered. Empty without debug
    information.
    """
    try:
        chain, block = inline_chain(frame.block()), frame.block()
    except RuntimeError:  # without debug information
        return []
    depth, outside = depth_of(frame), len(names_of_stack(frame)) - len(chain)
    while block.superblock is not None and not (block.superblock.is_static or block.superblock.is_global):
        block = block.superblock  # up to the function that was called
    found, at, ready = [], block.start, end_of_prologue(block)
    before: list[int] = []
    while at < block.end:
        sal = gdb.find_pc_line(at)
        if sal.line and sal.symtab is not None and sal.pc == at >= ready:
            inner = inline_chain(gdb.block_for_pc(at))
            is_entry, before = inner != before and inner[:-1] == chain[: len(inner) - 1], inner
            if is_entry or inner == chain[: len(inner)]:
                found.append({"address": at, "line": sal.line, "depth": depth, "level": outside + len(inner)})
        at = max(sal.last or at, at) + 1
    return found


def end_of_prologue(block: Any) -> int:
    """Return the address after the prologue (the compiler's own instructions at the beginning) of the function that
    contains a block.
    """
    name = block.function.name if block.function is not None else ""
    try:
        places = [one.pc for one in gdb.decode_line(f"{block.function.symtab.filename}:{name}")[1] or ()]
    except (gdb.error, AttributeError):
        places = []
    return int(min((pc for pc in places if block.start <= pc < block.end), default=block.start))


def caller_of(frame: Any) -> Any:
    """Return the frame that called the function of a frame; for an inlined frame, the caller of the function into which
    it is inlined. None if there is none.
    """
    while frame is not None and frame.type() == gdb.INLINE_FRAME:
        frame = frame.older()
    return frame.older() if frame is not None else None


def print_place(level: int) -> None:
    """Print the place of a frame of the rank as JSON: address, depth, function, and the lines at which the function and
    its caller can be stopped.
    """
    frame = frame_at(level)
    outer = caller_of(frame)
    lines = stop_lines_of(frame) + (stop_lines_of(outer) if outer is not None else [])
    stack = names_of_stack(frame)
    print(json.dumps({
        "address": frame.pc(), "depth": depth_of(frame), "function": frame.name(), "stack": stack, "lines": lines,
        "is_begin": gdb.find_pc_line(frame.pc()).pc == frame.pc(),
    }))  # fmt: skip


def print_here() -> None:
    """Print as JSON where the rank is stopped, and how often it has visited the place that is counted."""
    frame = gdb.newest_frame()
    facts = {"address": frame.pc(), "depth": depth_of(frame), "stack": names_of_stack(frame), "visits": now.visits}
    print(json.dumps(facts))


def print_is_frameless(text: str, level: int) -> None:
    """Print as JSON whether an expression uses no variable of the frame at a level."""
    frame = frame_at(level)
    try:
        symbols = [gdb.lookup_symbol(name, frame.block())[0] for name in re.findall(r"[A-Za-z_]\w*", text)]
    except RuntimeError:
        symbols = []
    print(json.dumps(not any(symbol is not None and symbol.needs_frame for symbol in symbols)))


def print_hides_inlined() -> None:
    """Print as JSON whether the rank is stopped at the call of an inlined function that gdb has not entered yet."""
    frame = gdb.newest_frame()
    block = gdb.block_for_pc(frame.pc())
    while block is not None and block.function is None:
        block = block.superblock
    shown = frame.function()
    print(json.dumps(block is not None and shown is not None and block.function.linkage_name != shown.linkage_name))


def start_count(marks_json: str, stop_at: int, visit_at: int, news: str) -> None:
    """Begin to count ticks. Print as JSON how many the current place itself makes, and the numbers of gdb's
    breakpoints.

    `marks_json`: what counts as a tick. `stop_at`, `visit_at`: the tick, and the visit of the current place, at which
    the rank stops (0: none). `news`: the watched expression whose change stopped the rank here, "" for none.
    """
    global now  # noqa: PLW0603
    now = Count(json.loads(marks_json), stop_at, visit_at, news)
    print(json.dumps({"own": now.own, "numbers": [(one.number, one.point) for one in now.made]}))


def print_counts(last: int) -> None:
    """Print the counts so far as JSON, with the lines of the last ticks."""
    print(json.dumps({"ticks": now.ticks, "visits": now.visits, "lines": now.log[-last:]}))


def remove_marks(except_place: bool = False) -> None:
    """Remove all breakpoints and watchpoints that only count; `except_place`: visits of the place are still counted."""
    for one in [*now.made, *now.watched.values()]:
        if one.is_valid() and not (except_place and getattr(one, "kind", "") == "place"):
            one.delete()
    print(json.dumps(True))


now: Count
