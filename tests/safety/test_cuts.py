"""A record of another user's that is cut while it is read ends no command by a signal, and nothing is told of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

READS = """
import os, sys
from weft.cli import main as cli
from weft.trace.mapping import Extent, map_extents
from weft.native import cuts

path, size = sys.argv[1], os.path.getsize(sys.argv[1])

class Command:
    @staticmethod
    def run(args):
        file = os.open(path, os.O_RDONLY)
        mapped = map_extents(file, [Extent(0, size)])
        assert mapped is not None and mapped[-1] == 120
        if sys.argv[2] != "whole":
            os.truncate(path, 4096)
        print(int(mapped[0]), int(mapped[4096:].sum()), flush=True)
        if sys.argv[2] == "fails":
            raise ValueError("over what is no longer there")
        return 0

cli.load_command = lambda name: Command
cli.parse_arguments = lambda arguments: type("Args", (), {"command": "report"})()
sys.argv[1:] = ["report", *sys.argv[2:]]
sys.exit(cli.main())
"""


@pytest.mark.parametrize(("how", "status"), [("whole", 0), ("cut", 4), ("fails", 4)])
def test_what_is_cut_while_it_is_mapped_reads_as_zeros_and_the_command_fails(
    tmp_path: Path, how: str, status: int
) -> None:
    record = tmp_path / "record"
    record.write_bytes(b"x" * 40960)
    done = subprocess.run(
        [sys.executable, "-c", READS, record, how], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status, done.stderr
    assert done.stdout == f"120 {0 if status else 120 * 36864}\n"
    assert ("was cut off while it was read" in done.stderr) is bool(status)
    assert "Traceback" not in done.stderr
