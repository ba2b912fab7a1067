"""Let the tasks of a Slurm step find the one that listens if their hosts see no common directory.

The task of rank 0 answers at a port derived from the step. A task that made the run on another host sends it the name
of a file in that run: if the file is visible there, both see one directory. Otherwise the answer is the listener's
address, sealed by munge for this user, who must also be the one that sealed it: as Slurm does with its own messages.
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

from weft.launch.job_step import JobStep
from weft.launch.local.addresses import GIVEN
from weft.launch.local.listener_address import ListenerAddress

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


def is_possible(step: JobStep, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the step may be on several hosts and its tasks can find each other."""
    nodes = environment.get("SLURM_STEP_NUM_NODES", "1")
    return step.system == "slurm" and nodes != "1" and all(map(shutil.which, ("munge", "unmunge")))


def list_step_ports(step: JobStep) -> list[int]:
    """Return the ports at which the task of rank 0 may answer, in order."""
    begin = zlib.crc32(f"{step.name} {os.geteuid()}".encode())
    return [FIRST_PORT + (begin + k) % PORTS for k in range(TRIED)]


class RendezvousServer:
    """Answers the other hosts in the task of rank 0, from before it has a run until it ends."""

    def __init__(self, step: JobStep, folder: Path) -> None:
        self._step, self._folder = step, folder
        self._place: ListenerAddress | None = None
        self._made = False
        self._known = threading.Event()
        self._room = threading.Semaphore(AT_ONCE)
        self._socket = next(filter(None, map(open_port, list_step_ports(step))), None)
        if self._socket is not None:
            threading.Thread(target=self._accept_hosts, args=(self._socket,), daemon=True).start()

    def note_run_creation(self) -> None:
        """Note that this task made its host's run: a task that made another run sees another directory."""
        self._made = True

    def publish_address(self, place: ListenerAddress) -> None:
        """Set the listener's address, for which other hosts wait."""
        self._place = place
        self._known.set()

    def _accept_hosts(self, listener: socket.socket) -> None:
        """Accept hosts, and answer each in a thread of its own, up to a limit."""
        while True:
            with suppress(OSError):
                one, _ = listener.accept()
                if self._room.acquire(blocking=False):
                    threading.Thread(target=self._answer_host, args=(one,), daemon=True).start()
                else:
                    one.close()

    def _answer_host(self, connection: socket.socket) -> None:
        """Tell the host at the other end of a connection whether this host sees the file that it named."""
        with connection, suppress(OSError), self._releasing_slot():
            connection.settimeout(GREETING)
            connection.sendall(MAGIC)
            token = connection.recv(64)
            if TOKEN.fullmatch(token):
                if self._wait_for_token_file(token.decode().strip()):
                    connection.sendall(SAME)
                elif self._known.wait(ANSWER) and self._place is not None:
                    connection.sendall(seal_address(self._step, self._place))

    @contextmanager
    def _releasing_slot(self) -> Iterator[None]:
        """Count a connection as closed at the end of a `with` block, so that another one may be accepted."""
        try:
            yield
        finally:
            self._room.release()

    def _wait_for_token_file(self, token: str) -> bool:
        """Return whether the file of another host's run becomes visible in this host's directory."""
        limit = time.monotonic() + SEEN
        while not self._made and time.monotonic() < limit:
            if (self._folder / token).exists():
                return True
            time.sleep(0.05)
        return False


def open_port(port: int) -> socket.socket | None:
    """Return a socket that listens at a port, None if another program does."""
    with suppress(OSError):
        return socket.create_server(("", port), backlog=1024)
    return None


def find_listener(step: JobStep, folder: Path) -> ListenerAddress | None:
    """Return the address at which the first host of the job step waits for the others. None if that host sees the same
    run folder as this one, as nothing has to be sent then, or if nobody answers.

    `folder`: the step's folder in this host's run.
    """
    token = f"seen-{os.urandom(8).hex()}"
    (folder / token).touch()
    try:
        limit = time.monotonic() + PATIENCE
        until = time.monotonic() + ANSWER
        while time.monotonic() < limit:
            for address in find_first_host():
                for port in list_step_ports(step):
                    answer = query_port(address, port, token, until)
                    if answer == SAME:
                        return None
                    if answer and (place := unseal_address(step, answer)) is not None:
                        return place
            time.sleep(0.2)
    finally:
        (folder / token).unlink(missing_ok=True)
    return None


def query_port(address: str, port: int, token: str, deadline: float) -> bytes:
    """Send a token to a port and return the answer; empty without one before `deadline` (of time.monotonic)."""
    try:
        with socket.create_connection((address, port), CONNECT) as one:
            one.settimeout(GREETING)
            if one.recv(len(MAGIC)) != MAGIC:
                return b""
            one.sendall(f"{token}\n".encode())
            answer = bytearray()
            while len(answer) < MOST and (left := deadline - time.monotonic()) > 0:
                one.settimeout(left)
                if not (more := one.recv(MOST - len(answer))):
                    return bytes(answer)
                answer += more
            return b""
    except OSError:
        return b""


def find_first_host(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield the names or addresses at which the task of rank 0 may be reached: on the first node of the step."""
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
        found = re.search(r"\bNodeAddr=(\S+)", run_command("scontrol", "show", "node", name))
        name = found[1] if found else name
    yield name


def run_command(*command: str, given: bytes = b"") -> str:
    """Return what a command prints, empty if it fails; `given`: its standard input."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=COMMANDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def find_munge_options() -> Sequence[str]:
    """Return the options by which munge's commands find the daemon that Slurm uses."""
    found = re.search(r"^AuthInfo\s*=.*\bsocket=([^\s,]+)", run_command("scontrol", "show", "config"), re.M)
    return (f"--socket={found[1]}",) if found else ()


def seal_address(step: JobStep, place: ListenerAddress) -> bytes:
    """Seal the listener's address with munge for this user on hosts of this cluster; return nothing if munge fails."""
    text = json.dumps({"step": step.name, "place": asdict(place)}).encode()
    return run_command("munge", f"--restrict-uid={os.geteuid()}", *find_munge_options(), given=text).encode()


def unseal_address(step: JobStep, seal: bytes) -> ListenerAddress | None:
    """Return the address that this user sealed for this step; None for anything else."""
    found = run_command("unmunge", "--numeric", "--keys=STATUS,UID", *find_munge_options(), given=seal)
    head, _, body = found.partition("\n\n")
    if not re.search(rf"^UID:\s+{os.geteuid()}$", head, re.M):
        return None
    with suppress(ValueError, RecursionError):
        facts = json.loads(body)
        if isinstance(facts, dict) and facts.get("step") == step.name:
            return ListenerAddress.from_facts(facts.get("place"))
    return None
