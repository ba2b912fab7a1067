"""A Slurm of three nodes on this machine, for tests: Debian's slurm-wlm and munge, in a folder of its own.

Its nodes are this machine, or hosts with private disks (hosts.py).
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from launch.hosts import Hosts

NODES = 3
PATIENCE = 60.0
CONFIGURATION = """\
ClusterName=weft
SlurmctldHost={host}({address})
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
MpiDefault=pmi2
ProctrackType=proctrack/pgid
TaskPlugin=task/none
ReturnToService=2
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
FirstJobId={first}
SlurmctldPidFile={folder}/ctl.pid
SlurmdPidFile={folder}/%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
TmpFS={folder}/tmp.%n
SlurmctldLogFile={folder}/ctl.log
SlurmdLogFile={folder}/%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr={address} Port={port} CPUs=4 RealMemory=1000 State=UNKNOWN\n"


class CannotStart(Exception):
    """Why there is no Slurm."""


class Slurm:
    """The daemons, and the environment that makes Slurm's commands find them."""

    def __init__(self, folder: Path, hosts: Hosts | None = None) -> None:
        missing = [word for word in ("munged", "slurmctld", "slurmd", "srun") if which(word) is None]
        if missing:
            raise CannotStart(f"{', '.join(missing)} not installed (Debian: slurm-wlm, munge)")
        if os.geteuid():
            raise CannotStart("only root may start slurmd")
        self.folder, self.hosts = folder, hosts
        self.nodes = hosts.names if hosts else tuple(f"n{k}" for k in range(1, NODES + 1))
        self.environment: Mapping[str, str] = {"SLURM_CONF": str(folder / "slurm.conf")}
        self.ready = False
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._configure()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _configure(self) -> None:
        self.folder.chmod(0o755)
        for name in ("state", *(f"{of}.{node}" for node in self.nodes for of in ("spool", "tmp"))):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        ports = free_ports(NODES + 1)
        # MPICH finds the ranks of a job by its number: two such Slurms on one machine may not have the same.
        first = int.from_bytes(os.urandom(2)) * 100 + 1
        host, address = self._place(self.nodes[0])
        text = CONFIGURATION.format(
            host=host, address=address, folder=self.folder, user=getpass.getuser(), ports=ports, first=first
        )
        places = [(node, port, *self._place(node)) for node, port in zip(self.nodes, ports[1:], strict=True)]
        nodes = "".join(NODE.format(name=node, host=host, address=at, port=port) for node, port, host, at in places)
        (self.folder / "slurm.conf").write_text(nodes + text)

    def _place(self, node: str) -> tuple[str, str]:
        """Name and address of the host that a node is."""
        return (node, self.hosts.address(node)) if self.hosts else (socket.gethostname(), "127.0.0.1")

    def _start(self) -> None:
        d = self.folder
        self._daemon(
            "munged", "--foreground", "--force", f"--socket={d}/munge.sock", f"--key-file={d}/munge.key",
            f"--pid-file={d}/munge.pid", f"--log-file={d}/munge.log", f"--seed-file={d}/munge.seed",
        )  # fmt: skip
        self._wait((d / "munge.sock").exists, "munged")
        self._daemon("slurmctld", "-D", "-f", f"{d}/slurm.conf", on=self.nodes[0])
        for node in self.nodes:
            self._daemon("slurmd", "-D", "-N", node, "-f", f"{d}/slurm.conf", on=node)
        self._wait(lambda: self.told("sinfo", "-h", "-t", "idle", "-o", "%D") == str(NODES), "slurmctld or slurmd")
        self.ready = True

    def _daemon(self, word: str, *options: str, on: str = "") -> None:
        with (self.folder / f"{word}.out").open("ab") as out:
            command = [*(self.hosts.enter(on) if self.hosts and on else []), str(which(word)), *options]
            self._daemons.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
            )

    def _wait(self, there: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + PATIENCE
        while not there():
            if time.monotonic() > limit or any(one.poll() is not None for one in self._daemons):
                logs = "\n".join(path.read_text(errors="replace")[-500:] for path in self.folder.glob("*.out"))
                raise CannotStart(f"{what} does not come up here: {logs}")
            time.sleep(0.2)

    def told(self, *command: str) -> str:
        """What one of Slurm's commands prints."""
        on = self.hosts.enter(self.nodes[0]) if self.hosts else []
        environment = {**os.environ, **self.environment}
        done = subprocess.run([*on, *command], env=environment, capture_output=True, text=True, timeout=30, check=False)
        return done.stdout.strip()

    def quiet(self) -> bool:
        """Whether no job is left, within some seconds."""
        limit = time.monotonic() + 20
        while self.told("squeue", "-h"):
            if time.monotonic() > limit:
                return False
            time.sleep(0.2)
        return True

    def stop(self) -> None:
        """End what still runs, and the daemons."""
        with suppress(subprocess.TimeoutExpired):
            if self.ready and (jobs := self.told("squeue", "-h", "--format=%A").split()):
                self.told("scancel", "--signal=KILL", *jobs)
                self.quiet()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for daemon in reversed(self._daemons):
                if daemon.poll() is None:
                    daemon.send_signal(number)
            for daemon in self._daemons:
                try:
                    daemon.wait(10)
                except subprocess.TimeoutExpired:
                    continue


def which(word: str) -> str | None:
    """Where a command lies; daemons are not on everybody's PATH."""
    return shutil.which(word, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def started(folder: Path, hosts: Hosts | None = None) -> Iterator[Slurm]:
    """A Slurm whose nodes are this machine, or hosts, for a fixture; the test is skipped where none can be."""
    for parent in (folder, folder.parent, folder.parent.parent):
        parent.chmod(0o755)  # munged wants its socket to be reached by all
    try:
        cluster = Slurm(folder, hosts)
    except CannotStart as error:
        pytest.skip(f"no Slurm: {error}")
    yield cluster
    cluster.stop()
