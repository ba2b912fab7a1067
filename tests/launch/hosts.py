"""Hosts on this machine, for tests: each with its own network, name, processes and disk (namespaces of Linux; root)."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests_support import execute

NET = "10.77.23"
TOOLS = ("ip", "unshare", "nsenter", "mount", "hostname")
PATIENCE = 10.0
FIRST = ("sh", "-c", "sleep 1000000 & wait")
ITS_OWN = ("sh -c sleep 1000000", "sleep 1000000")
AGENT = """\
#!{python} -P
# In place of ssh: [options] HOST COMMAND...; what stands outside of the hosts runs it with our streams.
import array, os, socket, sys
words = sys.argv[1:]
while words[0].startswith("-"):
    del words[0]
one = socket.socket(socket.AF_UNIX)
one.connect("{door}")
one.sendmsg([" ".join(words).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
os.close(0)
os.close(1)
answer = one.recv(1)
os._exit(answer[0] if answer else 255)
"""


class CannotMake(Exception):
    """Why there are no hosts."""


class Hosts:
    """Some hosts with a network between them. `home` is a folder of each host's own, under one name."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing or os.geteuid():
            raise CannotMake(f"needs root and {', '.join(missing) or 'namespaces'}")
        self.folder, self.names, self.home = folder, tuple(names), folder / "home"
        self.agent = folder / "agent"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for made in (self.home, folder / "pids"):
            made.mkdir()
        door = folder / "door"
        self.agent.write_text(AGENT.format(door=door, python=sys.executable))
        self.agent.chmod(0o755)
        self._known().write_text("127.0.0.1 localhost\n" + "".join(f"{self.address(n)} {n}\n" for n in names))
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(door))
        self._door.listen(64)
        threading.Thread(target=self._attend, daemon=True).start()
        try:
            self._make()
        except (subprocess.CalledProcessError, OSError) as error:
            self.stop()
            raise CannotMake(f"{error}: {getattr(error, 'stderr', '')}") from error
        except BaseException:
            self.stop()
            raise

    def _known(self) -> Path:
        return self.folder / "hosts"

    def address(self, name: str) -> str:
        """The address of a host."""
        return f"{NET}.{10 + self.names.index(name)}"

    def _make(self) -> None:
        switch = self._space("switch", "--net")
        _do("nsenter", "-t", switch, "-n", "ip", "link", "add", "br0", "type", "bridge")
        _do("nsenter", "-t", switch, "-n", "ip", "link", "set", "br0", "up")
        for name in self.names:
            pid = self._space(name, "--net", "--uts", "--mount", "--ipc", "--pid", "--fork", "--mount-proc")
            self._wire(switch, pid, name)
            private = f"mount -t tmpfs none {self.home} && mount -t tmpfs none /dev/shm"
            self._inside(name, f"{private} && mount --bind {self._known()} /etc/hosts && hostname {name}")

    def _space(self, name: str, *kinds: str) -> str:
        """A process that holds namespaces; returns the id, on this machine, of the one that stands inside."""
        # The first process of a host has to take in those whose parents are gone: Slurm waits for that.
        command = ["unshare", *kinds, "--kill-child", *FIRST] if "--fork" in kinds else ["unshare", *kinds, *FIRST]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        self._processes[name] = process
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            pid = process.pid
            if "--fork" in kinds:
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                pid = int(children[0]) if children else 0
            with suppress(OSError):
                if pid and Path(f"/proc/{pid}/comm").read_text() == "sh\n":
                    (self.folder / "pids" / name).write_text(str(pid))
                    return str(pid)
            if process.poll() is not None:
                break
            time.sleep(0.02)
        raise CannotMake(f"no namespaces ({' '.join(kinds)})")

    def _wire(self, switch: str, pid: str, name: str) -> None:
        port = f"p{self.names.index(name)}"
        _do("nsenter", "-t", switch, "-n", "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0",
            "netns", pid)  # fmt: skip
        _do("nsenter", "-t", switch, "-n", "ip", "link", "set", port, "master", "br0", "up")
        for words in (f"addr add {self.address(name)}/24 dev eth0", "link set eth0 up", "link set lo up"):
            _do("nsenter", "-t", pid, "-n", "ip", *words.split())

    def _inside(self, name: str, line: str) -> None:
        _do(*self.enter(name), "sh", "-c", line)

    def enter(self, name: str) -> list[str]:
        """What stands before a command that is to run on a host, in its home."""
        return ["nsenter", "-t", (self.folder / "pids" / name).read_text(), "-a", f"--wdns={self.home}", "--"]

    def run(
        self, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None, timeout: float = 90
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host."""
        return execute([*self.enter(name), *command], env={**self._own(), **(env or {})}, timeout=timeout)

    def _own(self) -> dict[str, str]:
        """A host's own folders. Open MPI's daemons of two hosts called alike, one of which was killed, meet in /tmp."""
        return {"HOME": str(self.home), "TMPDIR": str(self.home)}

    def _attend(self) -> None:
        """Run what agents ask for, each beside the others."""
        while True:
            try:
                one, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        with one:
            line, files, _, _ = socket.recv_fds(one, 1 << 20, 3)
            host, _, command = line.decode().partition(" ")
            clean = {"PATH": os.environ["PATH"], **self._own()}
            process = subprocess.Popen(
                [*self.enter(host), "sh", "-c", command], stdin=files[0], stdout=files[1], stderr=files[2], env=clean,
                start_new_session=True,
            )  # fmt: skip
            for file in files:
                os.close(file)
            status = process.wait()
            with suppress(OSError):
                one.send(bytes([status % 256]))

    def read(self, name: str, line: str) -> str:
        """What a line of shell prints on a host."""
        return self.run(name, ["sh", "-c", line]).stdout

    def kill(self, name: str) -> None:
        """Let a host lose its power: nothing says good-bye, and nobody answers."""
        pid = (self.folder / "pids" / name).read_text()
        with suppress(subprocess.CalledProcessError):
            _do("nsenter", "-t", pid, "-n", "ip", "link", "del", "eth0")
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)

    def processes(self, name: str) -> list[str]:
        """The command lines of what runs on a host, but for what makes it."""
        return [
            line for line in self.read(name, "ps -eo args=").splitlines()
            if line and "<defunct>" not in line and not line.startswith((*ITS_OWN, "sh -c ps ", "ps -eo"))
        ]  # fmt: skip

    def stop(self) -> None:
        """End all hosts, with all that runs there."""
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def _do(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=20)


def shell(words: Sequence[str | Path]) -> str:
    """A command as a line of shell."""
    return shlex.join(str(word) for word in words)


def made(folder: Path, names: Sequence[str]) -> Iterator[Hosts]:
    """Hosts for a fixture; the test is skipped where none can be made."""
    try:
        hosts = Hosts(folder, names)
    except CannotMake as error:
        pytest.skip(f"no hosts: {error}")
    yield hosts
    hosts.stop()
