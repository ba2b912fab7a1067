"""How the tasks of a Slurm step find who listens where their hosts see no common directory.

The task of rank 0 answers at a port that follows from the step. Who has made the run on another host tells it the name
of a file in that run: where it is seen, both see one directory. Else the answer is the place where the step's hosts
meet, sealed by munge for this user alone, who must also be the one that sealed it: as Slurm does with its own messages.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from weft.launch.job_step import Step
from weft.launch.local.addresses import GIVEN
from weft.launch.local.listener_address import Place

FIRST_PORT: Final = 20_000
PORTS: Final = 10_000
"""Below those that systems give to whoever asks for any."""
TRIED: Final = 4
"""Ports of a step: another program may have the first."""
CONNECT: Final = 1.0
GREETING: Final = 3.0
"""Seconds in which another program at that port shows that it is another."""
PATIENCE: Final = 10.0
"""Seconds for the task of rank 0 to come up."""
ANSWER: Final = 70.0
"""Seconds for it to know the run: another task may be making it."""
SEEN: Final = 3.0
"""Seconds for a file of another host to be seen in a common directory."""
AT_ONCE: Final = 256
"""Hosts that are answered at a time; others ask again."""
MOST: Final = 1 << 16
COMMANDS: Final = 10
MAGIC: Final = b"weft-step/1\n"
SAME: Final = b"same"
TOKEN: Final = re.compile(rb"seen-[0-9a-f]{16}\n")


def possible(step: Step, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the step may be on several hosts and its tasks can find each other."""
    nodes = environment.get("SLURM_STEP_NUM_NODES", "1")
    return step.system == "slurm" and nodes != "1" and all(map(shutil.which, ("munge", "unmunge")))


def ports(step: Step) -> list[int]:
    """The ports of a step, in order."""
    begin = zlib.crc32(f"{step.name} {os.geteuid()}".encode())
    return [FIRST_PORT + (begin + k) % PORTS for k in range(TRIED)]


class Answering:
    """Who answers, in the task of rank 0: from before it has a run until its end."""

    def __init__(self, step: Step, folder: Path) -> None:
        self._step, self._folder = step, folder
        self._place: Place | None = None
        self._made = False
        self._known = threading.Event()
        self._room = threading.Semaphore(AT_ONCE)
        self._socket = next(filter(None, map(opened, ports(step))), None)
        if self._socket is not None:
            threading.Thread(target=self._answer, args=(self._socket,), daemon=True).start()

    def makes(self) -> None:
        """This host's run is made by this task: whoever else has made one sees another directory."""
        self._made = True

    def know(self, place: Place) -> None:
        """The run is there, and this is where its hosts meet."""
        self._place = place
        self._known.set()

    def _answer(self, listener: socket.socket) -> None:
        while True:
            with suppress(OSError):
                one, _ = listener.accept()
                if self._room.acquire(blocking=False):
                    threading.Thread(target=self._serve, args=(one,), daemon=True).start()
                else:
                    one.close()

    def _serve(self, one: socket.socket) -> None:
        with one, suppress(OSError), self._leaving():
            one.settimeout(GREETING)
            one.sendall(MAGIC)
            token = one.recv(64)
            if TOKEN.fullmatch(token):
                if self._sees(token.decode().strip()):
                    one.sendall(SAME)
                elif self._known.wait(ANSWER) and self._place is not None:
                    one.sendall(sealed(self._step, self._place))

    @contextmanager
    def _leaving(self) -> Iterator[None]:
        """Make room for the next one at the end."""
        try:
            yield
        finally:
            self._room.release()

    def _sees(self, token: str) -> bool:
        """Whether a file of another host's run is in the directory that this one sees."""
        limit = time.monotonic() + SEEN
        while not self._made and time.monotonic() < limit:
            if (self._folder / token).exists():
                return True
            time.sleep(0.05)
        return False


def opened(port: int) -> socket.socket | None:
    """A socket that listens there; None where another program does."""
    with suppress(OSError):
        return socket.create_server(("", port), backlog=1024)
    return None


def ask(step: Step, folder: Path) -> Place | None:
    """Where the hosts of a step meet; None where that is in this host's own run, in `folder`, or nobody answers."""
    token = f"seen-{os.urandom(8).hex()}"
    (folder / token).touch()
    try:
        limit = time.monotonic() + PATIENCE
        until = time.monotonic() + ANSWER
        while time.monotonic() < limit:
            for address in first_host():
                for port in ports(step):
                    answer = answered(address, port, token, until)
                    if answer == SAME:
                        return None
                    if answer and (place := opened_seal(step, answer)) is not None:
                        return place
            time.sleep(0.2)
    finally:
        (folder / token).unlink(missing_ok=True)
    return None


def answered(address: str, port: int, token: str, until: float) -> bytes:
    """What somebody says there to the name of a file; nothing where nobody does until then (of time.monotonic)."""
    try:
        with socket.create_connection((address, port), CONNECT) as one:
            one.settimeout(GREETING)
            if one.recv(len(MAGIC)) != MAGIC:
                return b""
            one.sendall(f"{token}\n".encode())
            answer = bytearray()
            while len(answer) < MOST and (left := until - time.monotonic()) > 0:
                one.settimeout(left)
                if not (more := one.recv(MOST - len(answer))):
                    return bytes(answer)
                answer += more
            return b""
    except OSError:
        return b""


def first_host(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Where the task of rank 0 may be reached: on the first node of the step."""
    if given := environment.get(GIVEN):
        yield from given.split(",")
    nodes = environment.get("SLURM_STEP_NODELIST", "")
    match = re.match(r"([^,\[]+)(?:\[(\d+))?", nodes)
    if match is None:
        return
    name = match[1] + (match[2] or "")
    try:
        socket.getaddrinfo(name, None)
    except OSError:  # a node that is called otherwise than its host
        found = re.search(r"\bNodeAddr=(\S+)", told("scontrol", "show", "node", name))
        name = found[1] if found else name
    yield name


def told(*command: str, given: bytes = b"") -> str:
    """What a command prints; nothing where it fails."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=COMMANDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def munged() -> Sequence[str]:
    """The options by which munge's commands find the daemon that Slurm uses."""
    found = re.search(r"^AuthInfo\s*=.*\bsocket=([^\s,]+)", told("scontrol", "show", "config"), re.M)
    return (f"--socket={found[1]}",) if found else ()


def sealed(step: Step, place: Place) -> bytes:
    """Where the hosts of a step meet, for this user alone, on hosts of this cluster; nothing where munge fails."""
    text = json.dumps({"step": step.name, "place": asdict(place)}).encode()
    return told("munge", f"--restrict-uid={os.geteuid()}", *munged(), given=text).encode()


def opened_seal(step: Step, seal: bytes) -> Place | None:
    """What this user has sealed for a step; None for anything else, as for what another step was told."""
    found = told("unmunge", "--numeric", "--keys=STATUS,UID", *munged(), given=seal)
    head, _, body = found.partition("\n\n")
    if not re.search(rf"^UID:\s+{os.geteuid()}$", head, re.M):
        return None
    with suppress(ValueError, RecursionError):
        facts = json.loads(body)
        if isinstance(facts, dict) and facts.get("step") == step.name:
            return Place.from_facts(facts.get("place"))
    return None
