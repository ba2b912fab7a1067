"""gdb for one native program: stops, frames, memory and lines, through the machine interface (MI)."""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from weft.base.interrupts import raise_deferred_interrupt
from weft.errors import DebuggerError
from weft.gdb.mi import Mi, quoted, word
from weft.tasks.backend import NoProgress
from weft.tasks.model import SourceLine
from weft.tasks.output import ProgramOutput
from weft.tasks.runtime import SOURCE_PREFIX

REGION, BODY = r"\.omp_outlined\.{0,2}\d*\]?$", r"\.omp_outlined\.?_debug__(\.\d+)?\]?$"
"""How clang calls what it makes of a region, and with debug information its body in that: `.omp_outlined..3` and
`.omp_outlined._debug__.4`; later ones name the function around: `work.omp_outlined.3`, `work.omp_outlined_debug__.4`.
"""
ENTRY = re.compile(rf"\._omp_fn\.\d+|^\.?omp_task_entry\.|^main$|^MAIN__$|{REGION}")
"""The frame at which a task begins: gcc's and clang's bodies of tasks and regions, and the program's own begin."""
OF_PROGRAM = re.compile(r"^(main|MAIN__)$")
"""Of these, the program's own begin."""
WRAPPERS, WRAPPED = re.compile(rf"^\.omp_task_entry\.|{REGION}"), re.compile(rf"{REGION}|{BODY}")
"""clang's frames around the bodies of tasks and regions, and those bodies."""
MADE = re.compile(r"( ?\[?(clone )?\.(_omp_fn\.\d+|omp_outlined(_debug__)?(\.\d+)?)\]?)+$")
"""What the compilers put after the name of a function for a part of it."""
RUNTIME = re.compile(r"lib(i?omp5?|gomp|cilk)\.so")
NOT_OWN = re.compile(
    rf"^{SOURCE_PREFIX}/|/weft-cilk\.[ch]$|/cilk(-(cilk2c|cilk2c-pre|lib|sysdep|conf))?\.h$|/cilk-lib\.cilkh$|/(csu|sysdeps|nptl|elf)/"
    r"|^/usr/(local/)?(include|lib)/"
)
"""Files that are Weft's tool, the C library where its debug information is there, or headers of C++'s and others."""

ADDRESSES = 1 << 63
"""Where the system reads from; what lies above is no address of a program."""
TICK = 0.01
"""Seconds between looks at what else has to go on."""
MARK = b"\0weft: all read\0"

Frame = dict[str, Any]


class MachineInstruction(NamedTuple):
    """An instruction of the program: its address, its file and line, and its text in gdb."""

    pc: int
    file: str
    line: int
    text: str


class Terminal:
    """The pseudo-terminal of the program; a thread stores what the program writes."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.name = os.ttyname(slave)
        self._slave = slave
        self.output = ProgramOutput()
        self._drained = threading.Event()
        self._reader = threading.Thread(target=self._store_program_output, daemon=True)
        self._reader.start()

    def _store_program_output(self) -> None:
        """Store what the program writes to the terminal, until the terminal closes. Marks that `wait_for_output` writes
        are left out.
        """
        held = b""
        with suppress(OSError, ValueError):
            while more := os.read(self._master, 1 << 16):
                held += more
                whole = held.replace(MARK, b"")
                part = next((n for n in range(len(MARK) - 1, 0, -1) if whole.endswith(MARK[:n])), 0)
                self.output.file.write(whole[: len(whole) - part].replace(b"\r\n", b"\n"))
                self.output.file.flush()
                if MARK in held:
                    self._drained.set()
                held = whole[len(whole) - part :]

    def wait_for_output(self) -> None:
        """Wait until everything that the program has written is stored, but at most 5 s. A mark is written to the
        terminal and awaited.
        """
        self._drained.clear()
        with suppress(OSError):
            os.write(self._slave, MARK)
            self._drained.wait(5)

    def close(self) -> None:
        """Close the terminal."""
        for end in (self._slave, self._master):
            with suppress(OSError):
                os.close(end)


class Gdb(Mi):
    """One gdb with one program, all of whose threads stop together.

    `idle` is called repeatedly while the program runs; if it returns True, the program is halted and NoProgress raised.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pid = 0
        self.exited: int | None = None
        self.ran = False
        """Whether the program has gone on from its main."""
        self.idle: Callable[[], bool] | None = None
        self._sites: dict[int, SourceLine | None] = {}
        self._memory: Any = None
        self._threads: dict[int, int] = {}
        self._runtime: list[tuple[int, int]] = []

    def read_messages(self, seconds: float) -> list[dict[str, Any]]:
        """Return the messages that gdb sends within `seconds`. If one reports a stop, the list of threads is read
        again.
        """
        before = len(self.stops)
        found = super().read_messages(seconds)
        if len(self.stops) > before:
            self._threads = {}
        return found

    def console(self, command: str) -> None:
        """Execute one command of gdb's own language."""
        self.ask(f"-interpreter-exec console {quoted(command)}")

    def start_program(self, program: str, arguments: list[str], settings: dict[str, str], terminal: str) -> None:
        """Start the program, and stop it at its main. `settings`: environment variables; `terminal`: the path of the
        program's terminal.
        """
        self.console(f"file {word(program)}")
        self.console(f"set inferior-tty {terminal}")
        for name, value in settings.items():
            self.console(f"set environment {name} {value}")
        if arguments:
            self.console("set args " + shlex.join(arguments))  # gdb gives them to a shell
        self.ask("-break-insert -t -f *main")
        self.ask("-exec-run")
        self.wait(60)

    # Stops

    def wait(self, seconds: float | None, *, heeds_interrupts: bool = True) -> dict[str, Any] | None:
        """Return the program's next stop as gdb describes it; None if none comes within `seconds`. If
        `heeds_interrupts`, Ctrl-C raises KeyboardInterrupt. NoProgress if `idle`, which is asked meanwhile, returns
        True.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while not self.stops:
            if heeds_interrupts:
                raise_deferred_interrupt()
            if until is not None and time.monotonic() > until:
                return None
            patience = 0.1 if self.idle is None else TICK
            self.read_messages(patience if until is None else min(patience, max(until - time.monotonic(), 0.005)))
            if self.idle is not None and not self.stops and self.idle():
                self.ask("-exec-interrupt")
                self.stops.append(self.await_stop())
                if self.stops[0].get("signal-name") in ("SIGINT", "0"):
                    self.stops.clear()
                    raise NoProgress
        stop = self.stops.pop(0)
        reason = str(stop.get("reason", ""))
        if reason.startswith("exited"):
            self.exited = int(str(stop.get("exit-code", "0")), 8)
            if reason == "exited-signalled":  # as Python tells it of a process
                self.exited = -getattr(signal, str(stop.get("signal-name")), 1)
        return stop

    def run(self, command: str) -> None:
        """Let the program run by a command of gdb's machine interface, such as `-exec-continue`. Stops that were
        reported before are forgotten.
        """
        self.ran = True
        self.stops.clear()
        self.ask(command)

    def halt(self) -> dict[str, object]:
        """Stop the program at its current position, and return the stop."""
        self.ask("-exec-interrupt")
        return self.wait(10, heeds_interrupts=False) or {}

    # Threads and frames

    @property
    def threads(self) -> dict[int, int]:
        """Return gdb's number of each thread, by the kernel's thread id."""
        if not self._threads:
            for thread in self.ask("-thread-info").get("threads", []):
                found = re.search(r"LWP (\d+)|process (\d+)", str(thread.get("target-id", "")))
                if found:
                    self._threads[int(found[1] or found[2])] = int(thread["id"])
        return self._threads

    def kernel_thread_id(self, thread: int) -> int:
        """Return the kernel's thread id of gdb's thread number; 0 if there is none."""
        return next((lwp for lwp, id_ in self.threads.items() if id_ == thread), 0)

    def stack(self, thread: int) -> list[Frame]:
        """Return all frames of a thread, innermost first. Frames of the OpenMP runtime get no source file, so that they
        do not look like the program's.
        """
        self.ask(f"-thread-select {thread}")
        frames = list(self.ask("-stack-list-frames").get("stack", []))
        for frame in frames:
            if frame.get("fullname") and self._is_in_runtime(int(frame["addr"], 16)):
                del frame["fullname"]
        return frames

    def _is_in_runtime(self, pc: int) -> bool:
        """Return whether an address is in the OpenMP runtime. Needed for Intel's runtime, whose frames have debug
        information as the program's do.
        """
        if not self._runtime:
            for library in self.ask("-file-list-shared-libraries").get("shared-libraries", []):
                if RUNTIME.match(Path(str(library.get("target-name", ""))).name):
                    self._runtime += [(int(r["from"], 16), int(r["to"], 16)) for r in library.get("ranges", [])]
        return any(start <= pc < end for start, end in self._runtime)

    def evaluate(self, expression: str, thread: int, level: int = 0) -> str:
        """Return the value of an expression in a thread's frame, as gdb writes it."""
        return str(
            self.ask(f"-data-evaluate-expression --thread {thread} --frame {level} {quoted(expression)}")["value"]
        )

    def evaluate_pointer(self, expression: str, thread: int, level: int = 0) -> int:
        """Return the value of an expression that is a pointer, as an address, in whatever language the frame is.
        DebuggerError if it is no pointer.
        """
        value = self.evaluate(expression, thread, level)
        found = re.search(r"0x[0-9a-f]+", value)
        if found is None:
            raise DebuggerError(f"{expression} is {value}, not an address")
        return int(found[0], 16)

    @contextmanager
    def temporary_setting(self, setting: str, value: str, restored_value: str) -> Iterator[None]:
        """Change a setting of gdb inside a `with` block, and set it to `restored_value` afterwards."""
        self.console(f"set {setting} {value}")
        try:
            yield
        finally:
            self.console(f"set {setting} {restored_value}")

    # Memory and lines

    def variable_name(self, address: int) -> str:
        """Return the name of the variable at an address; empty if no variable with a name is there."""
        with suppress(DebuggerError):
            found = re.search(r"<(.+)>", self.evaluate(f"(void *) {address:#x}", next(iter(self.threads.values()))))
            return found[1] if found else ""
        return ""

    def symbol_address(self, symbol: str) -> int:
        """Return the address of a symbol; 0 if it is not loaded (yet)."""
        with suppress(DebuggerError):
            found = re.search(
                r"0x[0-9a-f]+", str(self.ask(f"-data-evaluate-expression {quoted('&' + symbol)}")["value"])
            )
            return int(found[0], 16) if found else 0
        return 0

    def read(self, address: int, length: int) -> bytes:
        """Return memory of the stopped program or core file. DebuggerError if not all of it can be read."""
        if not length:
            return b""
        if self.pid and self.exited is None and address + length <= ADDRESSES:
            with suppress(OSError):
                if self._memory is None:
                    self._memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY)
                data = os.pread(self._memory, length, address)
                if len(data) == length:
                    return data
        with tempfile.NamedTemporaryFile(prefix="weft-tasks-") as file:
            self.console(f"dump binary memory {file.name} {address:#x} {address + length:#x}")
            data = Path(file.name).read_bytes()
        if len(data) != length:
            raise DebuggerError(f"memory of the program at {address:#x} cannot be read")
        return data

    def write(self, address: int, value: int, length: int) -> None:
        """Write an integer of `length` bytes to the program's memory."""
        self.ask(f"-data-write-memory-bytes {address:#x} {value.to_bytes(length, 'little').hex()}")

    def return_site(self, return_address: int) -> SourceLine | None:
        """Return the source line of a call, given the address to which the call returns. None if unknown."""
        if return_address not in self._sites:
            self._sites[return_address] = self._find_line(return_address - 1) if return_address else None
        return self._sites[return_address]

    def _find_line(self, pc: int) -> SourceLine | None:
        """Return the file, line and function of the instruction at an address; None if gdb does not know them."""
        with suppress(DebuggerError, KeyError, IndexError, TypeError):
            rows = self.ask(f"-data-disassemble -s {pc:#x} -e {pc + 1:#x} -- 4")["asm_insns"]
            row = rows[0] if isinstance(rows, list) else rows["src_and_asm_line"]
            inner = row["line_asm_insn"]
            name = str(inner[0].get("func-name", "")) if inner else ""
            return SourceLine(str(row.get("fullname") or row["file"]), int(row["line"]), strip_compiler_suffix(name))
        return None

    def instructions(self, start: int, end: int) -> list[MachineInstruction]:
        """Return the instructions between two addresses of the program, sorted by address; empty if gdb cannot read
        them.
        """
        found = []
        with suppress(DebuggerError, KeyError, TypeError):
            rows = self.ask(f"-data-disassemble -s {start:#x} -e {end:#x} -- 1")["asm_insns"]
            for part in rows if isinstance(rows, list) else [rows["src_and_asm_line"]]:
                file, line = str(part.get("fullname") or part.get("file", "")), int(part["line"])
                rest = part.get("line_asm_insn", [])
                found += [
                    MachineInstruction(int(one["address"], 16), file, line, str(one.get("inst", ""))) for one in rest
                ]
        return sorted(found)

    def instruction_lines(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the address and line of each instruction between two addresses."""
        return [(one.pc, one.line) for one in self.instructions(start, end)]

    @contextmanager
    def temporary_breakpoints(self, locations: list[str], thread: int, lowest_sp: int = 0) -> Iterator[set[str]]:
        """Set breakpoints for one thread inside a `with` block, and yield their numbers in gdb.

        `locations`: in gdb's words. `lowest_sp`: stop only while the stack pointer is not below this address, so that
        deeper calls of the same code do not stop; 0: stop always.
        """
        made = set()
        only = f"-c {quoted(f'$sp >= {lowest_sp}')} " if lowest_sp else ""
        with self.temporary_setting("language", "c", "auto") if lowest_sp else nullcontext():
            for at in locations:
                with suppress(DebuggerError):
                    made.add(str(self.ask(f"-break-insert -p {thread} {only}{quoted(at)}")["bkpt"]["number"]))
        try:
            yield made
        finally:
            if self.exited is None and made:
                self.ask("-break-delete " + " ".join(made))

    def close(self) -> None:
        """End gdb and the program that it runs."""
        if self._memory is not None:
            os.close(self._memory)
        self.exit()


def strip_compiler_suffix(function: str) -> str:
    """Return a function's name as the source has it; compilers add suffixes such as `._omp_fn.0` to parts of it."""
    return "task body" if function.startswith(".omp_") else MADE.sub("", function)


def is_program_frame(frame: Frame) -> bool:
    """Return whether a frame is at a line of the program's own source. Sources of libraries, and of Weft's part in the
    program, do not count.
    """
    file = str(frame.get("fullname", ""))
    return (
        bool(file and frame.get("line"))
        and not NOT_OWN.search(file)
        and not _is_library_source(str(frame.get("file", "")))
    )


@cache
def _is_library_source(file: str) -> bool:
    """Return whether a file is the source of a system library whose debug information is installed
    without its source.
    """
    return file.startswith("./") and not Path(file).exists()


def frame_site(frame: Frame) -> SourceLine:
    """Return the file, line and function of a frame."""
    return SourceLine(
        str(frame.get("fullname", "")), int(frame.get("line", 0)), strip_compiler_suffix(str(frame.get("func", "?")))
    )
