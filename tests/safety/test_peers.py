"""What another user of this host reaches or foretells: ports, addresses on command lines, folders of job steps."""

from __future__ import annotations

import argparse
import encodings.idna  # noqa: F401 (of connections: the second user may not read where Python lies)
import http.client
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from second_user import as_second_user, second_user
from view import runs
from weft.cli import _complete
from weft.errors import UsageError, WeftError
from weft.launch import shared_run
from weft.launch.job_step import JobStep
from weft.launch.local import rendezvous
from weft.launch.rundir import RunDirectory
from weft.safety.peers import GONE, claim_name, find_peer_user, is_ours
from weft.trace import Trace
from weft.view.run_view import RunView
from weft.view.server import ViewServer

STEP = JobStep("mpiexec", "host:4711", 0, 2, lasting=False)
LASTING = JobStep("slurm", "17.0", 0, 2, lasting=True)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        yield server


def test_the_other_end_is_known_also_where_it_sends_no_more_or_is_closed(listener: socket.socket) -> None:
    """A half that is shut down has another state in the kernel's table, and one that is closed no owner: 0."""
    users: list[int | None] = []

    def taken() -> None:
        one, _ = listener.accept()
        with one:
            one.recv(1)
            users.append(find_peer_user(one))
            one.sendall(b"x")

    def sends_no_more() -> None:
        with socket.create_connection(listener.getsockname(), 20) as one:
            one.shutdown(socket.SHUT_WR)
            one.recv(1)

    for visit in (lambda: as_second_user(sends_no_more), sends_no_more):
        taker = threading.Thread(target=taken)
        taker.start()
        visit()
        taker.join(20)
    assert users[0] not in (None, 0, os.geteuid(), GONE)
    assert users[1] == os.geteuid()


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")], ids=["IPv4", "IPv6"]
)
def test_the_other_end_is_known_whatever_kind_of_socket_it_connects_by(
    listener: socket.socket, family: socket.AddressFamily, address: str
) -> None:
    """The kernel has a socket of IPv6 in another table, also where it has connected to an address of IPv4."""

    def visits() -> None:
        with socket.socket(family) as one:
            one.settimeout(20)
            one.connect((address, listener.getsockname()[1]))
            one.recv(1)

    for visit in (visits, lambda: as_second_user(visits)):
        if visit is not visits:
            second_user()  # skips the test here: it could not in the thread
        visitor = threading.Thread(target=visit)
        visitor.start()
        one, _ = listener.accept()
        with one:
            assert is_ours(one) == (visit is visits)
            assert find_peer_user(one) not in (None, GONE)
        visitor.join(20)


def test_who_resets_the_connection_is_nobody(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname(), 20) as visitor:
        one, _ = listener.accept()
        named = one.getpeername()
        visitor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with one, pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "getpeername", lambda _: named)
        assert not is_ours(one), "it was there when its name was asked for"


def test_who_is_gone_is_nobody(listener: socket.socket) -> None:
    socket.create_connection(listener.getsockname(), 20).close()
    one, _ = listener.accept()
    with one:
        assert not is_ours(one)


def test_the_address_on_a_browsers_command_line_opens_the_view_for_this_user_alone(tmp_path: Path) -> None:
    server = ViewServer(RunView(Trace.open(runs.deadlock(tmp_path / "run"))))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()

    def status() -> int:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
        connection.request("GET", "/?" + server.url_for_browser.partition("?")[2])
        answer = connection.getresponse()
        assert bool(answer.getheader("Set-Cookie")) == (answer.status == 200)
        return answer.status

    def refused() -> None:
        assert status() == 403

    try:
        assert server.token not in server.url_for_browser
        assert status() == 200
        as_second_user(refused)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("kind", ["link", "pipe", "hard link"])
def test_the_list_of_steps_in_a_folder_of_another_user_writes_to_no_file_elsewhere(
    shared: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(shared)
    precious = shared / "precious"
    precious.write_text("precious")
    name = f"{shared_run.STEPS}-{os.geteuid()}"

    def planted() -> None:
        (shared / "weft-runs").mkdir()
        (shared / "weft-runs").chmod(0o777)
        for at in (name, shared_run.STEPS):
            if kind == "link":
                (shared / "weft-runs" / at).symlink_to(precious)
            elif kind == "pipe":
                os.mkfifo(shared / "weft-runs" / at)

    as_second_user(planted)
    if kind == "hard link":
        (shared / "weft-runs" / name).hardlink_to(precious)
    with pytest.raises(WeftError, match="cannot write the run"):
        shared_run.choose_folder(STEP, "prog")
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("step", [STEP, LASTING])
def test_a_run_that_another_user_made_for_our_step_is_not_joined(
    shared: Path, monkeypatch: pytest.MonkeyPatch, step: JobStep
) -> None:
    monkeypatch.chdir(shared)
    monkeypatch.setattr(shared_run, "PATIENCE", 5)
    trap = shared / "weft-runs" / f"prog-{step.name}"

    def planted() -> None:
        (trap / "ranks").mkdir(parents=True)
        (trap / "step").mkdir()
        (shared / "weft-runs").chmod(0o777)
        facts = {"step": {"system": step.system, "name": step.name}, "finished": None}
        (trap / "run.json").write_text(json.dumps(facts))
        for path in (trap, trap / "ranks", trap / "step"):
            path.chmod(0o777)

    as_second_user(planted)
    if step.lasting:
        with pytest.raises(WeftError, match="another user"):
            shared_run.choose_folder(step, "prog")
    else:
        (shared / "weft-runs" / f"{shared_run.STEPS}-{os.geteuid()}").write_text(json.dumps({step.name: trap.name}))
        assert shared_run.choose_folder(step, "prog").name == "prog-1"
    with pytest.raises(UsageError, match="not empty"):
        shared_run.create_or_join_run(step, trap, {}, lambda _: None)
    assert list((trap / "step").iterdir()) == []


def test_tasks_of_this_user_meet(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shared)

    def planted() -> None:
        (shared / "weft-runs").mkdir()
        (shared / "weft-runs").chmod(0o777)

    as_second_user(planted)
    for step in (STEP, LASTING):
        path = shared_run.choose_folder(step, "prog")
        assert shared_run.choose_folder(step, "prog") == path
        first = shared_run.create_or_join_run(step, path, {}, RunDirectory.write)
        second = shared_run.create_or_join_run(step, path, {}, RunDirectory.write)
        assert len(second.read_tasks()) == len(first.read_tasks()) == 2


def test_who_answers_instead_of_rank_0_is_not_listened_to_for_ever(listener: socket.socket) -> None:
    sent = 0

    def talks() -> None:
        nonlocal sent
        one, _ = listener.accept()
        with one, suppress(OSError):
            one.sendall(rendezvous.MAGIC)
            while sent < 64 << 20:
                sent += one.send(bytes(1 << 16))

    talker = threading.Thread(target=talks)
    talker.start()
    answer = rendezvous.query_port(
        "127.0.0.1", listener.getsockname()[1], "seen-0123456789abcdef", time.monotonic() + 20
    )
    talker.join(20)
    assert not answer
    assert sent < 64 << 20


def test_who_answers_instead_of_rank_0_by_and_by_holds_nobody_up(listener: socket.socket) -> None:
    over = threading.Event()

    def dribbles() -> None:
        one, _ = listener.accept()
        with one, suppress(OSError):
            one.sendall(rendezvous.MAGIC)
            while not over.wait(0.1):
                one.sendall(b"x")

    talker = threading.Thread(target=dribbles)
    talker.start()
    begun = time.monotonic()
    assert not rendezvous.query_port("127.0.0.1", listener.getsockname()[1], "seen-0123456789abcdef", begun + 0.5)
    assert time.monotonic() - begun < 5
    over.set()
    talker.join(20)


@pytest.mark.parametrize("make", [os.mkfifo, lambda at: at.write_text("[" * 100_000)], ids=["pipe", "nested"])
def test_to_complete_a_rank_of_a_hostile_run_ends(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "run.json")
    assert _complete.complete_ranks("", argparse.Namespace(run=tmp_path)) == []


@pytest.mark.parametrize("listens", [True, False])
def test_a_name_of_the_kernel_that_another_user_took_keeps_nobody_silent(listens: bool) -> None:
    name = f"weft-test-{os.getpid()}-{listens}"
    ready, release = socket.socketpair()

    def takes() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
            one.bind(f"\0{name}-0-0")
            if listens:
                one.listen(1)
            ready.sendall(b"x")
            ready.recv(1)

    taker = threading.Thread(target=as_second_user, args=(takes,))
    second_user()
    taker.start()
    try:
        release.settimeout(20)
        assert release.recv(1) == b"x"
        held = claim_name(name)
        assert held is not None
        assert claim_name(name) is None, "one of this user's has it"
        held.close()
    finally:
        release.sendall(b"x")
        taker.join(20)
