"""The hand in native ranks: one gdb a rank, started on demand, driven through its machine interface.

The rank runs on between commands, as it drives MPI for the others while it is parked; it is halted only while gdb is
asked something. In a stop at a line it stays halted.
"""

from __future__ import annotations

import bisect
import linecache
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from weft.debug.hands import Frame, HandError, Point
from weft.debug.mi import Mi, quoted

_NOT_THE_PROGRAM = re.compile(
    r"(libweft|weft|lib[pf]?mpi|libmpich|libopen-|libprrte|libpmix|libuc|libfabric|libhwloc|libevent|libc[.-]|libm[.-]"
    r"|libpthread|ld-linux|libmpifort|libmpicxx)[^/]*$|^\[vdso\]"
)


_AT_A_LINE = ("breakpoint-hit", "end-stepping-range", "location-reached", "signal-received", "function-finished")


class NativeHand(Mi):
    """gdb attached to one process. HandError where that cannot be."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.stopped: Frame | None = None
        self.refused = ""
        self.why = ""
        self._step = ""
        self._line = 0
        self._returning = False
        self._points: dict[int, str] = {}
        self._last_drive = 0.0
        if shutil.which("gdb") is None:
            raise HandError("there is no gdb here, which looks into native ranks: install it (apt install gdb)")
        super().__init__()
        try:
            self._ask(f"-target-attach {pid}")
        except HandError as error:
            self._gdb.exit()
            raise HandError(_cannot_attach(pid, str(error))) from error
        self._await_stop()
        self._maps = _Maps(pid)
        self._run()

    def _run(self) -> None:
        self._stops.clear()
        self._ask("-exec-continue")

    @contextmanager
    def _halted(self) -> Iterator[None]:
        """The rank halted while gdb is asked; it runs on behind, unless it stands at a line."""
        self.poll()
        if self.stopped is not None or not self._running:
            yield
            return
        self._ask("-exec-interrupt")
        stop = self._await_stop()
        if "exited" in str(stop.get("reason", "")):
            raise HandError("the rank has gone")
        if stop.get("reason") in ("breakpoint-hit", "end-stepping-range"):
            self._arrive()
            yield
            return
        try:
            yield
        finally:
            if not self._running and self.stopped is None:
                self._run()

    # What a hand does

    def _raw_frames(self) -> list[dict[str, Any]]:
        with suppress(HandError):
            self._ask("-thread-select 1")
        return list(self._ask("-stack-list-frames").get("stack", []))

    def _frames(self) -> list[Frame]:
        """From the innermost frame of the program on."""
        raw = self._raw_frames()
        modules = [self._maps.module(int(frame["addr"], 16)) for frame in raw]
        begin = next((i for i, module in enumerate(modules) if not _NOT_THE_PROGRAM.search(module)), len(raw))
        found: list[Frame] = []
        for frame, module in zip(raw[begin:], modules[begin:], strict=True):
            if Path(module).name.startswith(("libc.", "libc-")) and found:
                break
            file, line = frame.get("fullname") or frame.get("file") or "", int(frame.get("line", 0))
            name = frame.get("func", "??")
            where = (
                name if file else f"{name} in {Path(module).name}+{int(frame['addr'], 16) - self._maps.base(module):#x}"
            )
            found.append(Frame(file, line, where, source_line(file, line), int(frame["level"]),
                               Path(module).name.startswith(("python", "libpython"))))  # fmt: skip
        return found

    def stack(self) -> list[Frame]:
        """The program's frames, innermost first."""
        with self._halted():
            return self._frames()

    def evaluate(self, text: str, level: int) -> str:
        """What gdb prints for an expression in the language of the frame."""
        with self._halted():
            frames = self._frames()
            if not frames:
                raise HandError("the rank is in no frame of the program")
            chosen = frames[min(level, len(frames) - 1)].level
            answer = self._call(chosen, text)
        return str(answer.get("value", ""))

    def _call(self, frame: int, text: str) -> dict[str, Any]:
        """Evaluate an expression. Where it calls a function of the rank, gdb says `running`, but never `stopped`."""
        try:
            return self._ask(f"-data-evaluate-expression --thread 1 --frame {frame} {quoted(text)}")
        finally:
            self._running = False
            self._stops.clear()

    def arm(self, points: Sequence[Point]) -> None:
        """Take these as the rank's breakpoints."""
        wanted = {point.id: point for point in points}
        if wanted.keys() == self._points.keys():
            return
        with self._halted():
            for gone in self._points.keys() - wanted.keys():
                self._ask(f"-break-delete {self._points.pop(gone)}")
            for id_ in wanted.keys() - self._points.keys():
                point = wanted[id_]
                place = f"{point.file}:{point.line}" if point.line else point.function
                skip = f"-i {point.count - 1} " if point.count > 1 else ""
                made = self._ask(f"-break-insert {skip}{quoted(place)}")
                self._points[id_] = str(made["bkpt"]["number"])

    def step(self, how: str) -> None:
        """Stop at the next line. A rank that is inside MPI first returns to the line that called it."""
        with self._halted():
            frames = self._frames()
            if not frames:
                raise HandError("the rank is in no frame of the program")
            if not frames[0].line:
                raise HandError(f"no lines are known of {frames[0].function}: compile with -g, or use `next event`")
            self._step, self._line = how, frames[0].line
            if frames[0].level == 0:
                self.stopped, self._stops = None, []
                self._ask(f"-exec-{how}")
            else:
                self._returning = True
                self._stops = []
                self._ask(f"-exec-finish --thread 1 --frame {frames[0].level - 1}")

    def unstep(self) -> None:
        """Forget the step."""
        if not self._step:
            return
        self._step, self._returning = "", False
        if self._running:
            self._ask("-exec-interrupt")
            with suppress(HandError):
                self._await_stop()
        self._run()

    def resume(self) -> None:
        """Let a rank that stands at a line go on."""
        if self.stopped is not None:
            self.stopped = None
            if not self._running:
                self._run()

    def poll(self) -> None:
        """Take up stops: the end of a call that a step had to leave, a line, a breakpoint, a signal."""
        with suppress(HandError):
            self._read(0)
            while self._stops:
                self._happened(self._stops.pop(0))

    def _happened(self, stop: dict[str, Any]) -> None:
        reason = str(stop.get("reason", ""))
        if reason in ("", "function-finished") and self._returning:  # gdb 13 gives no reason for a void function
            self._returning = False
            if int((stop.get("frame") or {}).get("line", 0)) in (0, self._line):
                self._ask(f"-exec-{self._step}")
            else:
                self._arrive()  # the call was the last of its line
        elif stop.get("signal-name") == "SIGINT":
            self._run()  # Ctrl-C at the prompt reached gdb too
        elif reason in _AT_A_LINE:
            self.why = str(stop.get("signal-name", "")) if reason == "signal-received" else reason
            self._arrive()
        elif not reason.startswith("exited"):
            self._run()

    def _arrive(self) -> None:
        """The rank stands at a line, or where no line is known: then it goes on to one."""
        self._returning = False
        frames = self._frames()
        step, self._step = self._step, ""
        if not frames or (frames[0].level and not self.why.startswith("SIG")):
            self._run()  # stepped out of main
            return
        if step and not frames[0].line:
            self._run()
            return
        self.stopped = frames[0]

    def drive(self) -> None:
        """Let MPI go on for others while the rank stands at a line."""
        if self.stopped is not None and time.monotonic() - self._last_drive > 0.05 and not self.why.startswith("SIG"):
            self._last_drive = time.monotonic()
            with suppress(HandError):
                self._call(0, "((void(*)(void))weft_debug_drive)()")

    def close(self) -> None:
        """Leave the rank: it runs on."""
        with suppress(HandError):
            if self._running:
                self._ask("-exec-interrupt", 2)
                self._await_stop(2)
            self._ask("-target-detach", 2)
        with suppress(Exception):
            self._gdb.exit()


class _Maps:
    """Which module of a process holds an address."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._read()

    def _read(self) -> None:
        rows: list[tuple[int, int, str]] = []
        self._bases: dict[str, int] = {}
        for line in Path(f"/proc/{self._pid}/maps").read_text().splitlines():
            words = line.split(maxsplit=5)
            if len(words) == 6:
                start, end = (int(word, 16) for word in words[0].split("-"))
                rows.append((start, end, words[5]))
                self._bases.setdefault(words[5], start)
        self._rows = rows
        self._starts = [row[0] for row in rows]

    def module(self, address: int) -> str:
        """The file, empty where there is none."""
        row = bisect.bisect_right(self._starts, address) - 1
        return self._rows[row][2] if row >= 0 and address < self._rows[row][1] else ""

    def base(self, module: str) -> int:
        """Where the module begins."""
        return self._bases.get(module, 0)


def source_line(file: str, line: int) -> str:
    """The text of a line, empty where it cannot be read."""
    return linecache.getline(file, line).strip() if file and line else ""


def _cannot_attach(pid: int, words: str) -> str:
    """Why, and what to do."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if "not permitted" in words or "ptrace" in words.lower():
        level = scope.read_text().strip() if scope.exists() else "0"
        if level in ("2", "3"):
            return (
                f"gdb may not attach to process {pid}: the system allows no debugging "
                f"(kernel.yama.ptrace_scope is {level}); `sysctl kernel.yama.ptrace_scope=1` as root changes that"
            )
        return (
            f"gdb may not attach to process {pid}: another debugger holds it, or the container forbids it "
            "(docker: --cap-add=SYS_PTRACE)"
        )
    return f"gdb cannot attach to process {pid}: {words}"
