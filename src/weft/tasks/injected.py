"""A Python that runs already executes a file of Weft's, without a debugger: two ways, which halt it for an instant.

`Asked` writes into the interpreter what PEP 768 has for this (3.14): it runs the file at its next safe point. `Called`
gives the main thread of an older one a call to make, as a signal would: it stands by ptrace for some hundred
microseconds, goes on in Weft's code, and that puts all registers back by itself, so that nobody has to be there for it
to come back. The vector registers are saved and put back by the thread (xsave), never through the debugger's interface:
a gdb before 14 writes a part of them there, which the kernel refuses on a processor with AMX.
"""

from __future__ import annotations

import os
import platform
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from weft.base.processes import explain_forbidden, maps_of
from weft.debug.ptrace import Standing, registers_of, set_registers
from weft.errors import UsageError
from weft.tasks.symbols import Memory, Module, extent, find, modules

RUN = """try:
    exec(__import__("pathlib").Path({script!r}).read_bytes(), {{}})
except BaseException:
    pass
"""
"""What the thread is given to run. Nothing goes out of it: from a pending call an error would be Python's own."""
COOKIE: Final = b"xdebugpy"
"""How the table begins that an interpreter has for debuggers."""
OFFSETS: Final = {
    "interpreters": 40, "id": 56, "next": 64, "main": 80, "breaker": 712, "support": 720, "enabled": 728,
    "pending": 736, "path": 744, "size": 752,
}  # fmt: skip
"""Where offsets stand in that table of 3.14 (`_Py_DebugOffsets`)."""
LAYOUT: Final = 0x030E
"""The version whose table that is."""
TABLE: Final = 760
STOP: Final = 1 << 5
"""The bit by which a thread of 3.14 looks whether it is asked for anything."""
MOST_INTERPRETERS: Final = 1000

CALLS: Final = frozenset((0, 7, 23, 35, 43, 45, 47, 61, 230, 232, 247, 270, 271, 281, 288, 441))
"""System calls in which Python has let go of its lock, by their numbers on x86-64: read, poll, select, nanosleep,
accept, epoll, waits for a process."""
FUTEX, FUTEX_WAIT_BITSET = 202, 9
"""A wait for a lock of Python's, by that operation of futex; in the others it may hold what Python's own lock needs."""
RESTARTED: Final = frozenset((-512, -513, -514))
RESTART_BLOCK, RESTART_SYSCALL = -516, 219
"""What the kernel means to do with an interrupted system call, as it stands in rax, and the call that takes it up."""
R12, RBX, RAX, RSI, ORIG_RAX, RIP, CS, FLAGS, RSP = 3, 5, 10, 13, 15, 16, 17, 18, 19
"""Places of registers in `struct user_regs_struct`."""
SAVED: Final = 15
"""The first of them, which the code below takes from the stack in that order."""
CODE_OF_64_BITS: Final = 0x33
RED_ZONE: Final = 128
"""Bytes beneath the stack pointer that a function may use (System V ABI, 3.2.2)."""
AREA: Final = 4096
"""Bytes for the vector registers: those of AVX-512 and APX need 2,688. Tiles of AMX are left alone: Python has none."""
CODE: Final = bytes.fromhex(
    "fc"  # cld
    "31d2" "b8e7000800" "480fae23"  # xsave64 [rbx], of x87, SSE, AVX, AVX-512, APX
    "dbe3"  # fninit: the thread may be within MMX
    "ff9300100000" "4989c5" "448b30"  # r13 = __errno_location(), r14d = errno
    "ff9308100000" "4189c7"  # r15d = enter()
    "488bbb10100000" "488bb318100000" "ff9320100000"  # function(first, second)
    "4489ff" "ff9328100000"  # leave(r15d)
    "45897500"  # errno = r14d
    "31d2" "b8e7000800" "480fae2b"  # xrstor64 [rbx]
    "4c89e4"  # rsp = r12: the general registers lie there, flags, where to go on, and the red zone
    "415f" "415e" "415d" "415c" "5d" "5b" "415b" "415a" "4159" "4158" "58" "59" "5a" "5e" "5f"
    "9d"  # popfq
    "c28000"  # ret 128: to where it was, with its own stack pointer
    "c3"  # ret: what is called where nothing is to be entered
)  # fmt: skip
"""What the thread executes, for any place. rbx: the area and behind it the addresses of what is called."""

T = TypeVar("T")


class NoWayError(Exception):
    """A way in that cannot be gone here; the reason in words."""


class Asked:
    """An interpreter from 3.14 on is asked to run a file (PEP 768). NoWayError where it cannot be."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._flag = 0

    def enter(self, script: Path) -> None:
        """Ask. A thread that waits in a system call for I/O comes back from it, as all stand for an instant."""
        _apart(lambda: self._write(os.fsencode(script) + b"\0"))

    def withdraw(self, *, came: bool) -> None:
        """It need not come to it any more, where it has not."""
        if self._flag and not came:
            with suppress(OSError), closing(Memory(self._pid)) as memory:
                memory.write(self._flag, bytes(4))

    def _write(self, path: bytes) -> None:
        with _standing(self._pid) as (_, memory, known):
            runtime = find(known, "_PyRuntime")
            table = memory.read(runtime, TABLE) if runtime else b""
            if not table.startswith(COOKIE) or struct.unpack_from("<Q", table, 8)[0] >> 16 != LAYOUT:
                raise NoWayError("it is not a Python that can be asked")
            offset = {name: int(struct.unpack_from("<Q", table, at)[0]) for name, at in OFFSETS.items()}
            interpreter = _main_interpreter(memory, memory.number(runtime + offset["interpreters"]), offset)
            if memory.number(interpreter + offset["enabled"], "<i") != 1:
                raise NoWayError("it was started with PYTHON_DISABLE_REMOTE_DEBUG or -X disable_remote_debug")
            thread = memory.number(interpreter + offset["main"])
            if not thread or len(path) > offset["size"]:
                raise NoWayError("it has no main thread" if not thread else "the path of the temporary folder is long")
            memory.write(thread + offset["support"] + offset["path"], path)
            self._flag = thread + offset["support"] + offset["pending"]
            memory.write(self._flag, struct.pack("<i", 1))
            # All threads stand: nobody else changes these bits between the two.
            breaker = thread + offset["breaker"]
            memory.write(breaker, struct.pack("<Q", memory.number(breaker) | STOP))


def _main_interpreter(memory: Memory, first: int, offset: dict[str, int]) -> int:
    """The interpreter that began with the process."""
    for _ in range(MOST_INTERPRETERS):
        if not first:
            break
        if memory.number(first + offset["id"]) == 0:
            return first
        first = memory.number(first + offset["next"])
    raise NoWayError("it has no interpreter")


class Called:
    """The main thread of a process calls Python's own functions. NoWayError where it cannot be brought to it.

    In a system call that waits, where Python has let go of its lock, it takes the lock and runs the file there and
    then. Else it leaves a pending call, which runs between two instructions of the program's Python. That takes another
    lock, so it is only done where the thread cannot hold it (`is_clear`).
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.given = self.direct = False
        """Whether it has the call before it, and whether it runs the file there and then."""
        self._text = (0, 0)

    def enter(self, script: Path) -> None:
        """Have it run a file, where it stands at a place for that now; not a second time but there and then."""
        if platform.machine() != "x86_64":
            raise NoWayError(f"Weft brings code into processes of x86-64 only, not of {platform.machine()}")
        if not _has_xsave() or "shstk" in Path(f"/proc/{self._pid}/status").read_text():
            raise NoWayError("its processor has no xsave, or the thread a shadow stack")
        _apart(lambda: self._give(os.fsencode(RUN.format(script=str(script))) + b"\0"))

    def withdraw(self, *, came: bool) -> None:
        """What it was given to run is not needed any more: the text goes, the code stays for the next visit."""
        at, length = self._text
        if at and came:  # else the call is still to come, and runs what finds no file any more
            with suppress(OSError), closing(Memory(self._pid)) as memory:
                memory.write(at, bytes(length))

    def _give(self, text: bytes) -> None:
        """Put the call before the main thread, if that can be done at this instant."""
        asleep = _sleeps(self._pid)
        with _standing(self._pid) as (held, memory, known):
            if held.threads(self._pid).get(self._pid):  # a signal, whose handler comes first
                return
            registers = registers_of(self._pid)
            if len(registers) <= RSP or registers[CS] != CODE_OF_64_BITS:
                raise NoWayError("it is not a process of x86-64")
            names = ("PyGILState_Ensure", "PyRun_SimpleString", "PyGILState_Release", "Py_AddPendingCall",
                     "__errno_location")  # fmt: skip
            enter, run, leave, later, error = (_found(known, name) for name in names)
            self.direct = asleep and is_idle(registers)
            if not self.direct and (self.given or not _is_clear(registers, known, maps_of(self._pid), (run, error))):
                return
            code, at = _placed(memory, known, text)
            self._text = (at, len(text))
            nothing = code + len(CODE) - 1
            calls = (error, enter, at, 0, run, leave) if self.direct else (error, nothing, run, at, later, nothing)
            begin, held_ = frame_of(registers, calls)
            memory.write(begin, held_)
            # From here on the thread needs nobody: were Weft killed now, it would make the call and come back.
            set_registers(self._pid, entering(registers, code, begin))
            self.given = True


def is_idle(registers: list[int]) -> bool:
    """Whether a thread stands in a system call in which Python has let go of its lock."""
    number = registers[ORIG_RAX]
    return number in CALLS or (number == FUTEX and registers[RSI] & 127 == FUTEX_WAIT_BITSET)


def _is_clear(registers: list[int], known: list[Module], maps: str, within: tuple[int, ...]) -> bool:
    """Whether a thread cannot hold the lock of the pending calls.

    What holds it calls nothing but Python itself and the C library (`within`: an address in each), no system call but
    futex, and stands beside the interpreter's loop. What stands elsewhere in Python itself would not come to a pending
    call before it is back in that loop, either.
    """
    if signed(registers[ORIG_RAX]) >= 0:
        return registers[ORIG_RAX] != FUTEX
    begin, length = extent(known, "_PyEval_EvalFrameDefault")
    at = file_at(maps, registers[RIP])
    beside = {file_at(maps, address) for address in within}
    return begin <= registers[RIP] < begin + length or (
        at.startswith("/") and at not in beside and "/libpthread" not in at
    )


def file_at(maps: str, address: int) -> str:
    """What a process has mapped at an address, "" for no file."""
    for line in maps.splitlines():
        row = line.split(maxsplit=5)
        first, _, behind = row[0].partition("-")
        if int(first, 16) <= address < int(behind, 16):
            return row[5] if len(row) == 6 else ""
    return ""


def frame_of(registers: list[int], calls: tuple[int, ...]) -> tuple[int, bytes]:
    """What lies on the thread's stack for the code, and where: the area, what is called, and all registers."""
    back = list(registers)
    answer = signed(back[RAX])
    if signed(back[ORIG_RAX]) >= 0 and answer in {*RESTARTED, RESTART_BLOCK}:
        # As the kernel would have done: the call is made again, from the instruction that made it.
        back[RAX] = RESTART_SYSCALL if answer == RESTART_BLOCK else back[ORIG_RAX]
        back[RIP] -= 2
    saved = struct.pack(f"<{SAVED + 2}Q", *back[:SAVED], back[FLAGS], back[RIP])
    top = registers[RSP] - RED_ZONE - len(saved)
    listed = struct.pack(f"<{len(calls)}Q", *calls)
    begin = (top - AREA - len(listed)) & ~63
    return begin, (bytes(AREA) + listed).ljust(top - begin, b"\0") + saved


def entering(registers: list[int], code: int, begin: int) -> list[int]:
    """The registers with which the thread goes on in the code. `begin`: its frame, which it finds in rbx."""
    given = list(registers)
    given[RIP], given[RBX], given[RSP] = code, begin, begin
    given[R12] = registers[RSP] - RED_ZONE - 8 * (SAVED + 2)
    given[ORIG_RAX] = (1 << 64) - 1  # no system call that the kernel would take up again
    return given


def signed(value: int) -> int:
    """A register as a signed number."""
    return value - (1 << 64) if value >> 63 else value


def _placed(memory: Memory, known: list[Module], text: bytes) -> tuple[int, int]:
    """Where code and text lie: in what the last page of a module's code has behind its end, which nothing else uses."""
    for module in known:
        for begin, end in module.padding():
            code = begin + 15 & ~15
            held = memory.read(code, max(0, end - code))
            used = held[: len(CODE)]
            at = (len(held.rstrip(b"\0")) if any(held) else len(CODE)) + 8 & ~7
            same = held.find(text, len(CODE))
            if (used == CODE or not any(held)) and (same > 0 or at + len(text) < len(held)):
                at = same if same > 0 else at
                if used != CODE:
                    memory.write(code, CODE)
                memory.write(code + at, text)
                return code, code + at
    raise NoWayError("there is no room for Weft's code behind that of the program")


def _found(known: list[Module], name: str) -> int:
    if not (at := find(known, name)):
        raise NoWayError(f"it has no {name}: not a Python that can be called")
    return at


@contextmanager
def _standing(pid: int) -> Iterator[tuple[Standing, Memory, list[Module]]]:
    """All threads of a process stand. NoWayError where it changes under our hands, UsageError where it is forbidden."""
    held = Standing()
    try:
        with closing(Memory(pid)) as memory:
            known = list(modules(memory, maps_of(pid)))
            held.hold([pid])
            threads = held.threads(pid)
            if pid not in threads:
                raise UsageError(explain_forbidden(pid))
            if threads[pid] is None:
                raise NoWayError("its main thread is in the kernel and does not come out of it")
            yield held, memory, known
    except PermissionError as error:
        raise UsageError(explain_forbidden(pid)) from error
    except (OSError, struct.error, OverflowError, ValueError) as error:
        raise NoWayError(f"its memory is not as it should be: {error}") from error
    finally:
        held.release_all()


def _apart(work: Callable[[], T]) -> T:
    """Do something in a thread of its own: what it traces is let go when that ends, whatever it comes to."""
    told: list[T] = []
    wrong: list[BaseException] = []

    def do() -> None:
        try:
            told.append(work())
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=do)
    thread.start()
    thread.join()
    if wrong:
        raise wrong[0]
    return told[0]


def _sleeps(pid: int) -> bool:
    """Whether the main thread is asleep: what only passes through a system call may be within the C library's locks."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    return False


def _has_xsave() -> bool:
    with suppress(OSError), Path("/proc/cpuinfo").open() as told:
        return any(line.startswith("flags") and " xsave " in line for line in told)
    return False
