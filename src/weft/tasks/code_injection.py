"""Makes a running Python program execute a script without a debugger, in two ways that stop it for an instant only.

`RemoteExecution` writes into the interpreter what PEP 768 defines for this (3.14): it runs the file at its next safe
point. `MainThreadCall` makes the main thread of an older interpreter perform a call, as a signal would: ptrace stops it
for some hundred microseconds, it continues in Weft's code, and that code restores all registers by itself, so that
nobody has to be there when it returns. The vector registers are saved and restored by the thread (xsave), never through
the debugger's interface: a gdb before 14 writes a part of them there, which the kernel refuses on a processor with AMX.
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

from weft.base.processes import explain_forbidden, read_memory_map
from weft.debug.ptrace import Standing, registers_of, set_registers
from weft.errors import UsageError
from weft.tasks.symbols import LoadedModule, ProcessMemory, find_symbol, find_symbol_address, read_modules

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
FINALIZING: Final = 32
"""Where the offset of the thread that ends the interpreter stands in it, also in that of 3.13."""
FINALIZING_WITHOUT_TABLE: Final = 24
"""That offset in 3.11 and 3.12, which have no table."""
STOP: Final = 1 << 5
"""The bit by which a thread of 3.14 looks whether it is asked for anything."""
MOST_INTERPRETERS: Final = 1000

CALLS: Final = frozenset((0, 7, 23, 35, 43, 45, 47, 61, 230, 232, 247, 270, 271, 281, 288, 441))
"""System calls in which Python has let go of its lock, by their numbers on x86-64: read, poll, select, nanosleep,
accept, epoll, waits for a process."""
FUTEX, FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_PRIVATE, PAGE = 202, 0, 9, 128, 4096
"""A wait for a lock of Python's, by that operation of futex; in the others it may hold what Python's own lock needs."""
RESTARTED: Final = frozenset((-512, -513, -514))
RESTART_BLOCK, RESTART_SYSCALL = -516, 219
"""What the kernel means to do with an interrupted system call, as it stands in rax, and the call that takes it up."""
R12, RBX, RAX, RSI, RDI, ORIG_RAX, RIP, CS, FLAGS, RSP = 3, 5, 10, 13, 14, 15, 16, 17, 18, 19
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
"""What the thread executes, for any place. rbx: the area, followed by the addresses of what is called."""

T = TypeVar("T")


class InjectionError(Exception):
    """Raised if this way of entering a process does not work here; the message has the reason."""


class RemoteExecution:
    """Asks an interpreter from Python 3.14 on to run a file (PEP 768). InjectionError if it cannot be asked."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._flag = 0

    def request_script(self, script: Path) -> None:
        """Ask the interpreter to run a file. All threads stop for an instant; a system call in which one of them waits
        may return early once.
        """
        _run_in_own_thread(lambda: self._write_request(os.fsencode(script) + b"\0"))

    def clean_up(self, *, has_arrived: bool) -> None:
        """Withdraw the request to run the agent's script, unless the agent has arrived."""
        if self._flag and not has_arrived:
            with suppress(OSError), closing(ProcessMemory(self._pid)) as memory:
                memory.write(self._flag, bytes(4))

    def _write_request(self, path: bytes) -> None:
        """Write the path of the file to run, and the flags that request it, into the interpreter's memory."""
        with _stopped_process(self._pid) as (_, memory, known):
            runtime = find_symbol_address(known, "_PyRuntime")
            table = memory.read(runtime, TABLE) if runtime else b""
            if not table.startswith(COOKIE) or struct.unpack_from("<Q", table, 8)[0] >> 16 != LAYOUT:
                raise InjectionError("it does not run a Python that Weft can enter")
            offset = {name: int(struct.unpack_from("<Q", table, at)[0]) for name, at in OFFSETS.items()}
            interpreter = _find_main_interpreter(memory, memory.read_number(runtime + offset["interpreters"]), offset)
            if memory.read_number(interpreter + offset["enabled"], "<i") != 1:
                raise InjectionError("it was started with PYTHON_DISABLE_REMOTE_DEBUG or -X disable_remote_debug")
            thread = memory.read_number(interpreter + offset["main"])
            if not thread or len(path) > offset["size"]:
                raise InjectionError(
                    "it has no main thread" if not thread else "the path of the temporary folder is too long"
                )
            memory.write(thread + offset["support"] + offset["path"], path)
            self._flag = thread + offset["support"] + offset["pending"]
            memory.write(self._flag, struct.pack("<i", 1))
            # All threads stand: nobody else changes these bits between the two.
            breaker = thread + offset["breaker"]
            memory.write(breaker, struct.pack("<Q", memory.read_number(breaker) | STOP))


def _find_main_interpreter(memory: ProcessMemory, first_address: int, offsets: dict[str, int]) -> int:
    """Return the address of the interpreter with id 0 in the process's list. InjectionError if the list has none."""
    for _ in range(MOST_INTERPRETERS):
        if not first_address:
            break
        if memory.read_number(first_address + offsets["id"]) == 0:
            return first_address
        first_address = memory.read_number(first_address + offsets["next"])
    raise InjectionError("it has no interpreter")


def refuse_ending_interpreter(pid: int, memory: ProcessMemory, modules: list[LoadedModule]) -> None:
    """Raise UsageError if the interpreter of a process is just starting, is ending or has ended. Code that entered the
    interpreter then would end the program. `modules`: the program and its libraries.
    """
    runtime = find_symbol_address(modules, "_PyRuntime")
    if not runtime or not find_symbol_address(modules, "Py_Version"):  # 3.10 and older
        return
    table = memory.read(runtime, TABLE)
    finalizing = (
        struct.unpack_from("<Q", table, FINALIZING)[0] if table.startswith(COOKIE) else FINALIZING_WITHOUT_TABLE
    )
    is_initialized = memory.read_number(runtime + finalizing - 8, "<i")  # pycore_runtime.h: `initialized` is before it
    if memory.read_number(runtime + finalizing) or not is_initialized:
        raise UsageError(f"process {pid} cannot be inspected: its Python is starting or ending, and runs no tasks")


class MainThreadCall:
    """Makes the main thread of a process call functions of Python. InjectionError if that is impossible.

    If the thread waits in a system call during which Python has released its lock, it takes the lock and runs the file
    at once. Else it adds a pending call, which runs between two instructions of the program's Python. That takes
    another lock, so it is only done if the thread cannot own that lock (`_can_add_pending_call`).
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.is_given = self.is_direct = False
        """Whether it has the call before it, and whether it runs the file there and then."""
        self._text = (0, 0)

    def request_script(self, script: Path) -> None:
        """Make the main thread run a file, if it can safely do so now. If it cannot, nothing happens, and the caller
        may try again later. InjectionError if it never can.

        Where a direct call is not safe, Python is asked to make the call later (a pending call); that is done only
        once.
        """
        if platform.machine() != "x86_64":
            raise InjectionError(f"Weft can enter processes on x86-64 only, not on {platform.machine()}")
        try:
            status = Path(f"/proc/{self._pid}/status").read_text()
        except OSError as error:
            raise UsageError(f"process {self._pid} has ended") from error
        if not _has_xsave() or "shstk" in status:
            raise InjectionError("its processor has no xsave, or its main thread has a shadow stack")
        _run_in_own_thread(lambda: self._try_to_give_call(os.fsencode(RUN.format(script=str(script))) + b"\0"))

    def clean_up(self, *, has_arrived: bool) -> None:
        """Erase the Python code that was written into the program for its main thread, if the agent has arrived. If it
        has not, nothing is changed, as the call may still come. The machine code stays for the next debugger.
        """
        at, length = self._text
        if at and has_arrived:  # else the call is still to come, and runs what finds no file any more
            with suppress(OSError), closing(ProcessMemory(self._pid)) as memory:
                memory.write(at, bytes(length))

    def _try_to_give_call(self, python_code: bytes) -> None:
        """Make the main thread run Python code by setting its registers, if it is at a point now where that is safe."""
        asleep = _is_asleep(self._pid)
        with _stopped_process(self._pid) as (held, memory, known):
            if held.threads(self._pid).get(self._pid):  # a signal, whose handler comes first
                return
            registers = registers_of(self._pid)
            if len(registers) <= RSP or registers[CS] != CODE_OF_64_BITS:
                raise InjectionError("it is not a process of x86-64")
            names = ("PyGILState_Ensure", "PyRun_SimpleString", "PyGILState_Release", "Py_AddPendingCall",
                     "__errno_location")  # fmt: skip
            enter, run, leave, later, error = (_find_function(known, name) for name in names)
            self.is_direct = asleep and is_in_blocking_call(registers)
            if not self.is_direct and (
                self.is_given or not _can_add_pending_call(registers, known, read_memory_map(self._pid), (run, error))
            ):
                return
            code, at = _place_code(memory, known, python_code)
            self._text = (at, len(python_code))
            nothing = code + len(CODE) - 1
            calls = (error, enter, at, 0, run, leave) if self.is_direct else (error, nothing, run, at, later, nothing)
            begin, held_ = build_call_frame(registers, calls)
            memory.write(begin, held_)
            # From here on the thread needs nobody: were Weft killed now, it would make the call and come back.
            set_registers(self._pid, make_entry_registers(registers, code, begin))
            self.is_given = True


def is_in_blocking_call(registers: list[int]) -> bool:
    """Return whether a thread is in a system call during which Python has released its lock.

    The kernel continues an interrupted poll, sleep or wait for a lock as `restart_syscall`, with the arguments of the
    interrupted call. The first two arguments of a wait for a lock are an address and an operation.
    """
    number = registers[ORIG_RAX]
    if number == RESTART_SYSCALL:
        return registers[RDI] < PAGE or registers[RSI] not in (FUTEX_WAIT, FUTEX_WAIT | FUTEX_PRIVATE)
    return number in CALLS or (number == FUTEX and registers[RSI] & 127 == FUTEX_WAIT_BITSET)


def _can_add_pending_call(
    registers: list[int], modules: list[LoadedModule], maps: str, own_addresses: tuple[int, ...]
) -> bool:
    """Return whether a thread can safely be made to call Py_AddPendingCall: whether it certainly does not own the lock
    of Python's pending calls.

    The owner of that lock calls nothing but Python itself and the C library (`own_addresses`: one address in each),
    makes no system call but futex, and is outside the interpreter's loop. A thread elsewhere in Python itself would not
    reach a pending call before it is back in that loop, either.
    """
    if to_signed(registers[ORIG_RAX]) >= 0:
        return registers[ORIG_RAX] != FUTEX
    begin, length = find_symbol(modules, "_PyEval_EvalFrameDefault")
    at = find_mapped_file(maps, registers[RIP])
    beside = {find_mapped_file(maps, address) for address in own_addresses}
    return begin <= registers[RIP] < begin + length or (
        at.startswith("/") and at not in beside and "/libpthread" not in at
    )


def find_mapped_file(maps: str, address: int) -> str:
    """Return the path of the file that is mapped at an address of a process; empty if none is. `maps`: the text of its
    /proc/PID/maps.
    """
    for line in maps.splitlines():
        row = line.split(maxsplit=5)
        first, _, behind = row[0].partition("-")
        if int(first, 16) <= address < int(behind, 16):
            return row[5] if len(row) == 6 else ""
    return ""


def build_call_frame(registers: list[int], calls: tuple[int, ...]) -> tuple[int, bytes]:
    """Return (address, bytes) of the stack frame for the injected code. The frame has room for vector registers, the
    addresses of the functions to call, and the registers to restore afterwards.
    """
    back = list(registers)
    answer = to_signed(back[RAX])
    if to_signed(back[ORIG_RAX]) >= 0 and answer in {*RESTARTED, RESTART_BLOCK}:
        # As the kernel would have done: the call is made again, from the instruction that made it.
        back[RAX] = RESTART_SYSCALL if answer == RESTART_BLOCK else back[ORIG_RAX]
        back[RIP] -= 2
    saved = struct.pack(f"<{SAVED + 2}Q", *back[:SAVED], back[FLAGS], back[RIP])
    top = registers[RSP] - RED_ZONE - len(saved)
    listed = struct.pack(f"<{len(calls)}Q", *calls)
    begin = (top - AREA - len(listed)) & ~63
    return begin, (bytes(AREA) + listed).ljust(top - begin, b"\0") + saved


def make_entry_registers(registers: list[int], code_address: int, frame_address: int) -> list[int]:
    """Return the registers with which the thread enters the injected code. The code gets the address of its stack frame
    in rbx.
    """
    given = list(registers)
    given[RIP], given[RBX], given[RSP] = code_address, frame_address, frame_address
    given[R12] = registers[RSP] - RED_ZONE - 8 * (SAVED + 2)
    given[ORIG_RAX] = (1 << 64) - 1  # no system call that the kernel would take up again
    return given


def to_signed(value: int) -> int:
    """Return a register as a signed number."""
    return value - (1 << 64) if value >> 63 else value


def _place_code(memory: ProcessMemory, modules: list[LoadedModule], python_code: bytes) -> tuple[int, int]:
    """Write machine code and Python code into the unused bytes at the end of a module's code, and return (address of
    the machine code, address of the Python code). InjectionError if no module has room.
    """
    for module in modules:
        for begin, end in module.code_padding():
            code = begin + 15 & ~15
            held = memory.read(code, max(0, end - code))
            used = held[: len(CODE)]
            at = (len(held.rstrip(b"\0")) if any(held) else len(CODE)) + 8 & ~7
            same = held.find(python_code, len(CODE))
            if (used == CODE or not any(held)) and (same > 0 or at + len(python_code) < len(held)):
                at = same if same > 0 else at
                if used != CODE:
                    memory.write(code, CODE)
                memory.write(code + at, python_code)
                return code, code + at
    raise InjectionError("there is no room for Weft's code after that of the program")


def _find_function(modules: list[LoadedModule], name: str) -> int:
    """Return the address of a function of Python's C interface in the process. InjectionError if no module has a
    function of that name.
    """
    if not (at := find_symbol_address(modules, name)):
        raise InjectionError(f"it has no {name}, so it is not a Python that Weft can call")
    return at


@contextmanager
def _stopped_process(pid: int) -> Iterator[tuple[Standing, ProcessMemory, list[LoadedModule]]]:
    """Stop all threads of a process inside a `with` block, and yield (the stopped threads, the process's memory, its
    program and libraries).

    InjectionError if the process changes meanwhile; UsageError if it may not be stopped.
    """
    held = Standing()
    try:
        with closing(ProcessMemory(pid)) as memory:
            known = list(read_modules(memory, read_memory_map(pid)))
            held.hold([pid])
            threads = held.threads(pid)
            if pid not in threads:
                raise UsageError(explain_forbidden(pid))
            if threads[pid] is None:
                raise InjectionError("its main thread is in a system call that does not return")
            refuse_ending_interpreter(pid, memory, known)
            yield held, memory, known
    except PermissionError as error:
        raise UsageError(explain_forbidden(pid)) from error
    except (OSError, struct.error, OverflowError, ValueError) as error:
        raise InjectionError(f"its memory is not as Weft expects: {error}") from error
    finally:
        held.release_all()


def _run_in_own_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread of its own, and return its result. When that thread ends, the kernel releases all
    processes that it traces.
    """
    told: list[T] = []
    wrong: list[BaseException] = []

    def call_and_store() -> None:
        """Call the function, and store its result or its exception."""
        try:
            told.append(function())
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=call_and_store)
    thread.start()
    thread.join()
    if wrong:
        raise wrong[0]
    return told[0]


def _is_asleep(pid: int) -> bool:
    """Return whether a process's main thread sleeps in the kernel. False for a thread that only passes through a system
    call: it may own locks of the C library.
    """
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    return False


def _has_xsave() -> bool:
    with suppress(OSError), Path("/proc/cpuinfo").open() as told:
        return any(line.startswith("flags") and " xsave " in line for line in told)
    return False
