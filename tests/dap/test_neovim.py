"""Neovim with nvim-dap debugs 4 ranks of mpi4py, end to end: the editor's own client, nothing of ours between."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dap.conftest import PROGRAMS, Recorded
from tests_support import WEFT, execute

pytestmark = pytest.mark.matrix
NVIM_DAP = "https://github.com/mfussenegger/nvim-dap"
VERSION = "7d4657f7959013bb2c36886a556e2c50f5ed64c6"
"""0.4.0, the last one for the Neovim 0.7 of Debian 12."""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """nvim-dap: the folder that WEFT_TEST_NVIM_DAP names, or a checkout."""
    if given := os.environ.get("WEFT_TEST_NVIM_DAP"):
        return Path(given)
    folder = tmp_path / "nvim-dap"
    for words in (["clone", "--quiet", NVIM_DAP, str(folder)], ["-C", str(folder), "checkout", "--quiet", VERSION]):
        try:
            done = subprocess.run(["git", *words], capture_output=True, timeout=100, check=False)
        except (OSError, subprocess.TimeoutExpired):
            pytest.skip("nvim-dap cannot be fetched here: set WEFT_TEST_NVIM_DAP")
        if done.returncode:
            pytest.skip("nvim-dap cannot be fetched here: set WEFT_TEST_NVIM_DAP")
    return folder


@pytest.mark.needs("nvim")
def test_neovim_stops_all_ranks_shows_one_goes_back_and_follows_a_finding(
    plugin: Path, recorded: Callable[[Path], Recorded]
) -> None:
    run = recorded(PROGRAMS / "gather.py")
    given = json.dumps([str(plugin), [*WEFT, "dap"], str(run.run), str(run.source), run.here])
    script = Path(__file__).with_name("neovim.lua")
    done = execute(["nvim", "--headless", "-u", "NONE", "-S", script], env={"WEFT_NEOVIM": given}, timeout=110)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0 and len(rows) == 4, done.stdout + done.stderr
    stopped, stepped, back, found = rows
    assert stopped["stop"] == "breakpoint" and stopped["cursor"] == run.here
    assert stopped["threads"] == [f"rank {r} · gather.py:{run.here} in work" for r in range(4)]
    assert stopped["rank2"]["name"] == "work" and stopped["rank2"]["values"]["total"] == "5"
    assert stepped["rank2"]["line"] == run.here + 1 and stepped["rank2"]["values"]["total"] == "50"
    assert back["rank2"]["line"] == back["cursor"] == run.here and back["rank2"]["values"]["total"] == "5"
    assert found["stop"] == "goto" and found["finding"] == "message-race"
    assert found["threads"][0] == "rank 0 · recv(source=ANY_SOURCE, tag=7)"
