"""Root looks at another user's process: nothing is given away, and nothing of root's comes to that user."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.tasks.test_attach import RUNS

from weft.cli.main import main
from weft.errors import DebuggerError, UsageError
from weft.tasks import rendezvous
from weft.tasks.python import AgentConversation
from weft.tasks.rendezvous import Rendezvous, find_process_user

OTHER = 64123
"""A user that nobody is."""
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can look at another user's processes")
ATTACK = """import os, sys
victim = sys.argv[1]
print("begun", flush=True)
while True:  # whatever Weft makes becomes a link to what is root's
    for name in os.listdir("/tmp"):
        if name.startswith("weft-attach-"):
            for file in ("socket", "script.py"):
                path = f"/tmp/{name}/{file}"
                try:
                    os.unlink(path)
                    os.symlink(victim, path)
                except OSError:
                    pass
"""


def as_other(*command: str) -> subprocess.Popen[str]:
    """Another user's program."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, user=OTHER, group=OTHER, extra_groups=[],
                               env={"PATH": "/usr/bin:/bin"}, cwd="/")  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.fixture
def python() -> str:
    """A Python that every user may execute."""
    found = next((one for one in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(one).exists()), None)
    if found is None:
        pytest.skip("there is no Python here that another user could execute")
    return found


@pytest.fixture
def theirs(python: str) -> Iterator[subprocess.Popen[str]]:
    """Another user's process."""
    with as_other(python, "-c", "import time; print('begun', flush=True); time.sleep(100)") as process:
        yield process
        process.kill()
    for folder in Path(tempfile.gettempdir()).glob("weft-attach-*"):  # that user may keep Weft from taking his away
        with suppress(FileNotFoundError):  # other tests make and take away theirs
            if folder.stat(follow_symlinks=False).st_uid == OTHER:
                shutil.rmtree(folder)


@root
def test_what_is_made_for_another_users_process_is_made_as_that_user(theirs: subprocess.Popen[str]) -> None:
    with closing(Rendezvous(theirs.pid)) as place:
        folder = place.script.parent
        assert [path.stat().st_uid for path in (folder, place.script, folder / "socket")] == [OTHER] * 3
        assert folder.stat().st_mode & 0o777 == 0o700
        assert place.script.stat().st_mode & 0o777 == 0o600
    assert not folder.exists()


@root
def test_no_file_of_roots_is_given_away_whatever_the_other_user_does_meanwhile(
    theirs: subprocess.Popen[str], python: str, tmp_path: Path
) -> None:
    victim = tmp_path / "secret"
    victim.write_text("root's")
    victim.chmod(0o600)
    with as_other(python, "-c", ATTACK, str(victim)) as attacker:
        for _ in range(25):
            try:
                Rendezvous(theirs.pid).close()
            except UsageError:  # they may spoil the look, of their own process
                continue
        attacker.kill()
    told = victim.stat()
    assert (told.st_uid, told.st_mode & 0o777, victim.read_text()) == (os.geteuid(), 0o600, "root's")


@root
def test_what_acts_as_the_other_user_has_nothing_of_roots(theirs: subprocess.Popen[str], python: str) -> None:
    """Neither its terminal nor its groups, and that user can neither read what root's environment was nor trace it."""
    spy = (
        "import os, sys\ntold = []\n"
        "for name in ('environ', 'mem', 'maps', 'fd/0'):\n"
        "    try:\n        open(f'/proc/{sys.argv[1]}/{name}', 'rb').read(1)\n        told.append(name)\n"
        "    except OSError:\n        pass\n"
        "print('begun', *told)"
    )

    def look() -> bytes:
        with as_spy(python, spy, os.getpid()) as process:
            seen = process.communicate(timeout=30)[0].split()
        try:
            os.close(os.open("/dev/tty", os.O_RDWR))
            terminal = True
        except OSError:
            terminal = False
        alone, streams = os.getsid(0) == os.getpid(), str(Path("/proc/thread-self/fd/0").readlink())
        return json.dumps([os.getresuid(), os.getresgid(), os.getgroups(), dict(os.environ), terminal, alone, streams,
                           seen]).encode()  # fmt: skip

    with closing(Rendezvous(theirs.pid)) as place:
        told = json.loads(place._as_user(look))
    assert told == [[OTHER] * 3, [OTHER] * 3, [], {}, False, True, "/dev/null", ["begun"]]


def as_spy(python: str, code: str, pid: int) -> subprocess.Popen[str]:
    """A process of the same user that looks into another."""
    return subprocess.Popen([python, "-c", code, str(pid)], stdout=subprocess.PIPE, text=True)


@root
def test_only_the_process_itself_is_heard(theirs: subprocess.Popen[str], python: str) -> None:
    connect = (
        "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
        "print('begun', flush=True)\ns.recv(1)"
    )
    with closing(Rendezvous(theirs.pid)) as place:
        with as_other(python, "-c", connect, str(place.script.with_name("socket"))) as stranger:
            assert place.accept(1) is None
        assert stranger.wait(10) == 0
    with closing(Rendezvous(os.getpid())) as place, socket.socket(socket.AF_UNIX) as line:
        line.connect(str(place.script.with_name("socket")))
        assert place.accept(5) is not None


@root
def test_strangers_who_come_again_and_again_hold_nobody_up(theirs: subprocess.Popen[str], python: str) -> None:
    connect = (
        "import socket, sys, time\nprint('begun', flush=True)\n"
        "while True:\n    with socket.socket(socket.AF_UNIX) as s:\n        s.connect(sys.argv[1])\n"
        "        time.sleep(0.05)\n"
    )
    with (
        closing(Rendezvous(theirs.pid)) as place,
        as_other(python, "-c", connect, str(place.script.with_name("socket"))) as stranger,
    ):
        begun = time.monotonic()
        assert place.accept(0.5) is None
        assert time.monotonic() - begun < 10
        stranger.kill()


@root
def test_what_acts_as_the_other_user_and_is_stopped_is_not_waited_for(
    theirs: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous, "SECONDS", 0.5)
    with closing(Rendezvous(theirs.pid)) as place:
        with pytest.raises(OSError, match="it did not answer"):
            place._as_user(lambda: os.kill(os.getpid(), signal.SIGSTOP) or b"")
        assert place._as_user(lambda: b"yes") == b"yes"


@pytest.mark.parametrize("said", [b"[" * 100_000 + b"\n", b"[]\n", b"\xff\n", b"x" * 5000])
def test_what_is_no_answer_of_the_agent_is_told(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.tasks.python.MOST", 4096 if said[:1] == b"x" else 1 << 20)
    heard = AgentConversation()
    heard._line, theirs = socket.socketpair()
    with heard._line, theirs:
        theirs.sendall(said)
        with pytest.raises(DebuggerError, match="Weft's agent"):
            heard._receive_message(5)


@root
@pytest.mark.needs("ptrace")
def test_root_is_told_why_another_users_program_hangs(python: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Weft's files must be readable for that user: they are executed in that user's process."""
    if subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False).returncode:
        pytest.skip("its Python is older than 3.11")
    with as_other(python, "-c", RUNS) as process:
        time.sleep(0.5)
        status = main(["tasks", "--pid", str(process.pid), "--once"])
        process.kill()
    told = capsys.readouterr()
    if "must be able to make a folder" in told.err:
        pytest.skip("another user cannot read Weft's files here")
    assert status == 1
    assert "task 2 (getter) waits" in told.out


def test_nothing_stays_where_the_agent_does_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with closing(Rendezvous(os.getpid())) as place:
        assert place.accept(0.01) is None
        assert list(tmp_path.iterdir()) == [place.script.parent]
    assert not list(tmp_path.iterdir())
    assert find_process_user(os.getpid()) == (os.geteuid(), os.getegid())


@pytest.mark.needs("ptrace")
def test_nothing_stays_behind_the_agent_though_weft_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "runs.py"
    program.write_text(RUNS)
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        code = (
            "import time\nfrom weft.tasks import session\n"
            f"with session([], pid={process.pid}):\n    print('in', flush=True)\n    time.sleep(99)"
        )
        temporary = tmp_path / "tmp"
        temporary.mkdir()
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "TMPDIR": str(temporary)}) as look:  # fmt: skip
            assert look.stdout is not None
            assert look.stdout.readline() == "in\n"
            look.kill()
        assert not list(temporary.iterdir())
        assert process.poll() is None
        shutil.rmtree(temporary)
        process.kill()
