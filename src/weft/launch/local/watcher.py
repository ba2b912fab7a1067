"""Watch one host of a run: report the progress of its ranks to `weft run`, and send it their records at the end.

The watcher ends with the job: when `weft run` has everything, or when `weft run` is gone and no rank is left here. What
nobody took stays complete in the folder, for `weft gather`.
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
from weft.launch.local.host_protocol import (
    ProtocolError,
    SealedChannel,
    Side,
    decode_facts,
    encode_facts,
    read_number,
    read_text,
)
from weft.launch.local.rank_setup import (
    ENDED,
    FAILED,
    GIVEN,
    RankSetup,
    count_started_ranks,
    decode_setup,
    has_living_ranks,
    is_locked,
)
from weft.launch.process import GRACE
from weft.launch.rankfile import RankFileWatch
from weft.launch.watch import RANK_FILE, RankWatch, is_inside_mpi

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


class HostWatch(RankWatch):
    """Watches the records of this host, and counts the looks in which a rank had moved."""

    moves = 0

    def _is_silent(self) -> bool:
        """Return whether the ranks of this host have made no call since the last look. The looks after which the ranks
        had made calls are counted in `moves`.
        """
        self._update_files()  # who is here has to be known at once: a host may be lost while a rank moves on and on
        silent = super()._is_silent()
        self.moves += not silent
        return silent

    def describe_progress(self) -> dict[str, Any]:
        """Return what this host's watcher reports to `weft run`: how often its ranks have moved, whether they are
        inside MPI, how many there are of each world, and whether one has failed."""
        files = list(self.files.items())
        named = [(match["job"], file) for name, file in files if (match := RANK_FILE.match(name))]
        found = Counter(job for job, _ in named)
        sizes = {job: max(read_world_size(file) for one, file in named if one == job) for job in found}
        return {
            "moves": self.moves,
            "inside": all(is_inside_mpi(file) for _, file in files),
            "open": any(file.threads_inside_mpi() for _, file in files),
            "events": all(file.has_recorded_events for _, file in files),
            "named": all(RANK_FILE.match(n) and not n.startswith("tmp-") and f.header is not None for n, f in files),
            "worlds": {job: [found[job], sizes[job]] for job in found},
            "busy": has_living_ranks(self.ranks.parent),
            "started": count_started_ranks(self.ranks.parent),
            "failed": (self.ranks.parent / FAILED).exists(),
        }


def read_world_size(file: RankFileWatch) -> int:
    """How many ranks the world of a record has, as far as it says."""
    return file.header.world_size if file.header is not None else 0


def is_run_watched(run: Path) -> bool:
    """Return whether a task of the run's job step watches the run and will report."""
    return is_locked(run / "step" / "watching")


class HostWatcher:
    """The connection of one host with `weft run`, and what it does on request."""

    def __init__(self, setup: RankSetup, secret: bytes, functions: Path) -> None:
        self.setup, self.folder, self.functions = setup, setup.folder, functions
        self.host = os.uname().nodename
        self.watch = HostWatch(self.folder / "ranks")
        self.channel = SealedChannel(secret, Side.HOST)
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
        """Connect to `weft run` at one of its addresses. Without a connection the records stay here."""
        for address in self.setup.addresses:
            self.channel = SealedChannel(secret, Side.HOST)
            with suppress(OSError, ProtocolError):
                self.socket = socket.create_connection((address, self.setup.port), CONNECT)
                self.socket.settimeout(CONNECT)
                self.socket.sendall(self.channel.greeting)
                while not self.channel.is_greeted:
                    self._receive()
                self._send(b"H", encode_facts({"host": self.host, "folder": str(self.folder)}))
                while not self.channel.is_trusted:
                    self._receive()
                self.socket.settimeout(SLOWEST)
                return
            self._lose()

    def _receive(self) -> None:
        """Receive data from the run's host, and handle the requests in it. OSError if the connection is closed."""
        assert self.socket is not None
        data = self.socket.recv(1 << 16)
        if not data:
            raise OSError(0, "the connection was closed")
        for kind, body in self.channel.receive_frames(data):
            self._handle_request(kind, body)

    def _send(self, kind: bytes, body: bytes = b"") -> None:
        """Send a frame to the run's host, if it is connected."""
        if self.socket is not None:
            try:
                self.socket.sendall(self.channel.make_frame(kind, body))
            except OSError:
                self._lose()

    def _lose(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def serve_requests(self, pause: float) -> None:
        """Wait up to `pause` seconds for requests of `weft run`, and do them."""
        if self.socket is None:
            time.sleep(pause)
            return
        try:
            if select.select([self.socket], [], [], pause)[0]:
                self._receive()
        except (OSError, ProtocolError):
            self._lose()

    def _handle_request(self, kind: bytes, body: bytes) -> None:
        """Do what the run's host asks: send a snapshot or all records, or end the ranks."""
        if kind != b"A":
            return
        asked = decode_facts(body)
        do = read_text(asked, "do")
        files = sorted((self.folder / "ranks").glob("*.weft"))
        if do == "snapshot":
            self.send_records("snapshot")
        elif do == "where":
            location_requests.request_locations(files)
        elif do == "end":
            if asked.get("stop"):
                rank_processes.signal_ranks(files, signal.SIGSTOP)
        elif do == "kill":
            rank_processes.signal_ranks(files, signal.SIGKILL)
        elif do == "finish":
            self.kill, self.after, self.how = bool(asked.get("kill")), bool(asked.get("after")), read_text(asked, "how")
        elif do == "thanks":
            self.thanked = True
        if do in ("look", "snapshot", "where", "end", "kill"):
            self._heard = read_number(asked, "number")
            self.watch.look_at_ranks()
            self.send_progress()

    def send_records(self, occasion: str) -> None:
        """Send the records as they are now; `occasion`: `snapshot` or `end`."""
        self._send(b"P", encode_facts({"of": occasion}))
        pack.send_pack(self.folder, self.host, self._send_part)

    def _send_part(self, kind: bytes, body: bytes) -> None:
        if self.socket is None:
            raise OSError(0, "the connection was lost")
        self._send(kind, body)

    # The run

    def send_progress(self) -> None:
        """Send how far the ranks are, if that has changed, and as a heartbeat."""
        when, before, known = self._told
        names = sorted(self.watch.files)
        facts = encode_facts(self.watch.describe_progress() | {"heard": self._heard})
        if names != known:
            for k in range(0, len(names), 4096):
                self._send(b"R", encode_facts({"first": k, "ranks": names[k : k + 4096]}))
        if facts != before or names != known or time.monotonic() - when > HEARTBEAT:
            self._send(b"S", facts)
            self._told = time.monotonic(), facts, names

    def watch_until_end(self) -> None:
        """Watch the ranks until the run is over."""
        alone = 0.0
        while self.kill is None and alone < LAST:
            pause = self.watch.look_at_ranks()
            self.send_progress()
            until = time.monotonic() + pause
            while (left := until - time.monotonic()) > 0 and self.kill is None:
                self.serve_requests(min(left, HEARTBEAT))
                self.send_progress()
            alone = 0.0 if self.socket is not None or has_living_ranks(self.folder) else alone + pause

    def watch_remaining_ranks(self) -> None:
        """Watch ranks that outlive the report, and put what they record afterwards into the run."""
        with suppress(OSError):
            (self.folder / GIVEN).touch()
        self._lose()
        self.kill, self.thanked = None, False
        self.watch_until_end()
        self.hand_over_records()

    def hand_over_records(self) -> None:
        """Finish the records and hand them over to `weft run`, or put them into the run's folder; then remove them
        here.
        """
        limit = time.monotonic() + LAST
        while not self.kill and has_living_ranks(self.folder) and time.monotonic() < limit:
            time.sleep(0.02)
        files = sorted((self.folder / "ranks").glob("*.weft"))
        if self.kill and not self.after:
            self._end_ranks(files)
        self.finish_records(files)
        with suppress(OSError):
            self.send_records("end")
            limit = time.monotonic() + THANKS
            while self.socket is not None and not self.thanked and time.monotonic() < limit:
                self.serve_requests(HEARTBEAT)
        if self.setup.run is not None:
            self._wait_for_report()
        if self.kill and self.after:
            with suppress(OSError):
                write_whole(self.folder / ENDED, self.how.encode())
            limit = time.monotonic() + 2 * GRACE
            while has_living_ranks(self.folder) and time.monotonic() < limit:
                time.sleep(0.05)  # the task that started each ends it
            self._end_ranks(files)
        if (self.kill or not self.has_remaining_ranks) and (self.thanked or self._pack_into_run()):
            shutil.rmtree(self.folder, ignore_errors=True)
            if self.setup.run is not None:  # its tasks may have been killed
                from weft.launch.local.listener_address import remove_guest_run  # as in put_in_order

                remove_guest_run(Path(self.setup.run))

    def _wait_for_report(self) -> None:
        """Wait until the run is reported before any task ends: a launcher may end all tasks, also the reporting one."""
        limit = time.monotonic() + REPORTED
        while self.socket is not None and time.monotonic() < limit:
            self.serve_requests(HEARTBEAT)

    @property
    def has_remaining_ranks(self) -> bool:
        """Whether ranks outlive the report: those of a job step that goes on though one of its tasks has failed."""
        return self.setup.run is not None and has_living_ranks(self.folder)

    def _end_ranks(self, files: list[Path]) -> None:
        """End the ranks of this host, and remove the shared memory that they leave."""
        began = [header.started_ns for path in files if (header := rank_processes.read_rank_header(path)) is not None]
        rank_processes.end_ranks(files, GRACE)
        if began:
            shared_memory.remove_leftovers(min(began) / 1e9)

    def _pack_into_run(self) -> bool:
        """Put the records into the run's folder if this host sees it; return whether they are in the run."""
        # As in put_in_order.
        from weft.launch.local import gather_after_run

        if self.setup.run is None or not pack.list_pack_files(self.folder):
            return False
        run = Path(self.setup.run)
        if Path(str(rundir.read_facts(run).get("local"))).name != self.setup.name:
            return False
        try:
            packed = gather_after_run.pack_into_run(self.folder, self.host, run)
            unwatched = 0.0
            while packed.exists() and unwatched < LAST:  # who watches waits for it, or will: tasks take turns in it
                time.sleep(HEARTBEAT)
                unwatched = 0.0 if is_run_watched(run) else unwatched + HEARTBEAT
            if packed.exists():
                gather_after_run.gather_packs(run)
                shutil.rmtree(run / "step", ignore_errors=True)
        except (WeftError, OSError):
            return False
        return True

    def finish_records(self, files: list[Path]) -> None:
        """Make the host's folder a run that can be read by itself: trim its records and resolve its call sites."""
        # The run is over: what this takes to come keeps nobody waiting.
        from weft.launch import finish

        finish.trim_records(files)
        facts = {**self.setup.facts, "host": self.host, "finished": rundir.current_time()}
        with suppress(OSError, WeftError):
            shutil.copyfile(self.functions, self.folder / "functions.json")
            rundir.RunDirectory(self.folder, facts).write()
        if any(name.suffix == ".weft" for name in files):
            finish.resolve_sites(self.folder, with_source_texts=bool(self.setup.facts.get("sources", True)))


def main() -> int:
    """Watch the ranks of this host until the run is over, as the JSON on standard input says, then hand over their
    records. Standard output is closed once `weft run` knows this host."""
    told = json.load(sys.stdin)
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)  # they are the job's; what ends it comes from `weft run`
    with suppress(OSError):
        fcntl.lockf(2, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its log: as long as it is locked somebody is here
    secret = bytes.fromhex(told["secret"])
    watcher = HostWatcher(decode_setup(told["setup"]), secret, Path(told["functions"]))
    watcher.connect(secret)
    os.close(1)
    watcher.watch_until_end()
    watcher.hand_over_records()
    while watcher.kill is False and watcher.has_remaining_ranks:
        watcher.watch_remaining_ranks()
    return 0


if __name__ == "__main__":
    sys.exit(main())
