"""What MPICH's ranks leave in /dev/shm where they are ended, and what must stay there."""

from __future__ import annotations

import mmap
from pathlib import Path

from weft.launch import segments


def test_a_segment_that_a_process_has_mapped_stays_and_goes_once_it_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "mpich_shm_1"
    path.write_bytes(bytes(4096))
    seen = {path: path.stat().st_ino}
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    segments.remove(seen)
    assert path.exists()
    mapped.close()
    segments.remove(seen)
    assert not path.exists()


def test_another_file_of_that_name_stays(tmp_path: Path) -> None:
    path = tmp_path / "mpich_shm_1"
    path.write_bytes(b"mine")
    segments.remove({path: path.stat().st_ino + 1, tmp_path / "gone": 1})
    assert path.read_bytes() == b"mine"
