"""Code comes into a Python that runs without a debugger: no register and no system call changes for the program."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.tasks.test_asyncio import PYTHONS
from tests.tasks.test_attach import running

from machine import need
from weft.cli.main import main
from weft.debug.ptrace import Standing
from weft.errors import UsageError
from weft.tasks import attached, session
from weft.tasks.code_injection import (
    AREA,
    CODE,
    ORIG_RAX,
    RAX,
    RIP,
    RSP,
    InjectionError,
    MainThreadCall,
    build_call_frame,
)

x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="this way in is one of x86-64")
BROKEN = """#!/bin/sh
# As gdb 13 does on a processor with AMX: it attaches, and no function can be called.
for word in "$@"; do last=$word; done
echo "$last:1: Error in sourced command file:" >&2
echo "Couldn't write extended state status: Bad address." >&2
"""
HOLDS = r"""
#include <errno.h>
#include <stdint.h>
#include <string.h>
/* Hold known values in registers and beneath the stack for a while; 0, or which of them another one changed. */
int hold(int rounds) {
    unsigned char in[256], out[256];
    for (int i = 0; i < 256; i++) in[i] = (unsigned char)(7 * i + 1);
    memcpy(out, in, 256);
    long double before = 3.25L, after = 0;
    errno = 4711;
    while (rounds--) {
        uint64_t left = 20000, first = 0x1122334455667788, second = 0x99aabbccddeeff00;
        __asm__ volatile(
            "fldt %[before]\n movdqu 0(%[in]), %%xmm0\n movdqu 112(%[in]), %%xmm7\n movdqu 240(%[in]), %%xmm15\n"
            "mov %[first], -8(%%rsp)\n mov %[second], -128(%%rsp)\n mov %[first], %%r8\n mov %[second], %%r11\n"
            "1: dec %[left]\n jnz 1b\n"
            "movdqu %%xmm0, 0(%[out])\n movdqu %%xmm7, 112(%[out])\n movdqu %%xmm15, 240(%[out])\n fstpt %[after]\n"
            "xor -8(%%rsp), %[first]\n xor -128(%%rsp), %[second]\n xor %%r11, %%r8\n"
            : [left] "+r"(left), [first] "+r"(first), [second] "+r"(second), [after] "=m"(after)
            : [in] "r"(in), [out] "r"(out), [before] "m"(before)
            : "memory", "cc", "r8", "r11", "xmm0", "xmm7", "xmm15", "st");
        if (first || second) return 1;
        if (after != before) return 2;
        if (errno != 4711) return 3;
        if (memcmp(in, out, 256)) return 4;
    }
    return 0;
}
"""
HOLDER = """import asyncio, ctypes, sys
hold = ctypes.PyDLL(sys.argv[1]).hold
visits = []

async def main():
    print("begun", flush=True)
    told = 0
    while len(visits) < 5 and not told:
        told = hold(2000)
    print("changed" if told else "kept", told, len(visits), flush=True)

asyncio.run(main())
"""


@contextmanager
def begun(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A program that has said `begun`."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        process.kill()
        process.wait()


def given(pid: int, script: Path) -> MainThreadCall:
    """A call that was put before a process."""
    way = MainThreadCall(pid)
    limit = time.monotonic() + 20
    while not way.is_given and time.monotonic() < limit:
        way.request_script(script)
        time.sleep(0.005)
    assert way.is_given
    return way


@x86_64
@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc here")
@pytest.mark.needs("ptrace")
def test_a_thread_that_is_stopped_anywhere_keeps_its_registers_and_its_red_zone(tmp_path: Path) -> None:
    source, library, program, script = (tmp_path / name for name in ("hold.c", "hold.so", "holder.py", "script.py"))
    source.write_text(HOLDS)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    program.write_text(HOLDER)
    script.write_text("import __main__\n__main__.visits.append(1)\n")
    with begun(sys.executable, program, library) as process:
        for _ in range(5):
            assert not given(process.pid, script).is_direct  # it computes: the call is made when its Python goes on
            time.sleep(0.05)
        assert process.communicate(timeout=60)[0] == "kept 0 5\n"


WAITS = """import asyncio, ctypes, select, threading, time, sys

async def main():
    waits = {
        "sleep": lambda: time.sleep(2), "select": lambda: select.select([], [], [], 2),
        "lock": lambda: threading.Event().wait(2),
    }
    begun = time.monotonic()
    print("begun", flush=True)
    waits[sys.argv[1]]()
    print(round(time.monotonic() - begun), visits, flush=True)

visits = []
asyncio.run(main())
"""


@pytest.mark.cases(1)
@x86_64
@pytest.mark.parametrize("how", ["sleep", "select", "lock"])
@pytest.mark.needs("ptrace")
def test_a_system_call_that_was_interrupted_goes_on_to_its_own_end(tmp_path: Path, how: str) -> None:
    program, script = tmp_path / "waits.py", tmp_path / "script.py"
    program.write_text(WAITS)
    script.write_text("import __main__\n__main__.visits.append(1)\n")
    with begun(sys.executable, program, how) as process:
        time.sleep(0.3)
        assert given(process.pid, script).is_direct
        assert process.communicate(timeout=60)[0] == "2 [1]\n"
        assert process.returncode == 0


@x86_64
@pytest.mark.needs("ptrace")
def test_a_program_goes_on_though_weft_is_killed_at_the_worst_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is before the thread, which still stands when Weft goes: nobody is there to put registers back."""
    program, script = tmp_path / "waits.py", tmp_path / "script.py"
    program.write_text(WAITS)
    script.write_text("import __main__\n__main__.visits.append(1)\n")
    with begun(sys.executable, program, "sleep") as process:
        time.sleep(0.3)
        child = os.fork()
        if not child:
            monkeypatch.setattr(Standing, "release_all", lambda held: os.kill(os.getpid(), signal.SIGKILL))
            MainThreadCall(process.pid).request_script(script)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        assert process.communicate(timeout=60)[0] == "2 [1]\n"
        assert process.returncode == 0


def test_what_lies_on_the_stack_brings_the_thread_back_to_where_it_was() -> None:
    registers = list(range(1, 28))
    registers[RSP], registers[RIP], registers[RAX], registers[ORIG_RAX] = 0x7FFE0000F008, 0x401002, 2**64 - 516, 7
    begin, held = build_call_frame(registers, (1, 2, 3, 4, 5, 6))
    assert begin % 64 == 0
    assert begin + len(held) == registers[RSP] - 128
    assert not any(held[:AREA])
    assert int.from_bytes(held[-8:], "little") == 0x401000  # the system call is made again
    assert int.from_bytes(held[-8 * 7 : -8 * 6], "little") == 219  # by restart_syscall
    registers[RAX] = 0  # the twin has returned
    assert int.from_bytes(build_call_frame(registers, (1, 2, 3, 4, 5, 6))[1][-8:], "little") == 0x401002
    assert len(CODE) < 128


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A gdb that can call nothing comes first on the PATH."""
    fake = tmp_path / "bin" / "gdb"
    fake.parent.mkdir()
    fake.write_text(BROKEN)
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    return fake


@x86_64
@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.needs("ptrace")
def test_a_hung_program_is_told_of_where_gdb_can_call_nothing(
    tmp_path: Path, python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(python, tmp_path) as process:
        assert main(["tasks", "--pid", str(process.pid), "--once"]) == 1
        assert "nothing can happen any more: task 2 (getter) waits" in capsys.readouterr().out
        assert process.poll() is None


@x86_64
@pytest.mark.needs("ptrace")
def test_a_hung_program_is_told_of_where_there_is_no_gdb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with running(sys.executable, tmp_path) as process:
        assert main(["tasks", "--pid", str(process.pid), "--once"]) == 1
        assert "nothing can happen any more: task 2 (getter) waits" in capsys.readouterr().out


def no_way(*_: object) -> None:
    """As on a machine that has none of Weft's own ways in."""
    raise InjectionError("Weft has no way of its own into this machine's processes")


def test_where_nothing_goes_gdbs_own_words_are_told_at_once(
    tmp_path: Path, broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached.RemoteExecution, "request_script", no_way)
    monkeypatch.setattr(attached.MainThreadCall, "request_script", no_way)
    monkeypatch.setattr("weft.base.debuggers._find_wheel_gdb", lambda: None)
    with running(sys.executable, tmp_path) as process:
        before = time.monotonic()
        with pytest.raises(UsageError, match="and gdb says: Couldn't write extended state status: Bad address"):
            session([], pid=process.pid).__enter__()
        assert time.monotonic() - before < 5
        broken.unlink()
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(UsageError, match=r"no way of its own.*With gdb it could: apt"):
            session([], pid=process.pid).__enter__()
        assert process.poll() is None


@pytest.mark.needs("ptrace")
def test_gdbs_call_is_the_last_way_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("calls by gdb")
    monkeypatch.setattr(attached.RemoteExecution, "request_script", no_way)
    monkeypatch.setattr(attached.MainThreadCall, "request_script", no_way)
    with running(sys.executable, tmp_path) as process, session([], pid=process.pid) as s:
        assert {row["name"] for row in s.do("tasks")["tasks"]} == {None, "getter"}


def test_a_program_that_is_stopped_is_left_so_and_that_is_said(tmp_path: Path) -> None:
    with running(sys.executable, tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        with pytest.raises(UsageError, match="it is stopped"):
            session([], pid=process.pid).__enter__()


IMPORTS = """import sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "asyncio.runners":
            print("begun", flush=True)
            time.sleep(1)

sys.meta_path.insert(0, Slow())
import asyncio

async def main():
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.needs("ptrace")
def test_a_program_that_is_just_importing_asyncio_is_asked_again(tmp_path: Path) -> None:
    program = tmp_path / "imports.py"
    program.write_text(IMPORTS)
    with begun(sys.executable, program) as process, session([], pid=process.pid) as s:
        (row,) = s.do("tasks")["tasks"]
        assert row["wait"]["kind"] == "event"


@x86_64
def test_a_program_that_has_ended_meanwhile_is_told_in_a_sentence(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    with pytest.raises(UsageError, match=f"process {process.pid} has ended"):
        MainThreadCall(process.pid).request_script(tmp_path / "script.py")


ENDED = """
import ctypes, sys
ctypes.pythonapi.Py_AtExit(ctypes.CDLL(None).getchar)
print("begun", flush=True)
"""
"""Waits after its interpreter has ended, as the libraries of an MPI may do."""


@x86_64
def test_an_interpreter_that_has_ended_is_not_entered(tmp_path: Path) -> None:
    program = tmp_path / "ended.py"
    program.write_text(ENDED)
    words = [sys.executable, str(program)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        time.sleep(1)
        with pytest.raises(UsageError, match="its Python is starting or ending"), session([], pid=process.pid):
            pass
        process.communicate("\n", timeout=30)
    assert process.returncode == 0  # entered, it would crash
