"""What MPICH's ranks leave in /dev/shm where they are ended, and what must stay there."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from weft.launch import shared_memory


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands for /dev/shm."""
    monkeypatch.setattr(shared_memory, "FOLDER", tmp_path)
    monkeypatch.setattr(shared_memory, "PATIENCE", 0.1)
    return tmp_path


@pytest.mark.parametrize("name", ["mpich_shm_1", "mpich_shar_tmpAb3"])
def test_a_segment_that_a_process_has_mapped_stays_and_goes_once_it_is_let_go(name: str, folder: Path) -> None:
    began = time.time() - 1
    path = folder / name
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    shared_memory.remove_leftovers(began)
    assert path.exists()
    mapped.close()
    shared_memory.remove_leftovers(began)
    assert not path.exists()


def test_what_is_older_or_somebody_elses_or_no_segment_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = folder / "target"
    names = {"mpich_shm_1": "older", "of_the_program": "no segment"}
    for name, text in names.items():
        (folder / name).write_text(text)
    (folder / "mpich_shm_2").symlink_to(target)
    target.write_text("behind a link")
    shared_memory.remove_leftovers(time.time() + 5)
    assert (folder / "mpich_shm_1").read_text() == "older"
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    shared_memory.remove_leftovers(0)
    assert {path.name for path in folder.iterdir()} == {*names, "mpich_shm_2", "target"}
    monkeypatch.undo()
    assert target.read_text() == "behind a link"
