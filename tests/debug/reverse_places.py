"""Back in the source from places drawn at random: the same line and value as a forward search finds?

    python tests/debug/reverse_places.py --places 70 --seed 1            # C, Fortran and Python

A forward search lists what stops rank 0 of squares.*: changes of `total`, visits of a line, and lines stepped through.
From a place of that list `reverse-continue`, with what is watched or a breakpoint, and `reverse-next` have to come to
the entry before it that the list says.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from debug.commands_table import LANGUAGES, Bench, line
from weft.debug.debugger import Debugger
from weft.tasks.ranks import TaskPrompt

LENGTH = 14
"""Stops of a forward search."""
Stop = tuple[int, str]
"""Line, and the change that was told there."""
GONE = "its frame has returned"


class Session:
    """A debugger of one recorded run, and forward searches in it."""

    def __init__(self, run: Path, file: str) -> None:
        self.debugger = Debugger(run, lambda _: ())
        self.prompt = TaskPrompt(self.debugger, as_json=True)
        self.function = ""
        self.body = f"{file}:{line(file)}"

    def do(self, *commands: str) -> Stop:
        """Commands, and where rank 0 stands then."""
        for command in commands:
            self.prompt.answer(command)
        row = self.debugger.describe_thread(0)
        self.function = row["at"]["function"] if row["state"] == "line" else ""
        news = row.get("news", {})
        told = f"{news['old']} -> {news['new']}" if news.get("new") else GONE if "expression" in news else ""
        return (row["at"]["line"] if row["state"] == "line" else 0), told

    def clear(self) -> None:
        """No breakpoints any more, and nothing watched."""
        if self.debugger.stops.breakpoints.all or self.debugger.stops.watches:
            self.do("delete")

    def begin(self, watch: bool) -> Stop:
        """A new replay, at the body of the loop, with `total` watched or not."""
        self.clear()
        self.do("restart")
        stop = self.do(f"break 0:{self.body}", "continue")
        if watch:
            self.do("watch total @0")
        return stop

    def forward(self, command: str, *, stops_on: bool) -> list[Stop]:
        """Where a command comes to, again and again, until the rank is inside its next call or in another function.

        `stops_on`: with the breakpoint and what is watched.
        """
        stops = [self.begin(stops_on)]
        if not stops_on:
            self.clear()
        function = self.function
        while len(stops) < LENGTH and (stop := self.do(command))[0] and self.function == function:
            stops.append(stop)
        return stops


def expected(stops: Sequence[Stop], at: int, told: bool) -> Stop | None:
    """The last stop before one, of those that tell a change or of the others."""
    return next((stop for stop in reversed(stops[:at]) if bool(stop[1]) == told and stop[1] != GONE), None)


def continued(session: Session, stops: Sequence[Stop], at: int, watched: bool) -> tuple[Stop | None, Stop]:
    """Back from a stop of a forward search, to the last change or to the last visit: what it is, and what came."""
    session.begin(True)
    session.do(*["continue"] * at)
    numbers = session.prompt.answer("breakpoints")
    gone = numbers["breakpoints"][0]["id"] if watched else numbers["watches"][0]["id"]
    session.do(f"delete {gone}", "rank 0")
    return expected(stops, at, watched), session.do("reverse-continue")


def stepped(session: Session, stops: Sequence[Stop], at: int) -> tuple[Stop | None, Stop]:
    """A line back from a stop of a forward search."""
    session.begin(False)
    session.clear()
    session.do("rank 0", *["next @0"] * at)
    return stops[at - 1], session.do("reverse-next")


def campaign(session: Session, places: int, draw: random.Random) -> int:
    """So many places of one program: how many were right."""
    changes = session.forward("continue", stops_on=True)
    lines = session.forward("next @0", stops_on=False)
    right = 0
    for _ in range(places):
        how = draw.choice(["change", "visit", "line"])
        stops = lines if how == "line" else changes
        at = draw.randrange(1, len(stops))
        if how != "line" and expected(stops, at, how == "change") is None:
            at = len(stops) - 1
        wanted, came = stepped(session, stops, at) if how == "line" else continued(session, stops, at, how == "change")
        right += wanted == came
        if wanted != came:
            print(f"  {how} from {at}: {wanted} was to come, {came} came, of {stops}", flush=True)
    return right


def main() -> int:
    """Run the campaign; status 1 where a place was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", type=int, default=70)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--languages", nargs="*", default=["C", "Fortran", "Python"], choices=list(LANGUAGES))
    args = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as made:
        bench = Bench(Path(sys.prefix), Path(made))
        for language in args.languages:
            if not bench.build(language):
                continue
            session = Session(Path(made) / f"run-{language}", LANGUAGES[language])
            try:
                right = campaign(session, args.places, random.Random(args.seed))
            finally:
                session.debugger.close()
            print(f"{language}: {right} of {args.places} places are right", flush=True)
            bad += args.places - right
    return bool(bad)


if __name__ == "__main__":
    raise SystemExit(main())
