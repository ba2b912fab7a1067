"""Connections of strangers to a run over hosts: they hold no place, and what is said of them is what is known."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.launch.launcher_line import parse_launcher_line
from weft.launch.local.host_protocol import SealedChannel, Side, encode_facts
from weft.launch.local.hosts import STRANGERS, Hosts, network_prefix
from weft.launch.local.plan_hosts import is_single_host
from weft.launch.rundir import RunDirectory

SECRET = b"s" * 32


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Hosts]:
    (tmp_path / "run/ranks").mkdir(parents=True)
    made = Hosts(RunDirectory(tmp_path / "run", {}), SECRET)
    yield made
    made.close()


def connected(port: int, count: int, source: str) -> list[socket.socket]:
    """Connections that say nothing, from one address of this host."""
    return [socket.create_connection(("127.0.0.1", port), 5, (source, 0)) for _ in range(count)]


def host(port: int, name: str, source: str, secret: bytes = SECRET) -> None:
    """A watcher that shows the secret and says its name, as far as it is let."""
    channel = SealedChannel(secret, Side.HOST)
    with socket.create_connection(("127.0.0.1", port), 5, (source, 0)) as one:
        one.settimeout(5)
        one.sendall(channel.greeting)
        while not channel.is_greeted:
            list(channel.receive_frames(one.recv(1 << 16)))
        one.sendall(channel.make_frame(b"H", encode_facts({"host": name, "folder": "/tmp"})))
        one.recv(1 << 16)


def known(hosts: Hosts, seconds: float) -> list[str]:
    limit = time.monotonic() + seconds
    while time.monotonic() < limit and not hosts.hosts:
        hosts.handle_arrivals(0.05)
    return [one.name for one in hosts.hosts]


@pytest.mark.parametrize("source", ["127.0.0.9", "127.0.0.1"], ids=["another address", "the same address"])
def test_four_hundred_connections_of_a_stranger_keep_no_host_out(listening: Hosts, source: str) -> None:
    strangers = []
    for _ in range(8):  # as fast as they are taken
        strangers += connected(listening.port, 50, "127.0.0.9")
        listening.handle_arrivals(0.05)
    threading.Thread(target=host, args=(listening.port, "real", source), daemon=True).start()
    assert known(listening, 5) == ["real"]
    assert sum(not one.known for one in listening.all) <= STRANGERS
    for one in strangers:
        one.close()


def test_a_host_that_has_shown_the_secret_is_not_sent_away(listening: Hosts) -> None:
    threading.Thread(target=host, args=(listening.port, "real", "127.0.0.1"), daemon=True).start()
    assert known(listening, 5) == ["real"]
    strangers = connected(listening.port, STRANGERS + 20, "127.0.0.1")
    listening.handle_arrivals(0.1)
    assert [one.name for one in listening.hosts] == ["real"]
    for one in strangers:
        one.close()


def test_who_has_another_secret_is_a_stranger_and_is_counted_by_its_address(listening: Hosts) -> None:
    threading.Thread(target=host, args=(listening.port, "false", "127.0.0.7", b"t" * 32), daemon=True).start()
    limit = time.monotonic() + 5
    while not listening.strangers["127.0.0.7"] and time.monotonic() < limit:
        listening.handle_arrivals(0.05)
    assert listening.hosts == []
    assert listening.strangers["127.0.0.7"] == 1


def test_where_all_is_on_this_host_nobody_else_can_connect(tmp_path: Path) -> None:
    (tmp_path / "run/ranks").mkdir(parents=True)
    made = Hosts(RunDirectory(tmp_path / "run", {}), SECRET, here=True)
    assert made._listener.getsockname()[0] == "127.0.0.1"
    made.close()


@pytest.mark.parametrize(
    ("words", "here"),
    [
        ("./prog", True), ("mpiexec.hydra -n 2 ./prog", True), ("mpiexec.hydra -hosts a,b -n 2 ./prog", False),
        ("srun -n 2 ./prog", False), ("strange-launcher -n 2 ./prog", None),
    ],
)  # fmt: skip
def test_only_what_surely_stays_on_this_host_is_listened_to_there_alone(words: str, here: bool | None) -> None:
    assert is_single_host(parse_launcher_line(words.split())) is here or here is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("::ffff:10.0.0.1", "10.0.0.1", True), ("2001:db8::1", "2001:db8::2:3:4:5", True),
        ("2001:db8::1", "2001:db8:0:1::1", False), ("10.0.0.1", "10.0.0.2", False), ("fe80::1%eth0", "fe80::2", True),
    ],
)  # fmt: skip
def test_an_address_is_counted_as_what_one_stranger_may_have(one: str, other: str, same: bool) -> None:
    assert (network_prefix(one) == network_prefix(other)) is same
