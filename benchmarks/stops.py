"""What a stop costs in `weft debug`: the first breakpoint of a C++ program on 4 ranks, and each stop behind it.

    python benchmarks/stops.py [--sessions 5] [--stops 6] [--write]

A session begins, sets a breakpoint at a line of one rank, and goes on from visit to visit; then it stops before calls.
--write puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from back import recorded
from capture import Row, markdown, write

from weft.debug.debugger import Debugger
from weft.tasks.ranks import TaskPrompt, attach_debugger_to_rank, prepare_replay_folder

RANKS = 4
ROUNDS = 200
RANK = 2
BEGIN, FIRST, LINE, CALL = "the session, to its prompt", "the first breakpoint", "each one after it", "before a call"
LIMITS = {FIRST: 3.0, LINE: 1.0, CALL: 1.0}
"""Seconds."""


def session(run: Path, line: int, stops: int) -> Iterator[tuple[str, float]]:
    """What each stop of a session took. SystemExit where the rank stands elsewhere."""
    since = time.monotonic()
    debugger = Debugger(run, lambda _: (), hand=attach_debugger_to_rank, prepare=prepare_replay_folder)
    prompt = TaskPrompt(debugger, as_json=True)
    try:
        debugger.first()
        yield BEGIN, time.monotonic() - since
        for number in range(stops):
            since = time.monotonic()
            if not number:
                prompt.answer(f"break {RANK}:stops.cpp:{line}")
            prompt.answer("continue")
            yield LINE if number else FIRST, time.monotonic() - since
            at = debugger.describe_thread(RANK).get("at", {})
            if at.get("line") != line:
                raise SystemExit(f"rank {RANK} does not stand at line {line} but: {debugger.describe_thread(RANK)}")
        prompt.answer("delete")
        for number in range(1, stops + 1):
            event = ROUNDS * number // (stops + 1)
            since = time.monotonic()
            prompt.answer(f"until {RANK}:{event}")
            yield CALL, time.monotonic() - since
            if (stands := debugger.describe_thread(RANK))["state"] != "before":
                raise SystemExit(f"rank {RANK} does not stand before a call but: {stands}")
    finally:
        debugger.close()


def table(sessions: int, stops: int) -> Iterator[Row]:
    """Seconds of stops on 4 ranks of C++."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as name:
        run, line = recorded(Path(name), "stops.cpp", RANKS, ROUNDS)
        for number in range(sessions):
            for what, took in session(run, line, stops):
                found.setdefault(what, []).append(took)
            print(f"  session {number + 1}: {', '.join(f'{what} {times[-1]:.2f} s' for what, times in found.items())}")
    yield ["stop", "seconds, median", "longest"]
    for what, times in found.items():
        over = f" **over {LIMITS[what]}**" if max(times) > LIMITS.get(what, max(times)) else ""
        yield [what, f"{statistics.median(times):.2f}", f"{max(times):.2f}{over}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=5, help="sessions (default 5)")
    parser.add_argument("--stops", type=int, default=6, help="stops of each kind in a session (default 6)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    text = markdown(list(table(options.sessions, options.stops)))
    print(f"\n{(table.__doc__ or '').splitlines()[0]}\n\n{text}")
    if options.write:
        write("stops", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
