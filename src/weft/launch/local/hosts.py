"""Listen to the watchers of a run's hosts in `weft run`: their progress, and their records at the end."""

from __future__ import annotations

import errno
import os
import re
import selectors
import shutil
import signal
import socket
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from weft.base.lazy import dataclass
from weft.errors import WeftError
from weft.launch.job_step import MOST_RANKS
from weft.launch.local.host_protocol import (
    ProtocolError,
    SealedChannel,
    Side,
    decode_facts,
    encode_facts,
    read_number,
    read_text,
)
from weft.launch.local.merge_records import move_records
from weft.launch.local.pack import PackReceiver, unpack_file
from weft.launch.process import ENDING
from weft.launch.rundir import RunDirectory

INCOMING: Final = ".incoming"
"""In the run: what a host has sent and is not yet whole."""
STANDSTILL: Final = ".standstill"
STRANGERS: Final = 128
"""Connections at once that have not shown the secret. One more takes the place of another: see `_make_room`."""
STRANGE_FOR: Final = 10.0
"""Seconds in which they have to."""
AT_ONCE: Final = 0.1
"""Seconds for what comes in, before anything else is looked at."""
FRESH: Final = 3.0
"""Seconds after which what a host has told counts no more."""
GONE: Final = 10_000
"""Milliseconds until a host that takes nothing counts as gone."""
SILENT: Final = 300.0
"""Seconds for a host to put its records in order."""
UNREACHABLE: Final = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH})
READ: Final = 1 << 20
FLAGS: Final = ("inside", "open", "events", "named", "busy")
RANK: Final = re.compile(r"([0-9a-f]{1,16})-(\d{1,9})\.weft", re.ASCII)


class Host:
    """A connection from a host of the run, or from somebody who has not yet shown the secret."""

    def __init__(self, connection: socket.socket, secret: bytes, place: int, network: str = "") -> None:
        self.socket = connection
        self.network = network
        """Where it connected from, as far as one stranger may have it: an address, of IPv6 its first half."""
        self.channel = SealedChannel(secret, Side.RUN)
        self.place = place
        self.name = ""
        self.folder = ""
        self.facts: dict[str, Any] = {}
        self.ranks: list[str] = []
        self.heard = 0
        self.seen = time.monotonic()
        self.out = bytearray(self.channel.greeting)
        self.taking: PackReceiver | None = None
        self.snapshot: PackReceiver | None = None
        self.gathered: PackReceiver | None = None
        self.lost: str | None = None
        """Why nothing more comes from here."""
        self.unreachable = False
        """Whether the host itself no longer answers, not only its watcher."""

    @property
    def known(self) -> bool:
        """Whether it has shown the secret and said its name."""
        return bool(self.name)

    @property
    def done(self) -> bool:
        """Whether all of it is here."""
        return self.gathered is not None

    @property
    def idle(self) -> bool:
        """Whether no rank runs there any more, according to its watcher; also if the host does not answer."""
        return self.unreachable or (self.lost is None and bool(self.facts) and not self.facts["busy"])

    @property
    def started(self) -> int:
        """How many ranks were started there."""
        return read_number(self.facts, "started", MOST_RANKS)

    @property
    def failed(self) -> bool:
        """Whether a rank there has failed, of a task that does not see the run."""
        return self.facts.get("failed") is True

    def rank_numbers(self) -> list[int]:
        """Return the ranks that the host reported."""
        return sorted({int(match[2]) for name in self.ranks if (match := RANK.fullmatch(name))})


@dataclass(frozen=True)
class HostsProgress:
    """The progress of all hosts together; `moves` is equal in two states only if no rank has moved between them."""

    moves: tuple[tuple[int, int], ...]
    complete: bool
    inside: bool
    events: bool


class Hosts:
    """Listens for the hosts of one run."""

    def __init__(self, run: RunDirectory, secret: bytes, *, here: bool = False) -> None:
        """`here`: whether all ranks are on this host, so that nobody else needs to reach it."""
        self.run, self._secret = run, secret
        self.all: list[Host] = []
        self.strangers: Counter[str] = Counter()
        """Connections that did not show the secret, by where they came from."""
        self.problems: list[str] = []
        """What did not fit when it was put together."""
        self._adopted: dict[Path, PackReceiver] = {}
        self._number = 0
        self._selector = selectors.DefaultSelector()
        try:
            self._listener = open_listener(this_host_only=here)
        except OSError as error:
            raise WeftError(f"no port for the hosts of the run can be opened: {error.strerror}") from error
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self.port = int(self._listener.getsockname()[1])

    # What comes in

    def handle_arrivals(self, pause: float = 0.0) -> None:
        """Accept new connections and handle the data that hosts have sent; wait at most `pause` seconds for some. Also
        send what is pending, and drop strangers that do not show the secret in time."""
        until = time.monotonic() + AT_ONCE
        while events := self._selector.select(pause):
            pause = 0.0
            for key, _ in events:
                if key.data is None:
                    self._accept()
                else:
                    self._receive(key.data)
            if time.monotonic() > until:
                break
        for host in self.all:
            if host.lost is None and not host.known and time.monotonic() - host.seen > STRANGE_FOR:
                self._mark_lost(host, "it did not show the secret")
            self._flush(host)
        self.all = [host for host in self.all if host.known or host.lost is None]

    def _accept(self) -> None:
        """Accept the connection of a host."""
        with suppress(OSError):
            connection, address = self._listener.accept()
            self._make_room()
            connection.setblocking(False)
            detect_dead_peer(connection)
            host = Host(connection, self._secret, self._number, network_prefix(address[0]))
            self._number += 1
            self.all.append(host)
            self._selector.register(connection, selectors.EVENT_READ, host)
            self._flush(host)

    def _make_room(self) -> None:
        """If there are too many connections that have not shown the secret, close the oldest one from the network that
        has most of them.

        A host of the run shows the secret at once; an attacker with many open connections keeps out nobody but himself.
        """
        waiting = [host for host in self.all if not host.known and host.lost is None]
        if len(waiting) >= STRANGERS:
            [(most, _)] = Counter(host.network for host in waiting).most_common(1)
            self._mark_lost(next(host for host in waiting if host.network == most), "it did not show the secret")

    def _receive(self, host: Host) -> None:
        """Receive data from a host, and handle the frames in it."""
        try:
            data = host.socket.recv(READ)
            if not data:
                raise ProtocolError("its connection was closed")
            for kind, body in host.channel.receive_frames(data):
                host.seen = time.monotonic()
                self._handle_frame(host, kind, body)
        except BlockingIOError:
            return
        except ProtocolError as error:
            self._mark_lost(host, str(error))
        except OSError as error:
            self._fail(host, error)

    def _fail(self, host: Host, error: OSError) -> None:
        host.unreachable |= error.errno in UNREACHABLE
        self._mark_lost(host, (error.strerror or str(error)).lower())

    def _mark_lost(self, host: Host, why: str) -> None:
        """Mark a host as lost, and close its connection."""
        if host.lost is None:
            host.lost = why
            self.strangers[host.network] += not host.known
            if host.taking is not None:
                host.taking.discard_partial_file()
            self._selector.unregister(host.socket)
            host.socket.close()

    def _flush(self, host: Host) -> None:
        """Send to a host as many of the waiting bytes as its connection takes now."""
        if host.lost is None and host.out:
            try:
                del host.out[: host.socket.send(host.out)]
            except BlockingIOError:
                return
            except OSError as error:
                self._fail(host, error)

    def _handle_frame(self, host: Host, kind: bytes, body: bytes) -> None:
        """Handle one frame from a host: its name, its state, or a part of its records."""
        if kind == b"H" and not host.known:
            facts = decode_facts(body)
            host.name, host.folder = read_text(facts, "host") or "?", read_text(facts, "folder", 4096)
            self._send_command(host, "welcome", 0)
        elif not host.known:
            raise ProtocolError("it did not say its name")
        elif kind == b"S":
            host.facts = check_state(decode_facts(body))
            host.heard = read_number(host.facts, "heard")
        elif kind == b"R":
            self._store_rank_names(host, decode_facts(body))
        elif kind == b"P":
            of = read_text(decode_facts(body), "of")
            below = INCOMING if of == "end" else STANDSTILL
            host.taking = PackReceiver(self.run.path / below / f"host-{host.place}")
        elif host.taking is not None:
            host.taking.receive_part(kind, body)
            if host.taking.whole:
                self._store_pack(host, host.taking)
        else:
            raise ProtocolError("a frame that fits nowhere")

    def _store_rank_names(self, host: Host, facts: dict[str, Any]) -> None:
        """Store the names of records that a host reports. ProtocolError for an invalid list."""
        names = facts.get("ranks")
        if not isinstance(names, list) or not all(isinstance(name, str) and len(name) < 200 for name in names):
            raise ProtocolError("a list that holds no names")
        first = read_number(facts, "first", MOST_RANKS)
        host.ranks[first:] = names
        if len(host.ranks) > MOST_RANKS:
            raise ProtocolError("too many ranks")

    def _store_pack(self, host: Host, receiver: PackReceiver) -> None:
        """Store the complete pack of a host's records that `receiver` has received. The final pack is confirmed to the
        host; any other pack is the host's snapshot for a deadlock check."""
        host.taking = None
        if receiver.folder.parent.name == INCOMING:
            host.gathered = receiver
            self._send_command(host, "thanks", 0)
        else:
            host.snapshot = receiver

    # What goes out

    def _send_command(self, host: Host, do: str, asked: int, **more: object) -> None:
        if host.lost is None and host.channel.is_greeted:
            host.out += host.channel.make_frame(b"A", encode_facts({"do": do, "number": asked, **more}))
            self._flush(host)

    def send_command(self, do: str, **more: object) -> int:
        """Send the command `do` to all hosts. Return its number, which each host sends back once it has done the
        command."""
        self._number += 1
        for host in self.hosts:
            self._send_command(host, do, self._number, **more)
        return self._number

    def has_been_done(self, asked: int) -> bool:
        """Return whether all hosts that still answer have done the command with the number `asked`."""
        return all(host.heard >= asked or host.lost is not None for host in self.hosts)

    def wait_until_done(self, command_number: int, patience: float) -> None:
        """Wait until all hosts have done a command, at most `patience` seconds. `command_number`: as `send_command`
        returned it."""
        limit = time.monotonic() + patience
        while not self.has_been_done(command_number) and time.monotonic() < limit:
            self.handle_arrivals(0.05)

    # How far they are

    @property
    def hosts(self) -> list[Host]:
        """Those that have shown the secret."""
        return [host for host in self.all if host.known]

    @property
    def unreachable(self) -> list[Host]:
        """Those that no longer answer at all."""
        return [host for host in self.hosts if host.unreachable]

    def progress(self, *, reachable_only: bool = False) -> HostsProgress | None:
        """Return the progress of all hosts, None if one has not reported lately.

        `reachable_only`: leave out the hosts that no longer answer.
        """
        now = time.monotonic()
        hosts = [host for host in self.hosts if not (reachable_only and host.unreachable)]
        if not hosts or any(host.lost is not None or not host.facts or now - host.seen > FRESH for host in hosts):
            return None
        found: Counter[str] = Counter()
        sizes: dict[str, int] = {}
        for host in hosts:
            for job, (count, size) in host.facts["worlds"].items():
                found[job] += count
                sizes[job] = max(size, sizes.get(job, 0))
        whole = bool(sizes) and all(0 < sizes[job] <= found[job] for job in sizes)
        return HostsProgress(
            tuple((host.place, read_number(host.facts, "moves")) for host in hosts),
            whole and all(host.facts["named"] for host in hosts),
            all(host.facts["inside"] for host in hosts) and any(host.facts["open"] for host in hosts),
            all(host.facts["events"] for host in hosts),
        )

    # At the end

    def gather_records(self, *, kill: bool, after: bool = False, how: str | None = None) -> None:
        """Make each host finish its records and send them. Hosts that do not are listed in the run's facts.

        `kill`: the hosts end all ranks that still run. `after`: only after the report, when `close` is called. `how`:
        how the run ended, for tasks that do not see it.
        """
        self.handle_arrivals()
        while True:
            self.send_command("finish", kill=kill, after=after, how=how or "")
            self._wait_for_records()
            for _ in range(20):  # the last thanks are on their way, and who was about to connect
                self.handle_arrivals(0.01)
            if all(host.lost is not None or host.done for host in self.hosts):
                break
        shutil.rmtree(self.run.path / STANDSTILL, ignore_errors=True)
        self.note_lost_hosts(
            [{"host": one.name, "ranks": one.rank_numbers(), "why": one.lost or "", "folder": one.folder}
             for one in self.hosts if not one.done]
        )  # fmt: skip

    def _wait_for_records(self) -> None:
        """Wait until each host has sent its records or is lost."""
        while any(host.lost is None and not host.done for host in self.hosts):
            self.handle_arrivals(0.1)
            for host in self.hosts:
                if not host.done and time.monotonic() - host.seen > SILENT:
                    self._mark_lost(host, f"it sent nothing for {SILENT:.0f} s")
                elif not host.done and signal.sigpending() & ENDING:
                    self._mark_lost(host, "the gathering was interrupted")

    def note_lost_hosts(self, lost: list[dict[str, Any]]) -> None:
        """Write into the run's facts which hosts gave their records, and those in `lost`, which did not."""
        self.run.facts["hosts"] = [one.facts() for one in self._received_packs()]
        self.run.facts.pop("lost", None)
        if lost:
            self.run.facts["lost"] = lost

    def unpack_from_run(self, path: Path) -> None:
        """Take in the pack that a host without a connection put into the run. Raises WeftError if it is damaged."""
        self._adopted[path] = unpack_file(path, self.run.path / INCOMING / f"pack-{len(self._adopted)}")

    def complete_hosts(self) -> set[str]:
        """The hosts of which all is here."""
        return {one.host for one in self._received_packs()}

    def _received_packs(self) -> list[PackReceiver]:
        return [host.gathered for host in self.hosts if host.gathered is not None] + [*self._adopted.values()]

    def put_into_run(self) -> None:
        """Move the records that hosts have sent to their places in the run."""
        self.problems = move_records(self.run, self.folders())
        for path in self._adopted:
            path.unlink(missing_ok=True)
            with suppress(OSError):
                path.parent.rmdir()

    def remove_incoming(self) -> None:
        """Take away what lay in the run meanwhile."""
        shutil.rmtree(self.run.path / INCOMING, ignore_errors=True)

    def folders(self) -> list[Path]:
        """What the hosts gave, each as a folder."""
        return [one.folder for one in self._received_packs()]

    def close(self) -> None:
        """Close all connections and the port."""
        for host in self.all:
            self._mark_lost(host, "the run is over")
        self._selector.close()
        self._listener.close()


def check_state(facts: dict[str, Any]) -> dict[str, Any]:
    """Return a host's report about its ranks unchanged if it is well-formed. Raises ProtocolError if it is not."""
    worlds = facts.get("worlds")
    pairs = list(worlds.values()) if isinstance(worlds, dict) else [None]
    fits = all(isinstance(pair, list) and len(pair) == 2 and all(isinstance(n, int) for n in pair) for pair in pairs)
    if not fits or not all(isinstance(facts.get(name), bool) for name in FLAGS):
        raise ProtocolError("a state that lacks parts")
    for name, most in (("moves", 2**63), ("heard", 2**63), ("started", MOST_RANKS)):
        read_number(facts, name, most)  # here, as who asks for it later refuses nobody
    return facts


def network_prefix(address: str) -> str:
    """Return the part of an address that counts as one network: all of IPv4, the first 64 bits of IPv6."""
    plain = address.removeprefix("::ffff:").partition("%")[0]
    return plain if ":" not in plain else socket.inet_pton(socket.AF_INET6, plain)[:8].hex()


def open_listener(*, this_host_only: bool = False) -> socket.socket:
    """Open a port for connections on all networks of this host, and return its socket. `this_host_only`: for
    connections from this host only."""
    if this_host_only:
        return make_nonblocking(socket.create_server(("127.0.0.1", 0), backlog=1024))
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return make_nonblocking(
                socket.create_server(("", 0), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
            )
    return make_nonblocking(socket.create_server(("", 0), backlog=1024))


def make_nonblocking(connection: socket.socket) -> socket.socket:
    """Make a socket nonblocking, and keep it from being inherited by programs; return it."""
    connection.setblocking(False)
    os.set_inheritable(connection.fileno(), False)
    return connection


def detect_dead_peer(connection: socket.socket) -> None:
    """Set the options of a connection by which the system notices within seconds that the peer has lost its power."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 4), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", GONE)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
