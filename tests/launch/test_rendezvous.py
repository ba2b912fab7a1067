"""Tasks of a step on hosts without a common directory find who listens, and believe nobody else."""

from __future__ import annotations

import os
import socket
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from weft.launch.job_step import JobStep
from weft.launch.local import rendezvous
from weft.launch.local.listener_address import ListenerAddress
from weft.launch.rundir import RunDirectory

PLACE = ListenerAddress("prog-1.0-ab", ["10.0.0.1"], 4711, "00" * 32)
MUNGE = "#!/bin/sh\nexec cat\n"
UNMUNGE = "#!/bin/sh\nprintf 'STATUS:          Success (0)\\nUID:             {uid}\\n\\n'\nexec cat\n"


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobStep:
    """A step whose rank 0 is here, with a munge that seals nothing."""
    munge(tmp_path / "bin", os.geteuid())
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "localhost")
    monkeypatch.setenv("SLURM_STEP_NUM_NODES", "2")
    monkeypatch.setattr(rendezvous, "PATIENCE", 1.0)
    monkeypatch.setattr(rendezvous, "SEEN", 0.2)
    monkeypatch.setattr(rendezvous, "GREETING", 0.5)
    return JobStep("slurm", f"{os.getpid()}.{os.urandom(3).hex()}", 1, 2, True)


def munge(folder: Path, uid: int) -> None:
    """Commands in the place of munge's, which say that this user has sealed what they are given."""
    folder.mkdir(exist_ok=True)
    for name, text in (("munge", MUNGE), ("unmunge", UNMUNGE.format(uid=uid))):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The step's folders of two hosts."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    return tmp_path / "a", tmp_path / "b"


def test_another_directory_gives_the_place_where_the_hosts_meet(step: JobStep, tmp_path: Path) -> None:
    of_a, of_b = folders(tmp_path)
    answering = rendezvous.RendezvousServer(step, of_a)
    answering.note_run_creation()
    answering.publish_address(PLACE)
    assert rendezvous.is_possible(step)
    assert rendezvous.find_listener(step, of_b) == PLACE
    assert [*of_b.iterdir()] == []


def test_one_directory_gives_none_also_before_the_run_is_known(step: JobStep, tmp_path: Path) -> None:
    folder, _ = folders(tmp_path)
    rendezvous.RendezvousServer(step, folder)
    assert rendezvous.find_listener(step, folder) is None
    assert [*folder.iterdir()] == []


def test_what_another_user_has_sealed_is_not_believed(step: JobStep, tmp_path: Path) -> None:
    of_a, of_b = folders(tmp_path)
    answering = rendezvous.RendezvousServer(step, of_a)
    answering.note_run_creation()
    answering.publish_address(PLACE)
    munge(tmp_path / "bin", os.geteuid() + 1)
    assert rendezvous.find_listener(step, of_b) is None


@pytest.mark.parametrize("said", [b"", b"[]", b'{"name": 1}', b"\xff\xfe", b'{"name": "x", "more": 1}'])
def test_what_is_no_place_is_not_believed(step: JobStep, said: bytes) -> None:
    assert rendezvous.unseal_address(step, said) is None
    assert rendezvous.unseal_address(step, b'{"step": "%s", "place": %s}' % (step.name.encode(), said or b'""')) is None


def test_what_is_sealed_for_another_step_is_not_believed(step: JobStep) -> None:
    """Anybody may ask for the seal of one step, and hand it to the hosts of another one of the same user."""
    assert rendezvous.unseal_address(step, rendezvous.seal_address(step, PLACE)) == PLACE
    assert rendezvous.unseal_address(step, rendezvous.seal_address(replace(step, name="1.1"), PLACE)) is None


def test_a_port_that_another_program_has_is_passed_over(step: JobStep, tmp_path: Path) -> None:
    of_a, of_b = folders(tmp_path)
    with socket.create_server(("", rendezvous.list_step_ports(step)[0])):
        answering = rendezvous.RendezvousServer(step, of_a)
        answering.note_run_creation()
        answering.publish_address(PLACE)
        assert rendezvous.find_listener(step, of_b) == PLACE


@pytest.mark.parametrize("asked", [b"../../etc/passwd\n", b"seen-0123456789abcdef/..\n", b"\n"])
def test_only_names_of_its_own_are_looked_for(step: JobStep, tmp_path: Path, asked: bytes) -> None:
    answering = rendezvous.RendezvousServer(step, tmp_path)
    answering.note_run_creation()
    answering.publish_address(PLACE)
    with socket.create_connection(("localhost", rendezvous.list_step_ports(step)[0]), 5) as one:
        assert one.recv(100) == rendezvous.MAGIC
        one.sendall(asked)
        assert one.recv(100) == b""


@pytest.mark.parametrize(
    ("nodes", "name"), [("localhost,b", "localhost"), ("n[007-012,20]", "n007"), ("n3", "n3"), ("", None)]
)
def test_rank_0_is_on_the_first_node(nodes: str, name: str | None) -> None:
    assert next(rendezvous.find_first_host({"SLURM_STEP_NODELIST": nodes}), None) == name
    assert next(rendezvous.find_first_host({"SLURM_STEP_NODELIST": nodes, "WEFT_ADDRESS": "x,y"})) == "x"


def test_what_is_written_down_is_read_by_its_user_alone(tmp_path: Path) -> None:
    (tmp_path / "step").mkdir()
    PLACE.write(RunDirectory(tmp_path, {}))
    assert (tmp_path / "step" / "hosts").stat().st_mode & 0o777 == 0o600
    assert asdict(ListenerAddress.read_from(tmp_path / "step", tmp_path)) == asdict(PLACE)
