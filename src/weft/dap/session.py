"""A replay under an editor: moves of the ranks, and what is told of where they stop."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.base.event_id import EventId
from weft.dap.output import Output
from weft.dap.points import Points
from weft.dap.stacks import Stacks
from weft.dap.task_threads import TaskThreads
from weft.dap.wire import Wire
from weft.debug.answers import tell
from weft.debug.back import NothingBehind
from weft.debug.frames import PARTS
from weft.debug.hands import NoLines
from weft.errors import DebuggerError, UsageError, WeftError
from weft.tasks.answers import render_answer as told_of_task
from weft.tasks.backend import How
from weft.tasks.ranks import TaskPrompt

Answer = dict[str, Any]
Move = Callable[[], Answer]
Stands = dict[int, tuple[str, Any, Any]]
"""Of each rank its state, how many calls it has passed, and its stop at a line."""
PATIENCE = 0.5
"""Seconds after a pause in which a rank that computes is awaited at its next call; then it stops at a line."""
SLOW = 1.0
"""Seconds after which the editor is told how far a move has come."""


class Session:
    """One replay. `look`: called all the while that ranks run, KeyboardInterrupt from it stops them; `take`: takes up
    what the editor has asked for meanwhile.
    """

    def __init__(
        self, prompt: TaskPrompt, wire: Wire, look: Callable[[], None], take: Callable[[], None],
        *, native: bool | None = None, tasks: bool = False,
    ) -> None:  # fmt: skip
        self.prompt, self.wire, self._look, self._take = prompt, wire, look, take
        self.debugger = prompt.debugger
        self.debugger.pulse = self._pulse
        self.points = Points(self.debugger)
        self.tasks = TaskThreads(prompt) if tasks else None
        self.stacks = Stacks(self.debugger, native, self.tasks)
        self.output = Output()
        self.rows: list[Answer] = self.debugger.ranks()["ranks"]
        """Where the ranks stood last."""
        self.text = ""
        """What is to be said of the last stop."""
        self.again = False
        """Whether the ranks were stopped only to take up what the editor has asked for: then they go on."""
        self.progress = False
        self._begun = self._told = 0.0
        self._shows = False

    # While ranks run

    def _pulse(self) -> None:
        now = time.monotonic()
        if now - self._told > 0.1:
            self._told = now
            self.write()
            self._say_progress(now)
        self._look()

    def _say_progress(self, now: float) -> None:
        """Tell the editor how far the ranks have come, where they take their time."""
        if not self.progress or now - self._begun < SLOW:
            return
        record, replica = self.debugger.record, self.debugger.replica
        threads = [t for t in record.threads if replica.goals[t] <= record.entries(*t)]
        passed = sum(replica.at(*t) for t in threads)
        share = 100 * passed / max(sum(replica.goals[t] for t in threads), 1)
        if not self._shows:
            self._shows = True
            self.wire.event("progressStart", progressId="move", title="replay")
        self.wire.event("progressUpdate", progressId="move", message=f"{passed} calls made", percentage=min(share, 100))

    def write(self, *, whole: bool = True) -> None:
        """Show what the ranks have written."""
        for rank, stream, text in self.output.take(self.debugger.replica.folder, whole=whole):
            lines = "".join(f"[rank {rank}] {line}" for line in text.splitlines(keepends=True))
            self.wire.event("output", category=stream, output=lines, data={"rank": rank})
        if text := self.debugger.replica.output():
            self.say(text, "stdout")

    def say(self, text: str, category: str = "console") -> None:
        """Show a text in the editor's console."""
        self.wire.event("output", category=category, output=text if text.endswith("\n") else text + "\n")

    # Moves

    def move(self, why: str, go: Move, *, on: Callable[[], Move | None] = lambda: None) -> None:
        """Let ranks run, and tell where they stop. `on`: how they go on after a log point, if they do."""
        self.stacks.moved()
        self._begun, before = time.monotonic(), self._stands()
        try:
            answer = go()
            while (more := self._passed(answer, before, on)) is not None:
                before = self._stands()
                answer = more()
        except KeyboardInterrupt:
            if self.again:
                return
            why, answer = "pause", self._paused()
        except WeftError as error:
            self.say(f"weft: {error}", "important")
            why, answer = "pause", self.debugger.stopped()
        finally:
            if self._shows:
                self._shows = False
                self.wire.event("progressEnd", progressId="move")
        self.tell(why, answer, before)

    def _stands(self) -> Stands:
        """Where each rank stands, to know which ones have come on: a stop at a line is an object of its own."""
        hands = self.debugger.hands
        rows = [row for row in self.debugger.ranks()["ranks"] if row["thread"] == 0]
        stops = {rank: hand.stopped for rank, hand in hands.items()}
        return {row["rank"]: (row["state"], row.get("passed"), stops.get(row["rank"])) for row in rows}

    def hits(self, answer: Answer, before: Stands) -> list[tuple[int, int]]:
        """The ranks that came to breakpoints, and their numbers."""
        found = []
        for row in (row for row in answer["ranks"] if row["thread"] == 0):
            rank = row["rank"]
            state, passed, stopped = before.get(rank, ("", None, None))
            if row["state"] == "line":
                if "point" in row.get("news", {}) and self.debugger.hands[rank].stopped is not stopped:
                    found.append((rank, int(row["news"]["point"])))
            elif row["state"] == "before" and row["next"] and (state, passed) != (row["state"], row["passed"]):
                found += [(rank, b.id) for b in self.debugger.stops.breakpoints.at([EventId(*row["next"]["event"])])]
        return found

    def _passed(self, answer: Answer, before: Stands, on: Callable[[], Move | None]) -> Move | None:
        """After log points: their texts are shown, and how ranks go on, unless one stands at another breakpoint."""
        hits = self.hits(answer, before)
        logs = [(rank, text) for rank, number in hits if (text := self.points.log_of(number))]
        self.write()
        for rank, text in logs:
            self.say(f"[rank {rank}] {self._filled(rank, text)}")
        return on() if logs and len(logs) == len(hits) and not answer["over"] else None

    def _filled(self, rank: int, text: str) -> str:
        """A log point's text, with the values of what stands in braces."""

        def value(found: re.Match[str]) -> str:
            row = self.debugger.frames.evaluate(rank, found[1])
            return str(row.get("value", f"<{row.get('error')}>"))

        return re.sub(r"\{([^{}]+)\}", value, text)

    def _paused(self) -> Answer:
        """Where ranks stand after a pause: at their next calls; those that compute on, at a line."""
        since = time.monotonic()

        def enough() -> None:
            if time.monotonic() - since > PATIENCE:
                raise KeyboardInterrupt

        self.debugger.pulse = enough
        try:
            with suppress(KeyboardInterrupt):
                self.debugger.settle()
            rows = self.debugger.ranks()["ranks"]
            busy = [row["rank"] for row in rows if row["state"] == "outside" and row["thread"] == 0]
            if busy:
                since = time.monotonic() + 10 * PATIENCE
                with suppress(KeyboardInterrupt, DebuggerError, UsageError):
                    self.debugger.step("step", busy)
        finally:
            self.debugger.pulse = self._pulse
        return self.debugger.stopped()

    def tell(self, why: str, answer: Answer, before: Stands) -> None:
        """Tell the editor where the ranks have stopped."""
        self.rows = answer["ranks"]
        self.write(whole=False)
        for text in self.tasks.look() if self.tasks is not None else ():
            self.say(f"weft: {text}", "important")
        hits = self.hits(answer, before)
        reason, self.text = self._reason(why, answer, hits)
        body: Answer = {
            "reason": reason, "threadId": self.stacks.focused(), "allThreadsStopped": True,
        }  # fmt: skip
        if self.text:
            body |= {"text": self.text, "description": self.text.splitlines()[0][:200]}
        if hits:
            body["hitBreakpointIds"] = sorted({number for _, number in hits})
        self.wire.event("stopped", **body)

    def _reason(self, why: str, answer: Answer, hits: list[tuple[int, int]]) -> tuple[str, str]:
        """The protocol's reason of a stop, and what to say of it."""
        rows = {row["rank"]: row for row in answer["ranks"] if row["thread"] == 0}
        focus = rows[self.debugger.focus]
        if answer["over"]:
            code = answer.get("exit_code")
            text = "the program has come to its end" + (f", with status {code}" if code else "")
            self.say(f"{text}: go back, restart, or end the session")
            return "pause", text
        for row in rows.values():
            if row["state"] == "diverged":
                return "exception", f"rank {row['rank']} has left its record"
        if "signal" in focus:
            return "exception", f"{focus['signal']} on rank {focus['rank']}"
        if answer.get("waiting"):
            self.say("\n".join(line for line in tell(answer) if "gets no further" in line))
        if hits:
            return self.points.kind_of(hits[0][1]), ""
        news = focus.get("news", {})
        if "expression" in news:
            return "data breakpoint", f"{news['expression']}: {news['old'] or '(none)'} -> {news['new'] or '(none)'}"
        if why == "continue":
            self.say("the record goes no further:\n" + "\n".join(tell(answer)))
            return "pause", "the record goes no further"
        return why, ""

    def continue_(self, rank: int | None) -> None:
        """To the next breakpoint; with a rank only that one, and others as far as it needs them."""
        move: Move = self.debugger.go_on
        if rank is not None:
            last = self.debugger.record.entry(rank, self.debugger.record.entries(rank) - 1)
            if last is not None:
                move = lambda: self.debugger.until(f"{rank}:{last.index}")  # noqa: E731
        while True:
            self.again = False
            self.move("continue", move, on=lambda: move)
            if not self.again:
                return
            self._take()

    def step(self, how: str, rank: int, *, everyone: bool) -> None:
        """To the next line of a rank, or of all that run; to its next call where no lines are known."""
        d = self.debugger
        ranks = [r for r in range(d.record.size) if d.replica.controls[r].pid and d.runs(r)] if everyone else [rank]

        def go() -> Answer:
            try:
                return d.step(how, ranks or [rank])
            except NoLines:
                return d.next_event(1, rank)

        d.focus = rank
        self.move("step", go)

    def step_task(self, how: How, rank: int, task: int) -> None:
        """To the next line of a task, wherever it is suspended and goes on; other tasks run as they like."""
        tasks, d = self.tasks, self.debugger
        assert tasks is not None

        def go() -> Answer:
            answer = tasks.go(how, rank, task)
            if answer["why"] not in ("line", "breakpoint"):
                self.say("\n".join(told_of_task(answer)))
            return d.stopped()

        d.focus = rank
        self.move("step", go)

    def until(self, where: str, *, through: bool = False) -> None:
        """To a call, and no further than is needed for it; forwards or back. `through`: past breakpoints, too."""
        self.move("goto", lambda: self.debugger.until(where, through=through))

    def back(self, rank: int) -> None:
        """Back to the line before on a rank; to before its last call where no line is known or lies behind."""
        d = self.debugger

        def go() -> Answer:
            try:
                return d.line_back("next", rank)
            except (NoLines, NothingBehind):
                return d.prev_event(1, rank)

        d.focus = rank
        self.move("step", go)

    def back_to_breakpoint(self) -> None:
        """Back to the last place behind us that a breakpoint names."""
        self.move("breakpoint", self.debugger.go_back)

    def restart(self) -> Answer:
        """A new replay from its start."""
        self.output.forget()
        return self.debugger.begin()

    # The prompt's own commands

    def command(self, line: str) -> str:
        """A line of the prompt, and what it says. WeftError where it cannot be done."""
        before = self._stands()
        answer = self.prompt.answer(line)
        if answer["kind"] == "stopped" or (answer["kind"] == "of-rank" and self._stands() != before):
            self.stacks.moved()
            self.tell("step", answer if answer["kind"] == "stopped" else self.debugger.stopped(), before)
        return "\n".join(self.prompt.told(answer))

    def warn(self) -> None:
        """Say what comes of another value."""
        self.say(f"weft: {PARTS}", "important")

    def files(self) -> list[Answer]:
        """The program's files that the record names."""
        return [{"name": Path(file).name, "path": file} for file in self.debugger.record.files()]
