"""`weft doctor --hosts`: messages between hosts that are namespaces of this machine, and each way for them to fail."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from launch.hosts import Hosts
from launch.slurm import started
from tests_support import WEFT, Installed, execute
from weft.errors import UsageError
from weft.launch import host_checks
from weft.launch.options import Family

LONGEST = host_checks.START + 2 * host_checks.MESSAGE + 15
"""Seconds for all that is tried."""


def doctor(
    hosts: Hosts, names: str, *launcher: str | Path, env: Mapping[str, str] | None = None
) -> tuple[dict[str, dict[str, Any]], int]:
    """The checks of `weft doctor --hosts NAMES` on host a, by their names, and its status."""
    words = ["--", *launcher] if launcher else []
    setting = ["env", *(f"{key}={value}" for key, value in (env or {}).items())]
    done = hosts.run("a", [*setting, *WEFT, "doctor", "--hosts", names, "--format", "json", *words], timeout=LONGEST)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert told["healthy"] == (done.returncode == 0)
    return {check["name"]: check for check in told["checks"]}, done.returncode


def hydra(mpich: Installed, hosts: Hosts) -> list[str | Path]:
    return [*mpich.mpiexec, "-launcher-exec", hosts.agent]


def hold(hosts: Hosts, at: str, to: str) -> None:
    """Let packets from one host to another get lost without a word, as a firewall does."""
    done = hosts.run(at, ["ip", "neigh", "replace", hosts.address(to), "lladdr", "02:00:00:00:00:99", "dev", "eth0",
                          "nud", "permanent"])  # fmt: skip
    assert done.returncode == 0, done.stderr


def nothing_runs(hosts: Hosts) -> None:
    limit = time.monotonic() + host_checks.MESSAGE + 5
    while any(hosts.processes(name) for name in hosts.names) and time.monotonic() < limit:
        time.sleep(0.2)
    assert [hosts.processes(name) for name in hosts.names] == [[] for _ in hosts.names]


def test_messages_between_hosts_pass(hosts: Hosts, mpich: Installed) -> None:
    checks, status = doctor(hosts, "a,b,c", *hydra(mpich, hosts))
    assert (status, [check["status"] for check in checks.values()]) == (0, ["ok"] * 4)
    assert "reaches this host at 10.77.23.10" in checks["host c"]["detail"]
    assert checks["messages between hosts"]["detail"].startswith("3 hosts in ")
    nothing_runs(hosts)


@pytest.mark.matrix
@pytest.mark.parametrize("of", ["openmpi", pytest.param("debian_openmpi", marks=pytest.mark.matrix)])
def test_with_open_mpi_they_pass_too(hosts: Hosts, of: str, request: pytest.FixtureRequest) -> None:
    installed: Installed = request.getfixturevalue(of)
    env = {"PRTE_MCA_plm_ssh_agent": str(hosts.agent), "OMPI_MCA_plm_rsh_agent": str(hosts.agent)}
    checks, status = doctor(hosts, "b,c", installed.mpiexec[0], env=env)
    assert status == 0, checks
    assert "Open MPI of" in checks["messages between hosts"]["detail"]


def test_what_to_set_is_tried_and_said(hosts: Hosts, mpich: Installed) -> None:
    checks, status = doctor(hosts, "a,b", *hydra(mpich, hosts), env={"UCX_NET_DEVICES": "lo"})
    check = checks["messages between hosts"]
    assert (status, check["status"]) == (1, "failed")
    assert "passes no message between a and b, status" in check["detail"]
    assert "unreachable" in check["detail"]
    assert check["remedy"] == "export MPICH_CH4_NETMOD=ofi: with this setting all messages arrived"
    said = {"UCX_NET_DEVICES": "lo", "MPICH_CH4_NETMOD": "ofi"}
    assert doctor(hosts, "a,b", *hydra(mpich, hosts), env=said)[1] == 0


@pytest.mark.matrix
def test_a_message_that_never_comes_ends_the_trial_and_names_the_hosts(hosts: Hosts, mpich: Installed) -> None:
    hold(hosts, "b", "c")
    hold(hosts, "c", "b")
    begun = time.monotonic()
    checks, status = doctor(hosts, "b,a,c", *hydra(mpich, hosts))
    assert time.monotonic() - begun < LONGEST
    check = checks["messages between hosts"]
    assert (status, check["status"]) == (1, "failed")
    assert f"passes no message between b and c, no end within {host_checks.MESSAGE:.0f} s" in check["detail"]
    assert check["remedy"].startswith("let TCP connections through between all hosts")
    assert "tried without success: MPICH_CH4_NETMOD=ofi;" in check["remedy"]
    nothing_runs(hosts)


@pytest.mark.matrix
def test_a_host_that_cannot_reach_back_is_told(hosts: Hosts, mpich: Installed) -> None:
    env = {"WEFT_ADDRESS": "10.77.23.200"}
    checks, status = doctor(hosts, "a,b", *hydra(mpich, hosts), env=env)
    assert (status, checks["host b"]["status"]) == (0, "warning")
    assert "reaches this host at none of 10.77.23.200" in checks["host b"]["detail"]
    assert "WEFT_ADDRESS=" in checks["host b"]["remedy"]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("name", "path", "told"),
    [
        ("b", None, ("Connection refused", "`ssh b true`")),
        ("nowhere", None, ("resolve host", "`getent hosts nowhere`")),
        ("b", "/nowhere", ("execvp error on file ssh", "install ssh")),
    ],
)
def test_a_host_that_cannot_be_started_on_is_named(
    hosts: Hosts, mpich: Installed, name: str, path: str | None, told: tuple[str, str]
) -> None:
    checks, status = doctor(hosts, f"a,{name}", *mpich.mpiexec, env={"PATH": path or os.environ["PATH"]})
    assert status == 1
    assert checks["host a"]["status"] == "ok"
    check = checks[f"host {name}"]
    assert check["status"] == "failed"
    assert told[0] in check["detail"].replace("hostname", "host")
    assert told[1] in check["remedy"]
    assert checks["messages between hosts"]["detail"].startswith("not tried")


def test_a_host_without_weft_is_told_where_it_has_to_lie(hosts: Hosts, mpich: Installed) -> None:
    folder = Path(host_checks.__file__).parents[1]
    done = hosts.run("b", ["mount", "-t", "tmpfs", "none", folder])
    assert done.returncode == 0, done.stderr
    checks, status = doctor(hosts, "a,b", *hydra(mpich, hosts))
    assert (status, checks["host b"]["status"]) == (1, "failed")
    assert "No module named" in checks["host b"]["detail"]
    assert checks["host b"]["remedy"].startswith(f"Weft ({sys.executable}) and MPI (")


@pytest.mark.matrix
def test_an_agent_that_hangs_ends_within_the_limit(hosts: Hosts, mpich: Installed, tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\nexec sleep 300\n")
    agent.chmod(0o755)
    checks, status = doctor(hosts, "a,b", *mpich.mpiexec, "-launcher-exec", agent)
    assert status == 1
    assert f"starts nothing there, no end within {host_checks.START:.0f} s" in checks["host b"]["detail"]
    assert "`ssh b true` must return at once" in checks["host b"]["remedy"]
    nothing_runs(hosts)


@pytest.mark.matrix
def test_under_slurm_srun_is_tried_with_the_mpi_of_the_program(
    program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for slurm in started(tmp_path_factory.mktemp("slurm")):
        for plugin, status in (("pmi2", 0), ("none", 1)):
            line = ["srun", "-N1", "-n", "8", f"--mpi={plugin}", program("step"), "good"]
            command = [*WEFT, "doctor", "--hosts", "n1,n3", "--format", "json", "--", *line]
            done = execute(command, env=slurm.environment, timeout=LONGEST)
            checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
            assert done.returncode == status, done.stdout
            assert checks["hosts"]["detail"].startswith("some of the hosts are the same machine")
        assert checks["messages between hosts"]["remedy"] == "`-- srun --mpi=pmi2`"
        assert slurm.quiet()


def test_what_says_where_ranks_are_is_left_out() -> None:
    words = ["-n", "4", "-launcher-exec", "x", "-hosts", "c,d", "-genv", "A", "1", "-ppn", "2"]
    assert host_checks.drop_placement_options(Family.HYDRA, words) == ["-launcher-exec", "x", "-genv", "A", "1"]
    assert host_checks.drop_placement_options(Family.SRUN, ["-N2", "-n4", "--mpi=pmi2", "-w", "n1", "--nodes=3"]) == [
        "--mpi=pmi2"
    ]
    assert host_checks.drop_placement_options(Family.OPENMPI, ["--host", "a", "--mca", "btl", "tcp"]) == [
        "--mca",
        "btl",
        "tcp",
    ]


@pytest.mark.parametrize("names", ["a", "a,a", "a,", ""])
def test_one_host_is_not_enough(names: str) -> None:
    with pytest.raises(UsageError, match="two hosts or more"):
        host_checks.check_hosts(names.split(","), [])


def test_what_is_no_launcher_is_refused() -> None:
    with pytest.raises(UsageError, match="'python' is not a launcher"):
        host_checks.check_hosts(["a", "b"], ["python"])
