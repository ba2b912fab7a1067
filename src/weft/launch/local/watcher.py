"""The watcher of one host: tells `weft run` how far the ranks here are, and gives it their records at the end.

It ends with the job: when `weft run` has all, or when it is gone and no rank is left here. What nobody took stays in
the folder, whole, for `weft gather`.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from weft.base.json_files import write_whole
from weft.errors import WeftError
from weft.launch import location_requests, rank_processes, rundir, shared_memory
from weft.launch.local import pack
from weft.launch.local.host_protocol import Channel, Refused, Side, number, packed, text, unpacked
from weft.launch.local.rank_setup import ENDED, FAILED, GIVEN, Setup, held, of_word, tasks_alive, tasks_started
from weft.launch.process import GRACE
from weft.launch.rankfile import Watched
from weft.launch.watch import RANK_FILE, Watch, inside

CONNECT: Final = 2.0
"""Seconds for one address to answer."""
HEARTBEAT: Final = 0.5
SLOWEST: Final = 30.0
"""Seconds without a byte taken, after which `weft run` counts as gone."""
LAST: Final = 2.0
"""Seconds for the ranks to end once their launcher has."""
THANKS: Final = 120.0
"""Seconds until `weft run` says that it has all."""
REPORTED: Final = 600.0
"""Seconds until what all hosts gave is reported."""


class HostWatch(Watch):
    """Looks at the records of this host, and counts the looks in which something had moved."""

    moves = 0

    def _nothing_moved(self) -> bool:
        self._find()  # who is here has to be known at once: a host may be lost while a rank moves on and on
        silent = super()._nothing_moved()
        self.moves += not silent
        return silent

    def facts(self) -> dict[str, Any]:
        """How far the ranks are."""
        files = list(self.files.items())
        named = [(match["job"], file) for name, file in files if (match := RANK_FILE.match(name))]
        found = Counter(job for job, _ in named)
        sizes = {job: max(size_of(file) for one, file in named if one == job) for job in found}
        return {
            "moves": self.moves,
            "inside": all(inside(file) for _, file in files),
            "open": any(file.open_threads() for _, file in files),
            "events": all(file.recorded_events for _, file in files),
            "named": all(RANK_FILE.match(n) and not n.startswith("tmp-") and f.header is not None for n, f in files),
            "worlds": {job: [found[job], sizes[job]] for job in found},
            "busy": tasks_alive(self.ranks.parent),
            "started": tasks_started(self.ranks.parent),
            "failed": (self.ranks.parent / FAILED).exists(),
        }


def size_of(file: Watched) -> int:
    """How many ranks the world of a record has, as far as it says."""
    return file.header.world_size if file.header is not None else 0


def watched(run: Path) -> bool:
    """Whether a task of the run's job step is there that will report."""
    return held(run / "step" / "watching")


class Watcher:
    """One host's part in a run."""

    def __init__(self, setup: Setup, secret: bytes, functions: Path) -> None:
        self.setup, self.folder, self.functions = setup, setup.folder, functions
        self.host = os.uname().nodename
        self.watch = HostWatch(self.folder / "ranks")
        self.channel = Channel(secret, Side.HOST)
        self.socket: socket.socket | None = None
        self.kill: bool | None = None
        """Once the run is over: whether Weft ended it, so that no rank may stay."""
        self.after = False
        """Whether those are ended when all was reported, not before."""
        self.how = ""
        """What that end is called, for tasks that do not see the run."""
        self.thanked = False
        self._heard = 0
        self._told: tuple[float, bytes, list[str]] = (0.0, b"", [])

    # The connection

    def connect(self, secret: bytes) -> None:
        """Find `weft run` at one of its addresses. Without, the records stay here."""
        for address in self.setup.addresses:
            self.channel = Channel(secret, Side.HOST)
            with suppress(OSError, Refused):
                self.socket = socket.create_connection((address, self.setup.port), CONNECT)
                self.socket.settimeout(CONNECT)
                self.socket.sendall(self.channel.greeting)
                while not self.channel.greeted:
                    self._receive()
                self._send(b"H", packed({"host": self.host, "folder": str(self.folder)}))
                while not self.channel.trusted:
                    self._receive()
                self.socket.settimeout(SLOWEST)
                return
            self._lose()

    def _receive(self) -> None:
        assert self.socket is not None
        data = self.socket.recv(1 << 16)
        if not data:
            raise OSError(0, "the connection was closed")
        for kind, body in self.channel.feed(data):
            self._obey(kind, body)

    def _send(self, kind: bytes, body: bytes = b"") -> None:
        if self.socket is not None:
            try:
                self.socket.sendall(self.channel.frame(kind, body))
            except OSError:
                self._lose()

    def _lose(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def hear(self, pause: float) -> None:
        """Do what `weft run` asks for, or wait."""
        if self.socket is None:
            time.sleep(pause)
            return
        try:
            if select.select([self.socket], [], [], pause)[0]:
                self._receive()
        except (OSError, Refused):
            self._lose()

    def _obey(self, kind: bytes, body: bytes) -> None:
        if kind != b"A":
            return
        asked = unpacked(body)
        do = text(asked, "do")
        files = sorted((self.folder / "ranks").glob("*.weft"))
        if do == "snapshot":
            self.give("snapshot")
        elif do == "where":
            location_requests.where(files)
        elif do == "end":
            if asked.get("stop"):
                rank_processes.send(files, signal.SIGSTOP)
        elif do == "kill":
            rank_processes.send(files, signal.SIGKILL)
        elif do == "finish":
            self.kill, self.after, self.how = bool(asked.get("kill")), bool(asked.get("after")), text(asked, "how")
        elif do == "thanks":
            self.thanked = True
        if do in ("look", "snapshot", "where", "end", "kill"):
            self._heard = number(asked, "number")
            self.watch.look()
            self.tell()

    def give(self, of: str) -> None:
        """Send the records as they are."""
        self._send(b"P", packed({"of": of}))
        pack.give(self.folder, self.host, self._part)

    def _part(self, kind: bytes, body: bytes) -> None:
        if self.socket is None:
            raise OSError(0, "the connection was lost")
        self._send(kind, body)

    # The run

    def tell(self) -> None:
        """Send how far the ranks are, where that has changed, and now and then."""
        when, before, known = self._told
        names = sorted(self.watch.files)
        facts = packed(self.watch.facts() | {"heard": self._heard})
        if names != known:
            for k in range(0, len(names), 4096):
                self._send(b"R", packed({"first": k, "ranks": names[k : k + 4096]}))
        if facts != before or names != known or time.monotonic() - when > HEARTBEAT:
            self._send(b"S", facts)
            self._told = time.monotonic(), facts, names

    def attend(self) -> None:
        """Stay until the run is over."""
        alone = 0.0
        while self.kill is None and alone < LAST:
            pause = self.watch.look()
            self.tell()
            until = time.monotonic() + pause
            while (left := until - time.monotonic()) > 0 and self.kill is None:
                self.hear(min(left, HEARTBEAT))
                self.tell()
            alone = 0.0 if self.socket is not None or tasks_alive(self.folder) else alone + pause

    def go_on(self) -> None:
        """Stay with ranks that outlive the report, and put what they record then into the run."""
        with suppress(OSError):
            (self.folder / GIVEN).touch()
        self._lose()
        self.kill, self.thanked = None, False
        self.attend()
        self.conclude()

    def conclude(self) -> None:
        """Put the records in order, look up their places, and give all away."""
        limit = time.monotonic() + LAST
        while not self.kill and tasks_alive(self.folder) and time.monotonic() < limit:
            time.sleep(0.02)
        files = sorted((self.folder / "ranks").glob("*.weft"))
        if self.kill and not self.after:
            self._end_ranks(files)
        self.put_in_order(files)
        with suppress(OSError):
            self.give("end")
            limit = time.monotonic() + THANKS
            while self.socket is not None and not self.thanked and time.monotonic() < limit:
                self.hear(HEARTBEAT)
        if self.setup.run is not None:
            self._until_reported()
        if self.kill and self.after:
            with suppress(OSError):
                write_whole(self.folder / ENDED, self.how.encode())
            limit = time.monotonic() + 2 * GRACE
            while tasks_alive(self.folder) and time.monotonic() < limit:
                time.sleep(0.05)  # the task that started each ends it
            self._end_ranks(files)
        if (self.kill or not self.goes_on) and (self.thanked or self._hand_over()):
            shutil.rmtree(self.folder, ignore_errors=True)
            if self.setup.run is not None:  # its tasks may have been killed
                from weft.launch.local.listener_address import leave  # as in put_in_order

                leave(Path(self.setup.run))

    def _until_reported(self) -> None:
        """Let no task end before all is reported: for one that fails launchers may end all, that which reports too."""
        limit = time.monotonic() + REPORTED
        while self.socket is not None and time.monotonic() < limit:
            self.hear(HEARTBEAT)

    @property
    def goes_on(self) -> bool:
        """Whether ranks outlive the report: of a job step that goes on though one of its tasks has failed."""
        return self.setup.run is not None and tasks_alive(self.folder)

    def _end_ranks(self, files: list[Path]) -> None:
        began = [header.started_ns for path in files if (header := rank_processes.read(path)) is not None]
        rank_processes.end(files, GRACE)
        if began:
            shared_memory.remove(min(began) / 1e9)

    def _hand_over(self) -> bool:
        """Put the records into the run's folder, where this host sees it; whether they are in the run then."""
        # As in put_in_order.
        from weft.launch.local import gather_after_run

        if self.setup.run is None or not pack.files_of(self.folder):
            return False
        run = Path(self.setup.run)
        if Path(str(rundir.facts_of(run).get("local"))).name != self.setup.name:
            return False
        try:
            packed = gather_after_run.into_run(self.folder, self.host, run)
            unwatched = 0.0
            while packed.exists() and unwatched < LAST:  # who watches waits for it, or will: tasks take turns in it
                time.sleep(HEARTBEAT)
                unwatched = 0.0 if watched(run) else unwatched + HEARTBEAT
            if packed.exists():
                gather_after_run.packs(run)
                shutil.rmtree(run / "step", ignore_errors=True)
        except (WeftError, OSError):
            return False
        return True

    def put_in_order(self, files: list[Path]) -> None:
        """Make this a run that can be read by itself: its records cut to what they hold, its places looked up."""
        # The run is over: what this takes to come keeps nobody waiting.
        from weft.launch import finish

        finish.tidy(files)
        facts = {**self.setup.facts, "host": self.host, "finished": rundir.now()}
        with suppress(OSError, WeftError):
            shutil.copyfile(self.functions, self.folder / "functions.json")
            rundir.RunDirectory(self.folder, facts).write()
        if any(name.suffix == ".weft" for name in files):
            finish.resolve_sites(self.folder, texts=bool(self.setup.facts.get("sources", True)))


def main() -> int:
    """Watch this host, as told on the standard input; the standard output is closed once `weft run` knows of it."""
    told = json.load(sys.stdin)
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)  # they are the job's; what ends it comes from `weft run`
    with suppress(OSError):
        fcntl.lockf(2, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its log: as long as it is locked somebody is here
    secret = bytes.fromhex(told["secret"])
    watcher = Watcher(of_word(told["setup"]), secret, Path(told["functions"]))
    watcher.connect(secret)
    os.close(1)
    watcher.attend()
    watcher.conclude()
    while watcher.kill is False and watcher.goes_on:
        watcher.go_on()
    return 0


if __name__ == "__main__":
    sys.exit(main())
