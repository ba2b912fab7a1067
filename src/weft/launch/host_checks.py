"""Check for `weft doctor --hosts a,b` whether the launcher starts Weft on each host and MPI passes messages between
them.

Everything is tried as a job would do it, with time limits: each host by itself, all hosts together, and if that fails
with other settings of MPI and each host together with the first. A remedy is only suggested if it was seen to work.
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
from weft.launch.checkup import SystemCheck
from weft.launch.compiler import find_library_of_launcher
from weft.launch.job_step import read_environment
from weft.launch.launcher_line import count_option_values, find_launcher_family, is_launcher, parse_context
from weft.launch.library import MPILibrary, find_program_library
from weft.launch.local.addresses import GIVEN, find_own_addresses
from weft.launch.local.hosts import open_listener
from weft.launch.mpi_trial import MARK
from weft.launch.options import Family
from weft.launch.plan import ROOT_CONSENT, find_default_library, find_launchers, format_family
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
    (r"permission denied|host key|password|authenticity", "make `ssh {host} true` work without a password or "
        "another question"),
    (r"connection refused|no route|timed out|unreachable", "check that {host} is up, and `ssh {host} true`"),
    (r"mpiexec@.*execvp error|ssh.*(not found|no such file)|could not find.*(ssh|rsh)|plm_rsh_agent|plm_ssh_agent",
     "install ssh, or name what starts processes there (`-- mpiexec -launcher-exec PROGRAM`)"),
    (r"execvp error|No module named|can't open|No such file|not found|cannot open shared object|cannot execute",
     "Weft ({python}) and MPI ({library}) must be installed in the same places on {host}"),
)  # fmt: skip
"""What stands in a launcher's words, and what to do then; the first that fits."""


@dataclass(frozen=True)
class TrialLauncher:
    """The launcher that the checks use, with its options, and the MPI library of the processes."""

    words: tuple[str, ...]
    family: Family
    library: MPILibrary

    def make_trial_command(self, hosts: Sequence[str], facts: Mapping[str, object]) -> list[str]:
        """Return the command that starts one process of the trial on each host. `facts`: what the processes have to
        do, passed as JSON."""
        names, count = ",".join(hosts), str(len(hosts))
        options = {
            Family.HYDRA: ["-hosts", names, "-n", count, "-ppn", "1"],
            Family.OPENMPI: ["-H", names, "-n", count, "--map-by", "node"],
            Family.SRUN: ["-w", names, "-N", count, "-n", count],
        }[self.family]
        module = own_python("-m", "weft.launch.mpi_trial", json.dumps(facts, separators=(",", ":")))
        return [*self.words, *options, *module]


class TrialJob:
    """A running trial: one process on each of some hosts. Its output goes to a file, as a pipe could stay open for
    ever.
    """

    def __init__(
        self,
        how: TrialLauncher,
        hosts: Sequence[str],
        *,
        port: int = 0,
        messages: bool = False,
        more: Mapping[str, str] = {},
    ) -> None:
        self.hosts, self.limit = hosts, MESSAGE if messages else START
        facts = {
            "library": str(how.library.path), "abi": how.library.abi, "messages": messages,
            "addresses": find_own_addresses(), "port": port, "limit": self.limit,
        }  # fmt: skip
        consent = ROOT_CONSENT if how.family is Family.OPENMPI and not os.geteuid() else {}
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - until `wait`
        self._until = time.monotonic() + self.limit
        self._mark = os.urandom(8).hex()
        self._process = subprocess.Popen(
            how.make_trial_command(hosts, facts), stdin=subprocess.DEVNULL, stdout=self._out, stderr=subprocess.STDOUT,
            env={**os.environ, **consent, **more, TRIAL: self._mark}, start_new_session=True,
        )  # fmt: skip
        self.late = False
        self.text = ""
        self.reports: list[dict[str, Any]] = []

    def wait(self) -> TrialJob:
        """Wait until the trial ends, or end it at its time limit. Return the trial itself; its output is read by
        then."""
        try:
            self._process.wait(max(0.0, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.late = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self._process.pid, number)
                self._process.wait(GRACE)
        kill_marked_processes(self._mark)
        self._out.seek(0)
        self.text = self._out.read().decode(errors="replace")
        self._out.close()
        for line in self.text.splitlines():
            with suppress(ValueError):
                if MARK in line:
                    self.reports.append(json.loads(line.partition(MARK)[2]))
        return self

    @property
    def process_locations(self) -> list[dict[str, Any]]:
        """What each process reported about the host on which it runs."""
        return [one for one in self.reports if "host" in one]

    @property
    def has_passed_messages(self) -> bool:
        """Whether all messages arrived."""
        done = [one for one in self.reports if "rank" in one]
        return len(done) == len(self.hosts) and all(one["size"] == len(self.hosts) for one in done)

    @property
    def has_separate_worlds(self) -> bool:
        """Whether each process was an MPI world of its own."""
        return any(one.get("size") == 1 for one in self.reports)

    def explain_failure(self) -> str:
        """Return why the trial failed: the exit status or the exceeded limit, and the first telling line of the
        output.
        """
        lines = [line.strip() for line in self.text.splitlines() if line.strip() and MARK not in line]
        telling = [line for line in lines if re.search(TELLING, line, re.IGNORECASE)]
        said = next(iter(telling), lines[-1] if lines else "")
        late = f"no end within {self.limit:.0f} s" if self.late else f"status {self._process.returncode}"
        return f"{late}: {said[:300]}" if said else late


def kill_marked_processes(mark: str) -> None:
    """Kill what a launcher left behind on this host, for example an ssh that hangs in a session of its own.

    `mark`: the value of the environment variable TRIAL in the processes of one trial.
    """
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            handle = os.pidfd_open(int(path.name))
            try:
                if read_environment(int(path.name)).get(TRIAL) == mark:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)


TELLING: Final = "|".join(
    [*(pattern for pattern, _ in REMEDIES), "unreachable", "cannot", "fail(ed|ure) to", r"\berror:"]
)


def check_hosts(hosts: Sequence[str], launcher_words: Sequence[str]) -> list[SystemCheck]:
    """Check whether the launcher starts processes on each host and whether MPI passes messages between them.

    `launcher_words`: the launcher and its options, if the user gave one. Raises UsageError if nothing can be tried.
    """
    if len(set(hosts)) < 2 or not all(hosts):
        raise UsageError("--hosts takes two hosts or more: `weft doctor --hosts a,b`")
    how = choose_launcher(launcher_words)
    if isinstance(how, SystemCheck):
        return [how]
    checks, reached = check_each_host(how, hosts)
    if not all(check.status != "failed" for check in checks):
        return [*checks, SystemCheck("messages between hosts", "warning", "not tried: not every host starts a process",
                               "solve the problems of the hosts above first")]  # fmt: skip
    names = [place["host"] for place in reached]
    if len(set(names)) < len(names):
        checks.append(SystemCheck("hosts", "warning", f"some of the hosts are the same machine ({', '.join(names)})",
                            "name hosts on different machines: within one machine messages need no "
                            "network"))  # fmt: skip
    return [*checks, check_messages(how, hosts)]


def choose_launcher(launcher_words: Sequence[str]) -> TrialLauncher | SystemCheck:
    """Choose the launcher and the MPI library for the trials; return a failed check if there is none."""
    if launcher_words and not (is_launcher(launcher_words[0]) and shutil.which(launcher_words[0])):
        raise UsageError(
            f"{launcher_words[0]!r} is not a launcher on the PATH: name the launcher with its options after --"
        )
    launcher = shutil.which(launcher_words[0] if launcher_words else "mpiexec") or next(find_launchers(None), None)
    if launcher is None:
        return SystemCheck("mpiexec", "failed", "none found", "pip install mpich, or put your MPI's bin on the PATH")
    family = find_launcher_family(launcher)
    given = parse_context(family, launcher_words[1:])
    if family is Family.OTHER:
        raise UsageError(
            f"Weft does not know how to give hosts to the launcher {launcher}: use mpiexec, mpirun or srun"
        )
    library = find_program_library(given.program) if given.program else find_library_of_launcher(launcher)
    if family is Family.SRUN and not given.program:
        library = find_default_library(launcher)
    if library is None or not library.abi:
        return SystemCheck("MPI", "failed",
                           f"Weft does not know which MPI {' '.join(given.program) or launcher} belongs to",
                           "give the line of a run: `weft doctor --hosts a,b -- mpiexec ./program`")  # fmt: skip
    return TrialLauncher((launcher, *drop_placement_options(family, given.options)), family, library)


def drop_placement_options(family: Family, options: Sequence[str]) -> list[str]:
    """Return a launcher's options without those for the number of ranks and their hosts, with the values of these
    options."""
    kept: list[str] = []
    at = 0
    while at < len(options):
        end = at + 1 + count_option_values(family, options, at)
        if not PLACED.fullmatch(options[at]):
            kept += options[at:end]
        at = end
    return kept


def check_each_host(launcher: TrialLauncher, hosts: Sequence[str]) -> tuple[list[SystemCheck], list[dict[str, Any]]]:
    """Start a process on each host by itself, all at the same time. Return the checks, and for each process that ran
    what it printed about its place."""
    with open_listener() as listening:
        port = int(listening.getsockname()[1])
        attempts = [TrialJob(launcher, [host], port=port) for host in hosts]
        done = [attempt.wait() for attempt in attempts]
    checks = [check_host(launcher, host, attempt) for host, attempt in zip(hosts, done, strict=True)]
    return checks, [place for attempt in done for place in attempt.process_locations[:1]]


def check_host(launcher: TrialLauncher, host: str, trial: TrialJob) -> SystemCheck:
    """Return the check of one host, judged by its trial: whether a process starts there, and whether that process
    reaches this host by TCP."""
    name = f"host {host}"
    if not trial.process_locations:
        return SystemCheck(name, "failed",
                           f"{Path(launcher.words[0]).name} starts nothing there, {trial.explain_failure()}",
                           suggest_remedy(launcher, host, trial))  # fmt: skip
    way = trial.process_locations[0]["way"]
    if way is None:
        return SystemCheck(
            name, "warning",
            f"starts processes, but reaches this host at none of {', '.join(find_own_addresses())}: `weft run --local` "
            "can neither watch its ranks, nor prove a deadlock, nor gather its records",
            f"let TCP connections in from {host}, or give names or addresses that it reaches: {GIVEN}=name,...",
        )  # fmt: skip
    return SystemCheck(name, "ok", f"starts processes and reaches this host at {way}")


def suggest_remedy(launcher: TrialLauncher, host: str, trial: TrialJob) -> str:
    """Return what the user can do if a host starts no process."""
    for pattern, text in REMEDIES:
        if re.search(pattern, trial.text, re.IGNORECASE):
            return text.format(host=host, python=sys.executable, library=launcher.library.path)
    if launcher.family is Family.SRUN:
        return f"`srun -w {host} hostname` has to work; inside a job, only its own nodes can be named"
    return (
        f"`ssh {host} true` must return at once without a question; or name the launcher of your cluster: -- LAUNCHER"
    )


def check_messages(launcher: TrialLauncher, hosts: Sequence[str]) -> SystemCheck:
    """Check whether messages pass between all hosts. If not, find out between which hosts they do not, and which
    settings of MPI help."""
    name, mpi = "messages between hosts", f"{format_family(launcher.library.family)} of {launcher.library.path}"
    begun = time.monotonic()
    first = TrialJob(launcher, hosts, messages=True).wait()
    if first.has_passed_messages:
        return SystemCheck(name, "ok", f"{len(hosts)} hosts in {time.monotonic() - begun:.1f} s, with {mpi}")
    if first.has_separate_worlds:
        speaks = {Family.HYDRA: "pmi2", Family.OPENMPI: "pmix"}.get(launcher.library.family, "another plugin")
        helps = (
            f"`-- srun --mpi={speaks}`"
            if launcher.family is Family.SRUN
            else "start the program by the launcher that belongs to that MPI"
        )
        return SystemCheck(name, "failed", f"each process was an MPI world of its own, with {mpi}", helps)
    settings = SETTINGS.get(launcher.library.family, ())
    others = [TrialJob(launcher, hosts, messages=True, more=one) for one in settings]
    pairs = [TrialJob(launcher, [hosts[0], host], messages=True) for host in hosts[1:]] if len(hosts) > 2 else []
    passed = [attempt.wait().has_passed_messages for attempt in others]
    bad = [attempt.hosts[1] for attempt in pairs if not attempt.wait().has_passed_messages]
    detail = f"{mpi} passes no message {describe_unreached_hosts(hosts, bad)}, {first.explain_failure()}"
    if True in passed:
        return SystemCheck(
            name,
            "failed",
            detail,
            f"export {format_shell_variables(settings[passed.index(True)])}: with this setting all messages arrived",
        )
    return SystemCheck(name, "failed", detail, suggest_open_network(settings))


def describe_unreached_hosts(hosts: Sequence[str], unreached: Sequence[str]) -> str:
    """Return the words that say between which of the `hosts` no message arrived. `unreached`: hosts that exchanged no
    message with the first host when the two were tried alone."""
    if len(hosts) == 2:
        return f"between {hosts[0]} and {hosts[1]}"
    if unreached:
        return f"between {hosts[0]} and {' and '.join(unreached)}"
    return f"when all of {', '.join(hosts)} take part, although {hosts[0]} reaches each of them alone"


def format_shell_variables(setting: Mapping[str, str]) -> str:
    """Format environment variables as shell assignments."""
    return " ".join(f"{key}={value}" for key, value in setting.items())


def suggest_open_network(settings: Sequence[Mapping[str, str]]) -> str:
    """Return the remedy if no setting of MPI helped; `settings`: those that were tried."""
    text = "let TCP connections through between all hosts, on all ports (firewall, networks of containers)"
    return f"{text}; tried without success: {'; '.join(map(format_shell_variables, settings))}" if settings else text
