"""The replay that the page controls: one session of `weft dap` in a process of its own.

The page names moves, and calls of the record to move to. Only the run that is shown is ever started.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from weft.errors import UsageError, WeftError
from weft.safety.runs import TRUST_REMEDY, hash_execution
from weft.trace import Trace
from weft.view.adapter_process import START_SECONDS, AdapterProcess, Body
from weft.view.scale import Scale

Id = tuple[int, int]
POLL_SECONDS: Final = 0.2
"""Seconds between two looks at ranks that run."""
MAX_OUTPUT: Final = 2000
"""Pieces of output that are kept for a page that is loaded anew."""
OVER: Final = frozenset(["none", "failed"])
"""States in which there is no replay."""


class ReplaySession:
    """The replay of one run, none until it is asked for. Moves and questions may come from several threads.

    `state` is none, starting, running, stopped or failed; `version` grows with every change that the page would show.
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
        self._adapter: AdapterProcess | None = None

    # What the page shows

    def await_state(self, scale: Scale, *, version: int, written: int, patience: float) -> Body:
        """Return where the replayed ranks are on an axis, and the output after the first `written` pieces. First waits
        up to `patience` seconds until the state is not `version` any more.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.version != version, patience)
            first = max(self.written - len(self.output), min(written, self.written))
            pieces = self.output[len(self.output) - (self.written - first) :]
            return {
                "version": self.version, "state": self.state, "said": self.said, "focus": self.focus,
                "over": self.over, "ranks": [self._thread_position(scale, row) for row in self.rows],
                "stops": [[*stop, *scale.event_positions([stop])[0]] for stop in self.stops],
                "first": first, "written": self.written, "output": [list(piece) for piece in pieces],
            }  # fmt: skip

    def _thread_position(self, scale: Scale, row: Body) -> Body:
        """Return where the view draws a thread of the replay, with its state and source line.

        `event` is the thread's call, and `side` says whether the thread is `in` it, at its `start` or at its `end`. A
        thread without a call is drawn at the end of the rank's last call; if the rank has no calls, `event` is None.
        """
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
            "side": side, "at": None if event is None else scale.event_positions([event])[0],
            "site": f"{Path(file).name}:{number}" if file else None,
        }  # fmt: skip

    # What the page does

    def make_move(self, name: str, page_arguments: Mapping[str, object]) -> None:
        """Make a move of the replay, such as a step, that the page asks for by its name. UsageError if there is no such
        move, or if it cannot be made now.
        """
        self.trusted |= page_arguments.get("agreed") is True  # by a person who was shown what is executed
        move = MOVES.get(name)
        if move is None:
            raise UsageError(f"there is no move {name!r}, only {', '.join(MOVES)}")
        if name == "pause":  # it is for a move that is under way
            move(self, page_arguments)
            return
        if not self._moving.acquire(blocking=False):
            raise UsageError("another move is under way")
        try:
            move(self, page_arguments)
        finally:
            self._moving.release()

    def move_until(self, page_arguments: Mapping[str, object]) -> None:
        """Let the replay go to a call, forwards or back. Other ranks move only as far as that needs."""
        event = self._checked_event(page_arguments)
        if self.state in OVER:
            self._launch_adapter(until=_event_name(event))
        else:
            self._request_move("weft/until", where=_event_name(event))

    def toggle_stop(self, page_arguments: Mapping[str, object]) -> None:
        """Set a breakpoint before a call and let the replay go there. If the call has a breakpoint, remove it
        instead.
        """
        event = self._checked_event(page_arguments)
        if event in self.stops:
            self._set_stops([one for one in self.stops if one != event])
            return
        if self.state in OVER:
            self.stops = [*self.stops, event]
            self._launch_adapter(stopOnEntry=False)
            return
        behind = self.over or self._has_passed(event)
        self._set_stops([*self.stops, event])
        if behind:
            self._request_move("weft/until", where=_event_name(event))
        else:
            self._request_move("continue", threadId=1 + event[0])

    def start_replay(self, page_arguments: Mapping[str, object]) -> None:
        """Start a replay that stops before each rank's first call. If a replay goes on, restart it."""
        if self.state not in OVER:
            self._request_move("restart")
        else:
            self._launch_adapter(stopOnEntry=True)

    def pause_ranks(self, given: Mapping[str, object]) -> None:
        """Stop running ranks at their next calls."""
        self._running_adapter().request("pause", threadId=1)

    def end_replay(self, given: Mapping[str, object]) -> None:
        """End the replay."""
        self.close()
        self._change_state(state="none", said="", rows=[], over=False)

    def _checked_rank(self, page_arguments: Mapping[str, object]) -> int:
        """Return the rank that the page's arguments name; without one, the rank in focus. UsageError if the run has no
        such rank.
        """
        rank = page_arguments.get("rank", self.focus)
        if not isinstance(rank, int) or not 0 <= rank < len(self.trace.ranks):
            raise UsageError(f"the run has no rank {rank!r}")
        return rank

    def _checked_event(self, page_arguments: Mapping[str, object]) -> Id:
        """Return the (rank, event) that the page's arguments name. UsageError if the run has no such call."""
        rank, event = self._checked_rank(page_arguments), page_arguments.get("event")
        if not isinstance(event, int) or not 0 <= event < len(self.trace.ranks[rank].events):
            raise UsageError(f"rank {rank} has no event {event!r}")
        return rank, event

    def _has_passed(self, event: Id) -> bool:
        """Return whether the replay has already made a call of the record."""
        rank, thread = event[0], int(self.trace.ranks[event[0]].event_threads[event[1]])
        row = next((row for row in self.rows if (row["rank"], row["thread"]) == (rank, thread)), {})
        call = row.get("next") or row.get("call")
        return call is not None and event[1] < int(call["event"][1])

    # The session

    def _running_adapter(self) -> AdapterProcess:
        if self._adapter is None:
            raise UsageError("no replay is running: choose a call, then Replay to here")
        return self._adapter

    def _launch_adapter(self, **how: Any) -> None:
        """Start a new replay under the debugger, and let it run to its first stop. An earlier replay is closed. `how`:
        further arguments of the launch request.
        """
        self.close()
        self._change_state(state="starting", said="the program is started again", rows=[], output=[], over=False)
        self._adapter = adapter = AdapterProcess(self._handle_adapter_event, self._handle_exit)
        try:
            adapter.request("initialize", adapterID="weft")
            # The word for what was shown, not a yes: the run may be changed before it is read again.
            how |= {"agreed": hash_execution(self.trace.run)} if self.trusted else {}
            adapter.request("launch", START_SECONDS, run=str(self.trace.path.resolve()), **how)
            self._set_stops(self.stops)
            self._change_state(state="running", said="")
            adapter.request("configurationDone")
        except WeftError as error:
            self.close()
            said = str(error).replace(TRUST_REMEDY, "allow it in the page, or start `weft view` with --trust")
            self._change_state(state="failed", said=said, rows=[])
            raise WeftError(said) from error
        threading.Thread(target=self._follow_running_ranks, args=(adapter,), name="follow", daemon=True).start()

    def _request_move(self, request: str, **arguments: Any) -> None:
        """Send the debug adapter a request that lets ranks run. UsageError if ranks are running already."""
        adapter, before = self._running_adapter(), self.state
        if before == "running":
            raise UsageError("the ranks run: pause them first")
        self._change_state(state="running", said="")
        try:
            adapter.request(request, **arguments)
        except WeftError:
            self._change_state(state=before)
            raise

    def _set_stops(self, stops: Sequence[Id]) -> None:
        """Replace the set of calls to stop before by `stops`. If the debugger refuses some, the others are set, and
        UsageError gives the first reason.
        """
        kept = list(stops)
        if self._adapter is not None:
            given = [{"name": _event_name(stop)} for stop in stops]
            answers = self._adapter.request("setFunctionBreakpoints", breakpoints=given)["breakpoints"]
            kept = [stop for stop, told in zip(stops, answers, strict=True) if told["verified"]]
            refused = [str(told.get("message")) for told in answers if not told["verified"]]
            if refused:
                self._change_state(stops=kept)
                raise UsageError(refused[0])
        self._change_state(stops=kept)

    def _change_state(self, **fields: object) -> None:
        """Set the named attributes of the session, and wake the threads that wait for a change."""
        with self._changed:
            for name, value in fields.items():
                setattr(self, name, value)
            if "output" in fields:
                self.written = 0
            self.version += 1
            self._changed.notify_all()

    def _handle_adapter_event(self, event: str, body: Body) -> None:
        """React to an event of the debug adapter: store output, or note that the ranks stopped."""
        if event == "output":
            self._add_output(body)
        elif event == "stopped":
            threading.Thread(target=self._handle_stop, args=(body,), daemon=True).start()

    def _add_output(self, body: Body) -> None:
        """Append a piece of output. A piece of the category "important" also becomes the message of the state."""
        text, kind, rank = str(body.get("output", "")), str(body.get("category")), (body.get("data") or {}).get("rank")
        if rank is not None:
            text = "".join(line.removeprefix(f"[rank {rank}] ") for line in text.splitlines(keepends=True))
        with self._changed:
            self.output = [*self.output, (rank, kind, text)][-MAX_OUTPUT:]
            self.written += 1
            if kind == "important":
                self.said = text.removeprefix("weft: ").strip()
            self.version += 1
            self._changed.notify_all()

    def _handle_stop(self, body: Body) -> None:
        with suppress(WeftError):
            said = self.said or str(body.get("text") or "")
            self._change_state(state="stopped", said=said, **self._ask_ranks())

    def _follow_running_ranks(self, adapter: AdapterProcess) -> None:
        """Keep the positions of running ranks up to date, until another adapter replaces `adapter`. Runs in a thread of
        its own.
        """
        while self._adapter is adapter:
            if self.state == "running":
                with suppress(WeftError):
                    found = self._ask_ranks()
                    if self.state == "running" and found["rows"] != self.rows:
                        self._change_state(rows=found["rows"])
            time.sleep(POLL_SECONDS)

    def _ask_ranks(self) -> Body:
        found = self._running_adapter().request("weft/ranks")
        return {"rows": found["ranks"], "focus": found["focus"], "over": found["over"]}

    def _handle_exit(self, adapter: AdapterProcess) -> None:
        """Note that the debug adapter has ended, if it is still the current one. The state then has its last output as
        the message.
        """
        if self._adapter is adapter:
            self._adapter = None
            self._change_state(
                state="failed", said=f"the debugger has ended: {adapter.error_output()}".rstrip(": "), rows=[]
            )

    def close(self) -> None:
        """End the replay, if there is one."""
        adapter, self._adapter = self._adapter, None
        if adapter is not None:
            adapter.close()


def _event_name(event: Id) -> str:
    return f"{event[0]}:{event[1]}"


def _rank_move(request: str) -> Callable[[ReplaySession, Mapping[str, object]], None]:
    """Return the move that sends `request` for one rank. The debug adapter knows a rank as a thread."""
    return lambda replayed, given: replayed._request_move(request, threadId=1 + replayed._checked_rank(given))


MOVES: Final[Mapping[str, Callable[[ReplaySession, Mapping[str, object]], None]]] = {
    "until": ReplaySession.move_until,
    "stop": ReplaySession.toggle_stop,
    "start": ReplaySession.start_replay,
    "end": ReplaySession.end_replay,
    "continue": _rank_move("continue"),
    "next": _rank_move("next"),
    "back": _rank_move("stepBack"),
    "reverse": _rank_move("reverseContinue"),
    "pause": ReplaySession.pause_ranks,
}
"""What the page can do with the replay, by name."""
