"""The replay behind the page: one session of `weft dap`, a process of its own, moved by the page's buttons.

The page names moves, and calls of the record to move to; what is started is the run that is shown, nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from weft.errors import UsageError, WeftError
from weft.safety.runs import hash_execution
from weft.trace import Trace
from weft.view.adapter import START_SECONDS, Adapter, Body
from weft.view.scale import Scale

Id = tuple[int, int]
FOLLOWED: Final = 0.2
"""Seconds between two looks at ranks that run."""
KEPT: Final = 2000
"""Pieces of output that are kept for a page that is loaded anew."""
OVER: Final = frozenset(["none", "failed"])
"""States in which there is no replay."""


class Replayed:
    """The replay of one run, none until it is asked for. Moves and questions may come from several threads.

    `state` is none, starting, running, stopped or failed; `version` grows with all that the page would show.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.trusted = False
        """Whether a run may be replayed that this user did not record: by --trust, or asked by the page."""
        self.state, self.said, self.focus, self.over = "none", "", 0, False
        self.stops: list[Id] = []
        self.rows: list[Body] = []
        self.output: list[tuple[int | None, str, str]] = []
        self.written = 0
        self.version = 0
        self._changed = threading.Condition(threading.RLock())
        self._moving = threading.Lock()
        self._adapter: Adapter | None = None

    # What the page is told

    def told(self, scale: Scale, *, version: int, written: int, patience: float) -> Body:
        """Where the ranks stand, on an axis, and the output behind the first `written` pieces; awaits a change."""
        with self._changed:
            self._changed.wait_for(lambda: self.version != version, patience)
            first = max(self.written - len(self.output), min(written, self.written))
            pieces = self.output[len(self.output) - (self.written - first) :]
            return {
                "version": self.version, "state": self.state, "said": self.said, "focus": self.focus,
                "over": self.over, "ranks": [self._placed(scale, row) for row in self.rows],
                "stops": [[*stop, *scale.spots([stop])[0]] for stop in self.stops],
                "first": first, "written": self.written, "output": [list(piece) for piece in pieces],
            }  # fmt: skip

    def _placed(self, scale: Scale, row: Body) -> Body:
        """Where a thread stands, and where that is in the picture: a call and which side of it, None for no call."""
        rank = int(row["rank"])
        call = row.get("call") or row.get("next") or row.get("last")
        event: Id | None = None if call is None else (int(call["event"][0]), int(call["event"][1]))
        side = "in" if "call" in row else "end" if row["state"] == "gone" else "start"
        if event is None and (count := len(self.trace.ranks[rank].events)):
            event, side = (rank, count - 1), "end"
        line = row.get("at")
        file, number = (line["file"], line["line"]) if line else (call["file"], call["line"]) if call else (None, None)
        return {
            "rank": rank, "thread": row["thread"], "state": row["state"], "words": row["words"], "event": event,
            "side": side, "at": None if event is None else scale.spots([event])[0],
            "site": f"{Path(file).name}:{number}" if file else None,
        }  # fmt: skip

    # What the page does

    def do(self, name: str, given: Mapping[str, object]) -> None:
        """One move. UsageError where it is not known, or cannot be made now."""
        self.trusted |= given.get("agreed") is True  # by a person who was shown what is executed
        move = MOVES.get(name)
        if move is None:
            raise UsageError(f"there is no move {name!r}, only {', '.join(MOVES)}")
        if name == "pause":  # it is for a move that is under way
            move(self, given)
            return
        if not self._moving.acquire(blocking=False):
            raise UsageError("another move is under way")
        try:
            move(self, given)
        finally:
            self._moving.release()

    def until(self, given: Mapping[str, object]) -> None:
        """To a call and no further than is needed for it, forwards or back."""
        event = self._event(given)
        if self.state in OVER:
            self._start(until=_named(event))
        else:
            self._go("weft/until", where=_named(event))

    def stop(self, given: Mapping[str, object]) -> None:
        """Stop before a call from now on, and go there; where that is so already, no longer."""
        event = self._event(given)
        if event in self.stops:
            self._set([one for one in self.stops if one != event])
            return
        if self.state in OVER:
            self.stops = [*self.stops, event]
            self._start(stopOnEntry=False)
            return
        behind = self.over or self._passed(event)
        self._set([*self.stops, event])
        if behind:
            self._go("weft/until", where=_named(event))
        else:
            self._go("continue", threadId=1 + event[0])

    def start(self, given: Mapping[str, object]) -> None:
        """A replay that stops before each rank's first call."""
        if self.state not in OVER:
            self._go("restart")
        else:
            self._start(stopOnEntry=True)

    def pause(self, given: Mapping[str, object]) -> None:
        """Ranks that run stop at their next calls."""
        self._running().ask("pause", threadId=1)

    def end(self, given: Mapping[str, object]) -> None:
        """No replay any more."""
        self.close()
        self._tell(state="none", said="", rows=[], over=False)

    def _rank(self, given: Mapping[str, object]) -> int:
        rank = given.get("rank", self.focus)
        if not isinstance(rank, int) or not 0 <= rank < len(self.trace.ranks):
            raise UsageError(f"the run has no rank {rank!r}")
        return rank

    def _event(self, given: Mapping[str, object]) -> Id:
        rank, event = self._rank(given), given.get("event")
        if not isinstance(event, int) or not 0 <= event < len(self.trace.ranks[rank].events):
            raise UsageError(f"rank {rank} has no event {event!r}")
        return rank, event

    def _passed(self, event: Id) -> bool:
        """Whether the replay has made a call already."""
        rank, thread = event[0], int(self.trace.ranks[event[0]].event_threads[event[1]])
        row = next((row for row in self.rows if (row["rank"], row["thread"]) == (rank, thread)), {})
        call = row.get("next") or row.get("call")
        return call is not None and event[1] < int(call["event"][1])

    # The session

    def _running(self) -> Adapter:
        if self._adapter is None:
            raise UsageError("nothing is replayed: choose a call, and Replay to here")
        return self._adapter

    def _start(self, **how: Any) -> None:
        """Start the program again under the debugger, and let it come to its first stop."""
        self.close()
        self._tell(state="starting", said="the program is started again", rows=[], output=[], over=False)
        self._adapter = adapter = Adapter(self._heard, self._gone)
        try:
            adapter.ask("initialize", adapterID="weft")
            # The word for what was shown, not a yes: the run may be changed before it is read again.
            how |= {"agreed": hash_execution(self.trace.run)} if self.trusted else {}
            adapter.ask("launch", START_SECONDS, run=str(self.trace.path.resolve()), **how)
            self._set(self.stops)
            self._tell(state="running", said="")
            adapter.ask("configurationDone")
        except WeftError as error:
            self.close()
            said = str(error).replace("launch it with trust: true", "agree to it in the page, or start it with --trust")
            self._tell(state="failed", said=said, rows=[])
            raise WeftError(said) from error
        threading.Thread(target=self._follow, args=(adapter,), name="follow", daemon=True).start()

    def _go(self, request: str, **arguments: Any) -> None:
        adapter, before = self._running(), self.state
        if before == "running":
            raise UsageError("the ranks run: pause them first")
        self._tell(state="running", said="")
        try:
            adapter.ask(request, **arguments)
        except WeftError:
            self._tell(state=before)
            raise

    def _set(self, stops: Sequence[Id]) -> None:
        """Take these as the calls to stop before."""
        kept = list(stops)
        if self._adapter is not None:
            given = [{"name": _named(stop)} for stop in stops]
            answers = self._adapter.ask("setFunctionBreakpoints", breakpoints=given)["breakpoints"]
            kept = [stop for stop, told in zip(stops, answers, strict=True) if told["verified"]]
            refused = [str(told.get("message")) for told in answers if not told["verified"]]
            if refused:
                self._tell(stops=kept)
                raise UsageError(refused[0])
        self._tell(stops=kept)

    def _tell(self, **fields: object) -> None:
        """Change what the page is told."""
        with self._changed:
            for name, value in fields.items():
                setattr(self, name, value)
            if "output" in fields:
                self.written = 0
            self.version += 1
            self._changed.notify_all()

    def _heard(self, event: str, body: Body) -> None:
        """What the adapter says by itself: output, and where ranks have stopped."""
        if event == "output":
            self._write(body)
        elif event == "stopped":
            threading.Thread(target=self._stopped, args=(body,), daemon=True).start()

    def _write(self, body: Body) -> None:
        text, kind, rank = str(body.get("output", "")), str(body.get("category")), (body.get("data") or {}).get("rank")
        if rank is not None:
            text = "".join(line.removeprefix(f"[rank {rank}] ") for line in text.splitlines(keepends=True))
        with self._changed:
            self.output = [*self.output, (rank, kind, text)][-KEPT:]
            self.written += 1
            if kind == "important":
                self.said = text.removeprefix("weft: ").strip()
            self.version += 1
            self._changed.notify_all()

    def _stopped(self, body: Body) -> None:
        with suppress(WeftError):
            said = self.said or str(body.get("text") or "")
            self._tell(state="stopped", said=said, **self._ranks())

    def _follow(self, adapter: Adapter) -> None:
        """Look where ranks are while they run."""
        while self._adapter is adapter:
            if self.state == "running":
                with suppress(WeftError):
                    found = self._ranks()
                    if self.state == "running" and found["rows"] != self.rows:
                        self._tell(rows=found["rows"])
            time.sleep(FOLLOWED)

    def _ranks(self) -> Body:
        found = self._running().ask("weft/ranks")
        return {"rows": found["ranks"], "focus": found["focus"], "over": found["over"]}

    def _gone(self, adapter: Adapter) -> None:
        if self._adapter is adapter:
            self._adapter = None
            self._tell(state="failed", said=f"the debugger has ended: {adapter.errors()}".rstrip(": "), rows=[])

    def close(self) -> None:
        """End the replay, if there is one."""
        adapter, self._adapter = self._adapter, None
        if adapter is not None:
            adapter.close()


def _named(event: Id) -> str:
    return f"{event[0]}:{event[1]}"


def _thread(request: str) -> Callable[[Replayed, Mapping[str, object]], None]:
    """A move of one rank, which is a thread of the adapter."""
    return lambda replayed, given: replayed._go(request, threadId=1 + replayed._rank(given))


MOVES: Final[Mapping[str, Callable[[Replayed, Mapping[str, object]], None]]] = {
    "until": Replayed.until, "stop": Replayed.stop, "start": Replayed.start, "end": Replayed.end,
    "continue": _thread("continue"), "next": _thread("next"), "back": _thread("stepBack"),
    "reverse": _thread("reverseContinue"), "pause": Replayed.pause,
}  # fmt: skip
"""What the page can do with the replay, by name."""
