"""What `weft doctor --hosts a,b` finds out: does the launcher start Weft on each, does MPI pass messages between them.

Everything is tried as a job would do it, with limits: each host alone, all together, and where that fails with other
settings of MPI, and each host with the first one. Nothing is said to help that was not seen to.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from weft.base.lazy import dataclass
from weft.errors import UsageError
from weft.launch.checkup import Check
from weft.launch.compiler import beside
from weft.launch.job_step import environment_of
from weft.launch.launcher_line import arity, context, family_of, is_launcher
from weft.launch.library import Library, of_program
from weft.launch.local.addresses import GIVEN, addresses
from weft.launch.local.hosts import listener
from weft.launch.mpi_trial import MARK
from weft.launch.options import Family
from weft.launch.plan import ROOT_CONSENT, default_library, launchers, spoken
from weft.safety.started import own_python

START: Final = 30.0
"""Seconds for a host to start a process."""
MESSAGE: Final = 20.0
"""Seconds for all messages."""
GRACE: Final = 2.0
TRIAL: Final = "WEFT_INTERNAL_TRIAL"
"""The variable that marks the processes of one attempt."""
SETTINGS: Final[Mapping[Family, Sequence[dict[str, str]]]] = {
    Family.HYDRA: (
        {"MPICH_CH4_NETMOD": "ofi"},
        {"MPICH_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"},
        {"MPICH_CH4_NETMOD": "ucx", "UCX_TLS": "tcp,self"},
    ),
    Family.OPENMPI: ({"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp"},),
}
"""What is tried where MPI's own choice passes no message, by the family of its library, the simplest first."""
PLACED: Final = re.compile(
    r"-(np?|c|N|H|w|ppn|hosts?|f|hostfile|machinefile)|-[nNw]\S+"
    r"|--(np?|host|hostfile|machinefile|map-by|ntasks|nodes|nodelist|ntasks-per-node)(=.*)?"
)
"""Options that say how many ranks there are, and where."""
REMEDIES: Final = (
    (r"resolve host|unknown host|not known|could not contact|does not exist|invalid node",
     "use a name that this host knows: `getent hosts {host}`"),
    (r"permission denied|host key|password|authenticity", "`ssh {host} true` has to work without a question"),
    (r"connection refused|no route|timed out|unreachable", "see that {host} is up and lets ssh in: `ssh {host} true`"),
    (r"mpiexec@.*execvp error|ssh.*(not found|no such file)|could not find.*(ssh|rsh)|plm_rsh_agent|plm_ssh_agent",
     "install ssh, or name what starts processes there (`-- mpiexec -launcher-exec PROGRAM`)"),
    (r"execvp error|No module named|can't open|No such file|not found|cannot open shared object|cannot execute",
     "Weft ({python}) and MPI ({library}) have to lie in the same places on {host}"),
)  # fmt: skip
"""What stands in a launcher's words, and what to do then; the first that fits."""


@dataclass(frozen=True)
class With:
    """The launcher that is tried, with its options, and the MPI of the processes."""

    words: tuple[str, ...]
    family: Family
    library: Library

    def line(self, hosts: Sequence[str], facts: Mapping[str, object]) -> list[str]:
        """The command that starts one process on each of some hosts."""
        names, count = ",".join(hosts), str(len(hosts))
        options = {
            Family.HYDRA: ["-hosts", names, "-n", count, "-ppn", "1"],
            Family.OPENMPI: ["-H", names, "-n", count, "--map-by", "node"],
            Family.SRUN: ["-w", names, "-N", count, "-n", count],
        }[self.family]
        module = own_python("-m", "weft.launch.mpi_trial", json.dumps(facts, separators=(",", ":")))
        return [*self.words, *options, *module]


class Attempt:
    """One job of a process on each of some hosts. Its output goes into a file: a pipe could stay open for ever."""

    def __init__(
        self, how: With, hosts: Sequence[str], *, port: int = 0, messages: bool = False, more: Mapping[str, str] = {}
    ) -> None:
        self.hosts, self.limit = hosts, MESSAGE if messages else START
        facts = {
            "library": str(how.library.path), "abi": how.library.abi, "messages": messages,
            "addresses": addresses(), "port": port, "limit": self.limit,
        }  # fmt: skip
        consent = ROOT_CONSENT if how.family is Family.OPENMPI and not os.geteuid() else {}
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - until `wait`
        self._until = time.monotonic() + self.limit
        self._mark = os.urandom(8).hex()
        self._process = subprocess.Popen(
            how.line(hosts, facts), stdin=subprocess.DEVNULL, stdout=self._out, stderr=subprocess.STDOUT,
            env={**os.environ, **consent, **more, TRIAL: self._mark}, start_new_session=True,
        )  # fmt: skip
        self.late = False
        self.text = ""
        self.said: list[dict[str, Any]] = []

    def wait(self) -> Attempt:
        """Wait for its end, or end it at its limit."""
        try:
            self._process.wait(max(0.0, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.late = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self._process.pid, number)
                self._process.wait(GRACE)
        end_marked(self._mark)
        self._out.seek(0)
        self.text = self._out.read().decode(errors="replace")
        self._out.close()
        for line in self.text.splitlines():
            with suppress(ValueError):
                if MARK in line:
                    self.said.append(json.loads(line.partition(MARK)[2]))
        return self

    @property
    def places(self) -> list[dict[str, Any]]:
        """What each process said of where it is."""
        return [one for one in self.said if "host" in one]

    @property
    def passed(self) -> bool:
        """Whether all messages came."""
        done = [one for one in self.said if "rank" in one]
        return len(done) == len(self.hosts) and all(one["size"] == len(self.hosts) for one in done)

    @property
    def apart(self) -> bool:
        """Whether each process was a world of its own."""
        return any(one.get("size") == 1 for one in self.said)

    def reason(self) -> str:
        """Why it did not go well: what the launcher or MPI said first that tells something, or the time."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip() and MARK not in line]
        telling = [line for line in lines if re.search(TELLING, line, re.IGNORECASE)]
        said = next(iter(telling), lines[-1] if lines else "")
        late = f"no end within {self.limit:.0f} s" if self.late else f"status {self._process.returncode}"
        return f"{late}: {said[:300]}" if said else late


def end_marked(mark: str) -> None:
    """End what a launcher left on this host: an ssh that hangs, in a session of its own."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            handle = os.pidfd_open(int(path.name))
            try:
                if environment_of(int(path.name)).get(TRIAL) == mark:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)


TELLING: Final = "|".join(
    [*(pattern for pattern, _ in REMEDIES), "unreachable", "cannot", "fail(ed|ure) to", r"\berror:"]
)


def tried(hosts: Sequence[str], words: Sequence[str]) -> list[Check]:
    """Try all; `words`: the launcher and its options, where the user named one. UsageError for what cannot be tried."""
    if len(set(hosts)) < 2 or not all(hosts):
        raise UsageError("--hosts takes two hosts or more: `weft doctor --hosts a,b`")
    how = decided(words)
    if isinstance(how, Check):
        return [how]
    checks, reached = each_alone(how, hosts)
    if not all(check.status != "failed" for check in checks):
        return [*checks, Check("messages between hosts", "warning", "not tried: not every host starts a process",
                               "see to the hosts above first")]  # fmt: skip
    names = [place["host"] for place in reached]
    if len(set(names)) < len(names):
        checks.append(Check("hosts", "warning", f"some of them are one machine ({', '.join(names)})",
                            "give hosts that are several machines: within one, messages need no network"))  # fmt: skip
    return [*checks, messages(how, hosts)]


def decided(words: Sequence[str]) -> With | Check:
    """The launcher and the MPI that are tried; a failed check where there are none."""
    if words and not (is_launcher(words[0]) and shutil.which(words[0])):
        raise UsageError(f"after -- comes the launcher with its options, as in a run: {words[0]!r} is none")
    launcher = shutil.which(words[0] if words else "mpiexec") or next(launchers(None), None)
    if launcher is None:
        return Check("mpiexec", "failed", "none found", "pip install mpich, or put your MPI's bin on the PATH")
    family = family_of(launcher)
    given = context(family, words[1:])
    if family is Family.OTHER:
        raise UsageError(
            f"{launcher} is not a launcher that Weft knows how to give hosts to: use mpiexec, mpirun or srun"
        )
    library = of_program(given.program) if given.program else beside(launcher)
    if family is Family.SRUN and not given.program:
        library = default_library(launcher)
    if library is None or not library.abi:
        return Check("MPI", "failed", f"it is not known which MPI {' '.join(given.program) or launcher} belongs to",
                     "give the line of a run: `weft doctor --hosts a,b -- mpiexec ./program`")  # fmt: skip
    return With((launcher, *unplaced(family, given.options)), family, library)


def unplaced(family: Family, options: Sequence[str]) -> list[str]:
    """A line's options but for those that say how many ranks there are, and where."""
    kept: list[str] = []
    at = 0
    while at < len(options):
        end = at + 1 + arity(family, options, at)
        if not PLACED.fullmatch(options[at]):
            kept += options[at:end]
        at = end
    return kept


def each_alone(how: With, hosts: Sequence[str]) -> tuple[list[Check], list[dict[str, Any]]]:
    """Start a process on each host, all at the same time: does it start, does it reach this host?"""
    with listener() as listening:
        port = int(listening.getsockname()[1])
        attempts = [Attempt(how, [host], port=port) for host in hosts]
        done = [attempt.wait() for attempt in attempts]
    checks = [alone(how, host, attempt) for host, attempt in zip(hosts, done, strict=True)]
    return checks, [place for attempt in done for place in attempt.places[:1]]


def alone(how: With, host: str, attempt: Attempt) -> Check:
    """What came of one host."""
    name = f"host {host}"
    if not attempt.places:
        return Check(name, "failed", f"{Path(how.words[0]).name} starts nothing there, {attempt.reason()}",
                     remedy(how, host, attempt))  # fmt: skip
    way = attempt.places[0]["way"]
    if way is None:
        return Check(
            name, "warning",
            f"starts processes, but reaches this host at none of {', '.join(addresses())}: `weft run --local` sees "
            "nothing of it while it runs, proves no deadlock, and does not gather it",
            f"let TCP connections in from {host}, or give names or addresses that it reaches: {GIVEN}=name,...",
        )  # fmt: skip
    return Check(name, "ok", f"starts processes and reaches this host at {way}")


def remedy(how: With, host: str, attempt: Attempt) -> str:
    """What to do where a host starts nothing."""
    for pattern, text in REMEDIES:
        if re.search(pattern, attempt.text, re.IGNORECASE):
            return text.format(host=host, python=sys.executable, library=how.library.path)
    if how.family is Family.SRUN:
        return f"`srun -w {host} hostname` has to work; inside a job, only its own nodes can be named"
    return f"`ssh {host} true` has to come back at once, without a question; or name your cluster's way: -- LAUNCHER"


def messages(how: With, hosts: Sequence[str]) -> Check:
    """Pass messages between all hosts; where that fails, find what would help and where it fails."""
    name, mpi = "messages between hosts", f"{spoken(how.library.family)} of {how.library.path}"
    begun = time.monotonic()
    first = Attempt(how, hosts, messages=True).wait()
    if first.passed:
        return Check(name, "ok", f"{len(hosts)} hosts in {time.monotonic() - begun:.1f} s, with {mpi}")
    if first.apart:
        speaks = {Family.HYDRA: "pmi2", Family.OPENMPI: "pmix"}.get(how.library.family, "another plugin")
        helps = f"`-- srun --mpi={speaks}`" if how.family is Family.SRUN else "use the launcher of that MPI"
        return Check(name, "failed", f"each process was an MPI world of its own, with {mpi}", helps)
    settings = SETTINGS.get(how.library.family, ())
    others = [Attempt(how, hosts, messages=True, more=one) for one in settings]
    pairs = [Attempt(how, [hosts[0], host], messages=True) for host in hosts[1:]] if len(hosts) > 2 else []
    passed = [attempt.wait().passed for attempt in others]
    bad = [attempt.hosts[1] for attempt in pairs if not attempt.wait().passed]
    detail = f"{mpi} passes none {where(hosts, bad)}, {first.reason()}"
    if True in passed:
        return Check(name, "failed", detail, f"export {shell(settings[passed.index(True)])}: with it all messages came")
    return Check(name, "failed", detail, in_vain(settings))


def where(hosts: Sequence[str], bad: Sequence[str]) -> str:
    """Between which hosts nothing came; `bad`: those that the first one does not reach alone."""
    if len(hosts) == 2:
        return f"between {hosts[0]} and {hosts[1]}"
    if bad:
        return f"between {hosts[0]} and {' and '.join(bad)}"
    return f"between all of {', '.join(hosts)}, though {hosts[0]} reaches each of them alone"


def shell(setting: Mapping[str, str]) -> str:
    """Variables as a shell takes them."""
    return " ".join(f"{key}={value}" for key, value in setting.items())


def in_vain(settings: Sequence[Mapping[str, str]]) -> str:
    """What to do where no setting helped."""
    text = "let TCP connections through between all hosts, on all ports (firewall, networks of containers)"
    return f"{text}; tried in vain: {'; '.join(map(shell, settings))}" if settings else text
