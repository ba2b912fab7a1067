"""The hosts of a run, as `weft run` knows them: what their watchers tell, and their records at the end."""

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
from weft.launch.local.host_protocol import Channel, Refused, Side, number, packed, text, unpacked
from weft.launch.local.merge_records import records
from weft.launch.local.pack import Taking, read
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
    """One host of the run, or who says to be one."""

    def __init__(self, connection: socket.socket, secret: bytes, place: int, network: str = "") -> None:
        self.socket = connection
        self.network = network
        """Where it connected from, as far as one stranger may have it: an address, of IPv6 its first half."""
        self.channel = Channel(secret, Side.RUN)
        self.place = place
        self.name = ""
        self.folder = ""
        self.facts: dict[str, Any] = {}
        self.ranks: list[str] = []
        self.heard = 0
        self.seen = time.monotonic()
        self.out = bytearray(self.channel.greeting)
        self.taking: Taking | None = None
        self.snapshot: Taking | None = None
        self.gathered: Taking | None = None
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
        """Whether no rank runs there any more, as far as its watcher tells; or nobody answers."""
        return self.unreachable or (self.lost is None and bool(self.facts) and not self.facts["busy"])

    @property
    def started(self) -> int:
        """How many ranks were started there."""
        return number(self.facts, "started", MOST_RANKS)

    @property
    def failed(self) -> bool:
        """Whether a rank there has failed, of a task that does not see the run."""
        return self.facts.get("failed") is True

    def numbers(self) -> list[int]:
        """The ranks that it told of."""
        return sorted({int(match[2]) for name in self.ranks if (match := RANK.fullmatch(name))})


@dataclass(frozen=True)
class Progress:
    """How far all hosts together are; `moves` is the same again only where no rank has moved."""

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
        self._adopted: dict[Path, Taking] = {}
        self._number = 0
        self._selector = selectors.DefaultSelector()
        try:
            self._listener = listener(here=here)
        except OSError as error:
            raise WeftError(f"no port for the hosts of the run can be opened: {error.strerror}") from error
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self.port = int(self._listener.getsockname()[1])

    # What comes in

    def poll(self, pause: float = 0.0) -> None:
        """Take what has come in, and wait for it for so long."""
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
                self._lose(host, "it did not show the secret")
            self._flush(host)
        self.all = [host for host in self.all if host.known or host.lost is None]

    def _accept(self) -> None:
        with suppress(OSError):
            connection, address = self._listener.accept()
            self._make_room()
            connection.setblocking(False)
            impatient(connection)
            host = Host(connection, self._secret, self._number, network(address[0]))
            self._number += 1
            self.all.append(host)
            self._selector.register(connection, selectors.EVENT_READ, host)
            self._flush(host)

    def _make_room(self) -> None:
        """Only who has shown the secret holds a place: of the others the oldest goes, of where most came from.

        A host of the run shows it at once; who holds many connections open keeps out nobody but himself.
        """
        waiting = [host for host in self.all if not host.known and host.lost is None]
        if len(waiting) >= STRANGERS:
            [(most, _)] = Counter(host.network for host in waiting).most_common(1)
            self._lose(next(host for host in waiting if host.network == most), "it did not show the secret")

    def _receive(self, host: Host) -> None:
        try:
            data = host.socket.recv(READ)
            if not data:
                raise Refused("its connection was closed")
            for kind, body in host.channel.feed(data):
                host.seen = time.monotonic()
                self._take(host, kind, body)
        except BlockingIOError:
            return
        except Refused as error:
            self._lose(host, str(error))
        except OSError as error:
            self._fail(host, error)

    def _fail(self, host: Host, error: OSError) -> None:
        host.unreachable |= error.errno in UNREACHABLE
        self._lose(host, (error.strerror or str(error)).lower())

    def _lose(self, host: Host, why: str) -> None:
        if host.lost is None:
            host.lost = why
            self.strangers[host.network] += not host.known
            if host.taking is not None:
                host.taking.stop()
            self._selector.unregister(host.socket)
            host.socket.close()

    def _flush(self, host: Host) -> None:
        if host.lost is None and host.out:
            try:
                del host.out[: host.socket.send(host.out)]
            except BlockingIOError:
                return
            except OSError as error:
                self._fail(host, error)

    def _take(self, host: Host, kind: bytes, body: bytes) -> None:
        if kind == b"H" and not host.known:
            facts = unpacked(body)
            host.name, host.folder = text(facts, "host") or "?", text(facts, "folder", 4096)
            self._tell(host, "welcome", 0)
        elif not host.known:
            raise Refused("it did not say its name")
        elif kind == b"S":
            host.facts = state(unpacked(body))
            host.heard = number(host.facts, "heard")
        elif kind == b"R":
            self._take_names(host, unpacked(body))
        elif kind == b"P":
            of = text(unpacked(body), "of")
            below = INCOMING if of == "end" else STANDSTILL
            host.taking = Taking(self.run.path / below / f"host-{host.place}")
        elif host.taking is not None:
            host.taking.take(kind, body)
            if host.taking.whole:
                self._keep(host, host.taking)
        else:
            raise Refused("a frame that fits nowhere")

    def _take_names(self, host: Host, facts: dict[str, Any]) -> None:
        names = facts.get("ranks")
        if not isinstance(names, list) or not all(isinstance(name, str) and len(name) < 200 for name in names):
            raise Refused("a list that holds no names")
        first = number(facts, "first", MOST_RANKS)
        host.ranks[first:] = names
        if len(host.ranks) > MOST_RANKS:
            raise Refused("too many ranks")

    def _keep(self, host: Host, taking: Taking) -> None:
        host.taking = None
        if taking.folder.parent.name == INCOMING:
            host.gathered = taking
            self._tell(host, "thanks", 0)
        else:
            host.snapshot = taking

    # What goes out

    def _tell(self, host: Host, do: str, asked: int, **more: object) -> None:
        if host.lost is None and host.channel.greeted:
            host.out += host.channel.frame(b"A", packed({"do": do, "number": asked, **more}))
            self._flush(host)

    def ask(self, do: str, **more: object) -> int:
        """Ask all hosts; returns the number by which they say that they have heard it."""
        self._number += 1
        for host in self.hosts:
            self._tell(host, do, self._number, **more)
        return self._number

    def heard(self, asked: int) -> bool:
        """Whether all hosts that are still there have done what they were asked for."""
        return all(host.heard >= asked or host.lost is not None for host in self.hosts)

    def wait(self, asked: int, patience: float) -> None:
        """Wait until all have, or for so long."""
        limit = time.monotonic() + patience
        while not self.heard(asked) and time.monotonic() < limit:
            self.poll(0.05)

    # How far they are

    @property
    def hosts(self) -> list[Host]:
        """Those that have shown the secret."""
        return [host for host in self.all if host.known]

    @property
    def unreachable(self) -> list[Host]:
        """Those that no longer answer at all."""
        return [host for host in self.hosts if host.unreachable]

    def progress(self, *, of_the_rest: bool = False) -> Progress | None:
        """How far all are, or all that still answer; None where it is not known of every one right now."""
        now = time.monotonic()
        hosts = [host for host in self.hosts if not (of_the_rest and host.unreachable)]
        if not hosts or any(host.lost is not None or not host.facts or now - host.seen > FRESH for host in hosts):
            return None
        found: Counter[str] = Counter()
        sizes: dict[str, int] = {}
        for host in hosts:
            for job, (count, size) in host.facts["worlds"].items():
                found[job] += count
                sizes[job] = max(size, sizes.get(job, 0))
        whole = bool(sizes) and all(0 < sizes[job] <= found[job] for job in sizes)
        return Progress(
            tuple((host.place, number(host.facts, "moves")) for host in hosts),
            whole and all(host.facts["named"] for host in hosts),
            all(host.facts["inside"] for host in hosts) and any(host.facts["open"] for host in hosts),
            all(host.facts["events"] for host in hosts),
        )

    # At the end

    def gather(self, *, kill: bool, after: bool = False, how: str | None = None) -> None:
        """Have each host put its records in order and give them; what does not come is named in the run's facts.

        `kill`: no rank may stay; `after`: not before all is reported and `close` is called; `how`: what that end is
        called.
        """
        self.poll()
        while True:
            self.ask("finish", kill=kill, after=after, how=how or "")
            self._await_all()
            for _ in range(20):  # the last thanks are on their way, and who was about to connect
                self.poll(0.01)
            if all(host.lost is not None or host.done for host in self.hosts):
                break
        shutil.rmtree(self.run.path / STANDSTILL, ignore_errors=True)
        self.account(
            [{"host": one.name, "ranks": one.numbers(), "why": one.lost or "", "folder": one.folder}
             for one in self.hosts if not one.done]
        )  # fmt: skip

    def _await_all(self) -> None:
        """Wait until each host has given its records, or is lost."""
        while any(host.lost is None and not host.done for host in self.hosts):
            self.poll(0.1)
            for host in self.hosts:
                if not host.done and time.monotonic() - host.seen > SILENT:
                    self._lose(host, f"it gave nothing for {SILENT:.0f} s")
                elif not host.done and signal.sigpending() & ENDING:
                    self._lose(host, "the gathering was interrupted")

    def account(self, lost: list[dict[str, Any]]) -> None:
        """Put into the run's facts who has given its records, and who has not."""
        self.run.facts["hosts"] = [one.facts() for one in self._given()]
        self.run.facts.pop("lost", None)
        if lost:
            self.run.facts["lost"] = lost

    def adopt(self, path: Path) -> None:
        """Take in what a host without a connection has packed into the run. WeftError where it is damaged."""
        self._adopted[path] = read(path, self.run.path / INCOMING / f"pack-{len(self._adopted)}")

    def whole(self) -> set[str]:
        """The hosts of which all is here."""
        return {one.host for one in self._given()}

    def _given(self) -> list[Taking]:
        return [host.gathered for host in self.hosts if host.gathered is not None] + [*self._adopted.values()]

    def put_into_run(self) -> None:
        """Put what was gathered where records belong."""
        self.problems = records(self.run, self.folders())
        for path in self._adopted:
            path.unlink(missing_ok=True)
            with suppress(OSError):
                path.parent.rmdir()

    def clear(self) -> None:
        """Take away what lay in the run meanwhile."""
        shutil.rmtree(self.run.path / INCOMING, ignore_errors=True)

    def folders(self) -> list[Path]:
        """What the hosts gave, each as a folder."""
        return [one.folder for one in self._given()]

    def close(self) -> None:
        """Nobody is listened to any more."""
        for host in self.all:
            self._lose(host, "the run is over")
        self._selector.close()
        self._listener.close()


def state(facts: dict[str, Any]) -> dict[str, Any]:
    """What a host says of its ranks. Raises Refused."""
    worlds = facts.get("worlds")
    pairs = list(worlds.values()) if isinstance(worlds, dict) else [None]
    fits = all(isinstance(pair, list) and len(pair) == 2 and all(isinstance(n, int) for n in pair) for pair in pairs)
    if not fits or not all(isinstance(facts.get(name), bool) for name in FLAGS):
        raise Refused("a state that lacks parts")
    for name, most in (("moves", 2**63), ("heard", 2**63), ("started", MOST_RANKS)):
        number(facts, name, most)  # here, as who asks for it later refuses nobody
    return facts


def network(address: str) -> str:
    """What of an address one stranger may have: all of it, of IPv6 the first 64 bits."""
    plain = address.removeprefix("::ffff:").partition("%")[0]
    return plain if ":" not in plain else socket.inet_pton(socket.AF_INET6, plain)[:8].hex()


def listener(*, here: bool = False) -> socket.socket:
    """A port of its own, on all networks of this host, or on none but its own."""
    if here:
        return ready(socket.create_server(("127.0.0.1", 0), backlog=1024))
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return ready(socket.create_server(("", 0), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True))
    return ready(socket.create_server(("", 0), backlog=1024))


def ready(made: socket.socket) -> socket.socket:
    """No connection is waited for, and no program that is started gets it."""
    made.setblocking(False)
    os.set_inheritable(made.fileno(), False)
    return made


def impatient(connection: socket.socket) -> None:
    """A host that lost its power says no good-bye: the connection finds it out itself."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 4), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", GONE)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
