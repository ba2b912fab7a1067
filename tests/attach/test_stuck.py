"""A gdb that a program keeps for ever, as by a pipe in the place of its lines, is ended, and the program goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests_support import execute
from weft.attach import guard
from weft.attach.hold import stopped
from weft.attach.native import Native
from weft.attach.reader import is_reader, started_readers
from weft.base.processes import read_status
from weft.errors import DebuggerError
from weft.gdb import mi, scripted

pytestmark = pytest.mark.needs("gdb")
SLEEPS = """
#include <unistd.h>
static int number = 7;
int called(int given) { number = given; return write(1, "called", 6); }
int (*pointers[1])(int) = {called};
int main(void) { for (;;) pause(); }
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that sleeps. Its lines lie in another file, which is a pipe."""
    (tmp_path / "sleeps.c").write_text(SLEEPS)
    for words in (
        ["gcc", "-g", "sleeps.c", "-o", "sleeps"], ["objcopy", "--only-keep-debug", "sleeps", "lines"],
        ["objcopy", "--strip-debug", "--add-gnu-debuglink=lines", "sleeps"],
    ):  # fmt: skip
        done = execute(words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    (tmp_path / "lines").unlink()
    os.mkfifo(tmp_path / "lines")
    with subprocess.Popen([tmp_path / "sleeps"], stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def until_it_goes_on(pid: int) -> None:
    limit = time.monotonic() + 30
    while read_status(pid) != ("S", 0) and time.monotonic() < limit:
        time.sleep(0.02)
    assert read_status(pid) == ("S", 0)


def test_a_gdb_that_waits_for_ever_is_ended(program: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripted, "PATIENCE", 2.0)
    with stopped([program.pid]) as held, started_readers([program.pid]) as gdbs:
        native = Native(gdbs)
        with pytest.raises(DebuggerError, match="no answer"):
            native.hold(held.release)
            native.stacks()
        native.give_up()
        assert native.stacks() == {}
    until_it_goes_on(program.pid)


def test_a_gdb_that_waits_for_ever_ends_also_where_weft_was_killed(
    program: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 1.0)
    weft = os.fork()
    if not weft:
        with stopped([program.pid]) as held, started_readers([program.pid]) as gdbs:
            Native(gdbs).hold(held.release)
            os._exit(0)
    limit = time.monotonic() + 30
    while not is_reader(read_status(program.pid)[1]) and time.monotonic() < limit:
        time.sleep(0.02)
    tracer = read_status(program.pid)[1]
    time.sleep(1)  # until it waits
    os.kill(weft, signal.SIGKILL)
    os.waitpid(weft, 0)
    until_it_goes_on(program.pid)
    assert not is_reader(tracer)


def test_a_debuggers_gdb_that_waits_for_ever_is_ended(
    program: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `weft tasks --core` has it, whose program's libraries may be pipes."""
    monkeypatch.setattr(mi, "ENDING", 1.0)
    gdb = mi.Mi()
    process = gdb.process
    with pytest.raises(DebuggerError):
        gdb.ask(f"-file-exec-and-symbols {mi.quoted(str(tmp_path / 'sleeps'))}", patience=2)
    gdb.exit()
    assert not Path(f"/proc/{process}").exists()
    gdb.exit()


@pytest.mark.parametrize(("text", "number"), [("number + 1", "8"), ("pointers[0](9)", None), ("(called)(9)", None)])
def test_no_code_of_the_program_runs_for_a_value(
    program: subprocess.Popen[bytes], tmp_path: Path, text: str, number: str | None
) -> None:
    (tmp_path / "lines").unlink()
    assert execute(["gcc", "-g", "sleeps.c", "-o", "sleeps"], cwd=tmp_path).returncode == 0
    with subprocess.Popen([tmp_path / "sleeps"], stdout=subprocess.PIPE) as process:
        try:
            until_it_goes_on(process.pid)
            with stopped([process.pid]) as held, started_readers([process.pid]) as gdbs:
                native = Native(gdbs)
                native.hold(held.release)
                [thread] = native.stacks()[process.pid].items()
                level = next(k for k, frame in enumerate(thread[1]) if frame.site.function == "main")
                assert native.evaluate_numbers([((process.pid, thread[0], level), [text, "number"])]) == [[number, "7"]]
        finally:
            process.kill()
            assert process.communicate()[0] == b""
