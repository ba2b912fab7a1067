"""Read the stacks of native ranks with gdbs that are attached to all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.attach import inlined_lines
from weft.attach.model import Frame
from weft.attach.reader import Reader
from weft.trace.sites import CallSite

Place = tuple[int, int, int]
"""A process, one of its threads, and how many frames from its innermost."""


class Native:
    """The gdbs in some processes, which are stopped between `hold` and `let_go`, or on core files. No signals
    are sent.
    """

    def __init__(self, readers: Sequence[Reader], maps: Mapping[int, str] | None = None) -> None:
        """`maps`: what processes had mapped that have ended."""
        self._maps = maps or {}
        self.problems: dict[int, str] = {}
        self.pids = [pid for reader in readers for pid in reader.pids]
        self._readers = list(readers)

    def hold(self, before: Callable[[int], object]) -> None:
        """Stop the processes with gdb. If one cannot be stopped, the reason is stored in `problems`.

        `before`: is called with the pid of each process before gdb attaches to it.
        """
        left = {reader: list(reader.pids) for reader in self._readers}
        while turn := [reader for reader, pids in left.items() if pids]:
            for reader in turn:
                pid = left[reader][0]
                before(pid)
                reader.ask("attach", pid)
            for reader in turn:
                if why := reader.answer():
                    self._note_problem(reader, left[reader][0], why)
                del left[reader][0]

    def _note_problem(self, reader: Reader, pid: int, why: str) -> None:
        """Store why a process cannot be stopped, and leave the process out from now on."""
        self.problems[pid] = why
        reader.pids.remove(pid)
        self.pids.remove(pid)

    def stacks(self) -> dict[int, dict[int, list[Frame]]]:
        """Return the frames of all threads: pid -> thread id -> frames, innermost first."""
        answers = self._ask_all("stacks", dict.fromkeys(self._readers, ())).values()
        told = {int(pid): threads for answer in answers for pid, threads in answer.items()}
        frames = {pid: [frame for one in threads for frame in one["frames"]] for pid, threads in told.items()}
        inlined_lines.correct_inlined_lines(frames, self._maps)
        return {pid: {one["id"]: [parse_frame(frame) for frame in one["frames"]] for one in threads}
                for pid, threads in told.items()}  # fmt: skip

    def evaluate_numbers(self, requests: Sequence[tuple[Place, Sequence[str]]]) -> list[list[str | None]]:
        """Return the values of expressions in frames, as texts. A value is None if it is no number, or cannot be read.

        `requests`: (position of a frame, its expressions). The result has a list of values for each request.
        """
        of = {reader: [number for number, (place, _) in enumerate(requests) if place[0] in reader.pids]
              for reader in self._readers}  # fmt: skip
        told = self._ask_all("values", {
            reader: ([[*requests[number][0], list(requests[number][1])] for number in numbers],)
            for reader, numbers in of.items()
        })  # fmt: skip
        found = {number: values for reader in told for number, values in zip(of[reader], told[reader], strict=True)}
        return [found[number] for number in range(len(requests))]

    def let_go(self) -> None:
        """Let them run, as if gdb had never been there."""
        self._ask_all("detach", dict.fromkeys(self._readers, ()))

    def give_up(self) -> None:
        """Ask no gdb any more: one has gone, and the next answer of another one may belong to an earlier question."""
        self._readers, self.pids = [], []

    def _ask_all(self, request: str, arguments_by_reader: dict[Reader, tuple[Any, ...]]) -> dict[Reader, Any]:
        """Send a request to all gdbs, which work at the same time, and return the answer of each."""
        for reader, arguments in arguments_by_reader.items():
            reader.ask(request, *arguments)
        return {reader: reader.answer() for reader in arguments_by_reader}


def parse_frame(told: dict[str, Any]) -> Frame:
    """Return a frame as gdb tells it."""
    site = CallSite(told["file"], told["line"], told["function"], told["module"])
    return Frame(site, values=tuple(told["values"].items()))
