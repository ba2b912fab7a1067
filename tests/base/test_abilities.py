"""What a machine can do, asked on machines that cannot (tools/machines.py), and what Weft says of it."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from machine import ability, need
from tests_support import ROOT, WEFT, Installed, execute
from weft.base.abilities import Ability
from weft.launch import checkup
from weft.launch.checkup import Installation, SystemCheck

ASK = """
import json
from weft.base.abilities import ABILITIES
print(json.dumps({name: [told.lack, told.remedy] for name, ask in ABILITIES.items() for told in [ask()]}))
"""
REMOUNT = "as root: mount -o remount,size=1G /dev/shm; for a container --shm-size=1g"
LACKS = {
    "user": {},
    "no-gdb": {
        "gdb": ("gdb is not installed", "apt install gdb"),
        "calls by gdb": ("gdb is not installed", "apt install gdb"),
    },
    "gdb-cannot-call": {"calls by gdb": ("Couldn't write extended state status: Bad address", "gdb 14")},
    "no-ptrace": {
        "gdb": ("attaches to no process: the system forbids it", "--cap-add=SYS_PTRACE"),
        "calls by gdb": ("attaches to no process", "--cap-add=SYS_PTRACE"),
        "ptrace": ("the system forbids it (ptrace: Operation not permitted)", "--cap-add=SYS_PTRACE"),
    },
    "small-shm": {"shared memory": ("/dev/shm has 64 KiB free", REMOUNT)},
    "no-shm": {"shared memory": ("/dev/shm does not exist", "mount -t tmpfs tmpfs /dev/shm")},
}

SLOW = {"user": pytest.mark.matrix}
"""Its checkout is copied."""


def on(machine: str, *command: str | Path) -> str:
    """What a command prints on a poorer machine; the test is skipped where that cannot be made."""
    done = execute([sys.executable, ROOT / "tools" / "machines.py", "-m", machine, "--", *command])
    if ": not made: " in done.stderr:
        pytest.skip(done.stderr.strip())
    return done.stdout + done.stderr


@pytest.mark.cases(2)
@pytest.mark.parametrize("machine", [pytest.param(name, marks=SLOW.get(name, ())) for name in LACKS])
def test_a_poorer_machine_lacks_what_it_says_and_nothing_else(machine: str) -> None:
    if any(ability(name).lack for name in LACKS[machine]):
        pytest.skip("this machine lacks it too")
    told = json.loads(on(machine, sys.executable, "-c", ASK).splitlines()[-1])
    for name, (lack, remedy) in told.items():
        words, does = LACKS[machine].get(name, (ability(name).lack, ability(name).remedy))
        assert words in lack and bool(words) == bool(lack), name
        assert does in remedy, name


def test_doctor_tells_each_ability_and_a_reason_that_several_have_once(monkeypatch: pytest.MonkeyPatch) -> None:
    forbidden = Ability("", "the system forbids it", "ask for it")
    told = {
        "one": Ability("a fact"),
        "two": forbidden,
        "three": forbidden,
        "shared memory": Ability("", "none", "mount"),
    }
    monkeypatch.setattr(checkup, "ABILITIES", {name: partial(told.get, name) for name in told})
    found = Installation("/lib/libmpi.so", "MPICH", "mpich")
    assert checkup.check_abilities([found]) == [
        SystemCheck("one", "ok", "a fact"),
        SystemCheck("two", "warning", "the system forbids it", "ask for it"),
        SystemCheck("shared memory", "failed", "none", "mount"),  # no rank of MPICH starts
    ]
    assert checkup.check_abilities([])[2].status == "warning"


def test_who_may_not_look_into_a_process_reads_why_and_the_remedy(tmp_path: Path) -> None:
    program = "import sys, time; print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            told = on("no-ptrace", *WEFT, "tasks", "--pid", str(process.pid))
        finally:
            process.kill()
    assert "cannot be inspected: the system forbids it (ptrace: Operation not permitted); in a container" in told
    assert "yama" not in told


def test_without_gdb_a_native_program_is_not_begun_and_what_is_missing_is_named(tmp_path: Path) -> None:
    need("gcc", "OMPT")
    (tmp_path / "p.c").write_text("int main(void) {\n#pragma omp parallel\n#pragma omp task\n    ;\n}\n")
    assert execute(["gcc", "-g", "-fopenmp", tmp_path / "p.c", "-o", tmp_path / "p"]).returncode == 0
    told = on("no-gdb", *WEFT, "tasks", tmp_path / "p")
    assert "need gdb, which is not installed" in told and "apt install gdb" in told
    assert "pipe" not in told


def test_a_crash_for_want_of_shared_memory_is_told_with_the_remedy(mpich: Installed, tmp_path: Path) -> None:
    program = "from mpi4py import MPI; MPI.COMM_WORLD.barrier()"
    command = [*WEFT, "run", "--out", tmp_path / "run", "-n", "2", "--", str(mpich.python), "-c", program]
    told = on("small-shm", *command)
    assert "weft: the program crashed" in told
    assert "weft: the cause may be too little shared memory: /dev/shm has " in told
    assert REMOUNT in told
    # and with room the same program is silent
    done = execute([*WEFT, "run", "--out", tmp_path / "other", *command[len(WEFT) + 3 :]])
    assert done.returncode == 0
    assert "shared memory" not in done.stderr
