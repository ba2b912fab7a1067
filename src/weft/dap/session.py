"""A replay under an editor: run the ranks, and report where they stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.base.event_id import EventId
from weft.dap.breakpoints import EditorBreakpoints
from weft.dap.output import RankOutput
from weft.dap.stacks import Stacks
from weft.dap.task_threads import TaskThreads
from weft.dap.wire import Wire
from weft.debug.answers import tell
from weft.debug.back_lines import NothingBehind
from weft.debug.frames import PARTS
from weft.debug.hands import NoLines
from weft.errors import DebuggerError, UsageError, WeftError
from weft.tasks.answers import render_answer as told_of_task
from weft.tasks.backend import Movement
from weft.tasks.ranks import TaskPrompt

Answer = dict[str, Any]
Move = Callable[[], Answer]
RankPositions = dict[int, tuple[str, Any, Any]]
"""Of each rank its state, how many calls it has passed, and its stop at a line."""
PATIENCE = 0.5
"""Seconds after a pause in which a rank that computes is awaited at its next call; then it stops at a line."""
SLOW = 1.0
"""Seconds after which the editor is told how far a move has come."""


class Session:
    """One replay under an editor.

    `look` is called all the while that ranks run, and stops them by a KeyboardInterrupt; `take` answers the requests
    that were postponed meanwhile. `native`: show native frames of Python ranks; `tasks`: show tasks as threads.
    """

    def __init__(
        self, prompt: TaskPrompt, wire: Wire, look: Callable[[], None], take: Callable[[], None],
        *, native: bool | None = None, tasks: bool = False,
    ) -> None:  # fmt: skip
        self.prompt, self.wire, self._look, self._take = prompt, wire, look, take
        self.debugger = prompt.debugger
        self.debugger.pulse = self._serve_while_running
        self.breakpoints = EditorBreakpoints(self.debugger)
        self.tasks = TaskThreads(prompt) if tasks else None
        self.stacks = Stacks(self.debugger, native, self.tasks)
        self.output = RankOutput()
        self.rows: list[Answer] = self.debugger.ranks()["ranks"]
        """Where the ranks stood last."""
        self.text = ""
        """What is to be said of the last stop."""
        self.is_interrupted = False
        """Whether the ranks were stopped only to take up what the editor has asked for: then they go on."""
        self.progress = False
        self._move_started = self._last_update = 0.0
        self._is_progress_shown = False

    # While ranks run

    def _serve_while_running(self) -> None:
        """Forward the ranks' output and progress to the editor, and look at its new requests. Called again and again
        while ranks run.
        """
        now = time.monotonic()
        if now - self._last_update > 0.1:
            self._last_update = now
            self.forward_output()
            self._report_progress(now)
        self._look()

    def _report_progress(self, now: float) -> None:
        """Report to the editor how many calls the ranks have made, once a move has taken longer than `SLOW` seconds."""
        if not self.progress or now - self._move_started < SLOW:
            return
        record, replica = self.debugger.record, self.debugger.replica
        threads = [t for t in record.threads if replica.goals[t] <= record.entries(*t)]
        passed = sum(replica.at(*t) for t in threads)
        share = 100 * passed / max(sum(replica.goals[t] for t in threads), 1)
        if not self._is_progress_shown:
            self._is_progress_shown = True
            self.wire.send_event("progressStart", progressId="move", title="replay")
        self.wire.send_event(
            "progressUpdate", progressId="move", message=f"{passed} calls made", percentage=min(share, 100)
        )

    def forward_output(self, *, whole: bool = True) -> None:
        """Send the editor what the ranks have written since the last call. `whole`: only full lines."""
        for rank, stream, text in self.output.read_new(self.debugger.replica.folder, whole=whole):
            lines = "".join(f"[rank {rank}] {line}" for line in text.splitlines(keepends=True))
            self.wire.send_event("output", category=stream, output=lines, data={"rank": rank})
        if text := self.debugger.replica.output():
            self.show_text(text, "stdout")
        for rank, hand in sorted(self.debugger.hands.items()):
            for text in hand.logged:
                self.show_text(f"[rank {rank}] {text}")
            hand.logged.clear()

    def show_text(self, text: str, category: str = "console") -> None:
        """Show a text in the editor's console."""
        self.wire.send_event("output", category=category, output=text if text.endswith("\n") else text + "\n")

    # Moves

    def run_move(self, reason: str, move: Move) -> None:
        """Call `move`, which lets ranks run, and report to the editor where they stop. `reason`: the protocol's word
        for the stop.
        """
        self.stacks.invalidate()
        self._move_started, before = time.monotonic(), self._rank_positions()
        try:
            answer = move()
        except KeyboardInterrupt:
            if self.is_interrupted:
                return
            reason, answer = "pause", self._settle_after_pause()
        except WeftError as error:
            self.show_text(f"weft: {error}", "important")
            reason, answer = "pause", self.debugger.stopped()
        finally:
            if self._is_progress_shown:
                self._is_progress_shown = False
                self.wire.send_event("progressEnd", progressId="move")
        self.report_stop(reason, answer, before)

    def _rank_positions(self) -> RankPositions:
        """Return by rank its state, the number of calls that it has passed, and the line at which it is stopped.

        Compare two results to see which ranks have moved: each stop at a line is a new object.
        """
        hands = self.debugger.hands
        rows = [row for row in self.debugger.ranks()["ranks"] if row["thread"] == 0]
        stops = {rank: hand.stopped for rank, hand in hands.items()}
        return {row["rank"]: (row["state"], row.get("passed"), stops.get(row["rank"])) for row in rows}

    def find_breakpoint_hits(self, answer: Answer, before: RankPositions) -> list[tuple[int, int]]:
        """Return (rank, number of the breakpoint) for each breakpoint that a rank has come to since `before`, where the
        ranks were then. `answer`: where they are.
        """
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

    def _settle_after_pause(self) -> Answer:
        """Wait until ranks have stopped at their next calls, stop those that go on computing at a line, and return
        where all are.
        """
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
            self.debugger.pulse = self._serve_while_running
        return self.debugger.stopped()

    def report_stop(self, why: str, answer: Answer, before: RankPositions) -> None:
        """Report to the editor where the ranks have stopped and why, and forward their output.

        `why`: the protocol's word for it. `answer`: where the ranks are. `before`: where they were before they ran.
        """
        self.rows = answer["ranks"]
        self.forward_output(whole=False)
        for text in self.tasks.refresh() if self.tasks is not None else ():
            self.show_text(f"weft: {text}", "important")
        hits = self._choose_hits(why, self.find_breakpoint_hits(answer, before), before)
        reason, self.text = self._stop_reason(why, answer, hits)
        body: Answer = {
            "reason": reason, "threadId": self.stacks.focused_thread(), "allThreadsStopped": True,
        }  # fmt: skip
        if self.text:
            body |= {"text": self.text, "description": self.text.splitlines()[0][:200]}
        if hits:
            body["hitBreakpointIds"] = sorted({number for _, number in hits})
        self.wire.send_event("stopped", **body)

    def _choose_hits(self, why: str, hits: list[tuple[int, int]], before: RankPositions) -> list[tuple[int, int]]:
        """Return the breakpoint hits that count as the reason of a stop, and put the rank of one into focus.

        A step that has come to its line is a reason itself, whatever breakpoints other ranks have hit meanwhile.
        `hits`: (rank, number of the breakpoint). `before`: where the ranks were before.
        """
        of_focus = [hit for hit in hits if hit[0] == self.debugger.focus]
        has_moved = self._rank_positions().get(self.debugger.focus) != before.get(self.debugger.focus)
        if of_focus or (why in ("step", "goto") and has_moved):
            return of_focus if why in ("step", "goto") else hits
        if hits:
            self.debugger.focus = hits[0][0]
        return hits

    def _stop_reason(self, why: str, answer: Answer, hits: list[tuple[int, int]]) -> tuple[str, str]:
        """Return the protocol's word for the reason of a stop, and a sentence on it, "" if the word says all. Also
        shows in the editor's console why ranks do not get further.
        """
        rows = {row["rank"]: row for row in answer["ranks"] if row["thread"] == 0}
        focus = rows[self.debugger.focus]
        if answer["over"]:
            code = answer.get("exit_code")
            text = "the program has ended" + (f", with status {code}" if code else "")
            self.show_text(f"{text}: go back, restart, or end the session")
            return "pause", text
        for row in rows.values():
            if row["state"] == "diverged":
                return "exception", f"rank {row['rank']} no longer follows its record"
        if "signal" in focus:
            return "exception", f"{focus['signal']} on rank {focus['rank']}"
        if answer.get("waiting"):
            self.show_text("\n".join(line for line in tell(answer) if "gets no further" in line))
        if hits:
            number = next((number for rank, number in hits if rank == self.debugger.focus), hits[0][1])
            return self.breakpoints.stop_reason(number), ""
        news = focus.get("news", {})
        if "expression" in news:
            return "data breakpoint", f"{news['expression']}: {news['old'] or '(none)'} -> {news['new'] or '(none)'}"
        if why == "continue":
            self.show_text("the record goes no further:\n" + "\n".join(tell(answer)))
            return "pause", "the record ends here"
        return why, ""

    def continue_(self, rank: int | None) -> None:
        """Run all ranks to the next breakpoint. With `rank` run only that rank, and the others as far as it needs
        them.
        """
        move: Move = self.debugger.go_on
        if rank is not None:
            last = self.debugger.record.entry(rank, self.debugger.record.entries(rank) - 1)
            if last is not None:
                move = lambda: self.debugger.until(f"{rank}:{last.index}")  # noqa: E731
        while True:
            self.is_interrupted = False
            self.run_move("continue", move)
            if not self.is_interrupted:
                return
            self._take()

    def step(self, movement: str, rank: int, *, all_ranks: bool) -> None:
        """Step a rank to its next line, or to its next call if its lines are unknown. `movement`: `next`, `step` or
        `finish`. `all_ranks`: step all ranks that run.
        """
        d = self.debugger
        ranks = (
            [r for r in range(d.record.size) if d.replica.controls[r].pid and d.is_running(r)] if all_ranks else [rank]
        )

        def go() -> Answer:
            """Step, or go to the next call if the lines are unknown, and return where all ranks are."""
            try:
                return d.step(movement, ranks or [rank])
            except NoLines:
                return d.next_event(1, rank)

        d.focus = rank
        self.run_move("step", go)

    def step_task(self, movement: Movement, rank: int, task: int) -> None:
        """Step a task to its next line, even if it is suspended in between. Other tasks run meanwhile. `movement`:
        `next`, `step` or `finish`.
        """
        tasks, d = self.tasks, self.debugger
        assert tasks is not None

        def go() -> Answer:
            """Step the task, and return where all ranks are. If the task did not come to a line, show where it is
            instead.
            """
            answer = tasks.step_task(movement, rank, task)
            if answer["why"] not in ("line", "breakpoint"):
                self.show_text("\n".join(told_of_task(answer)))
            return d.stopped()

        d.focus = rank
        self.run_move("step", go)

    def run_until(self, location: str, *, through: bool = False) -> None:
        """Run to a call, forwards or back, and no further than the call needs. `through`: past breakpoints, too."""
        self.run_move("goto", lambda: self.debugger.until(location, through=through))

    def step_back(self, rank: int) -> None:
        """Step a rank back to the line before, or to its last call if no earlier line is known."""
        d = self.debugger

        def go() -> Answer:
            """Go back by a line, or by a call, and return where all ranks are."""
            try:
                return d.line_back("next", rank)
            except (NoLines, NothingBehind):
                return d.prev_event(1, rank)

        d.focus = rank
        self.run_move("step", go)

    def reverse_continue(self) -> None:
        """Go back to the last breakpoint that was passed."""
        self.run_move("breakpoint", self.debugger.go_back)

    def restart(self) -> Answer:
        """Start the replay anew, and return where the ranks are."""
        self.output.reset()
        return self.debugger.begin()

    # The prompt's own commands

    def run_prompt_command(self, command_line: str) -> str:
        """Execute a command of Weft's prompt, and return its answer as text. If ranks have moved, report the stop to
        the editor. WeftError if the command fails.
        """
        before = self._rank_positions()
        answer = self.prompt.answer(command_line)
        if answer["kind"] == "stopped" or (answer["kind"] == "of-rank" and self._rank_positions() != before):
            self.stacks.invalidate()
            self.report_stop("step", answer if answer["kind"] == "stopped" else self.debugger.stopped(), before)
        return "\n".join(self.prompt.render_answer(answer))

    def warn_value_changed(self) -> None:
        """Warn that a changed value may make the replay leave its record."""
        self.show_text(f"weft: {PARTS}", "important")

    def list_source_files(self) -> list[Answer]:
        """Return the program's source files that the record names."""
        return [{"name": Path(file).name, "path": file} for file in self.debugger.record.files()]
