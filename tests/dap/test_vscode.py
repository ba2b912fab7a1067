"""VS Code debugs 4 ranks of mpi4py, end to end: a breakpoint, variables, a step back, findings, the run's picture."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dap.conftest import PROGRAMS
from dap.vscode import Code
from machine import browser
from tests_support import WEFT, Installed, execute

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1500)]


@pytest.fixture
def code(mpich: Installed, tmp_path: Path) -> Iterator[Code]:
    """The editor on a folder with a program, its run, and a launch configuration."""
    folder = tmp_path / "gather"
    (folder / ".vscode").mkdir(parents=True)
    shutil.copy(PROGRAMS / "gather.py", folder)
    done = execute([*WEFT, "run", "-n", "4", "--", str(mpich.python), "gather.py"], timeout=200, cwd=folder)
    assert done.returncode == 0, done.stderr
    weft = {"weft.command": str(Path(sys.executable).with_name("weft"))}
    launch = {"type": "weft", "request": "launch", "name": "Weft: the newest run", "cwd": "${workspaceFolder}"}
    (folder / ".vscode" / "settings.json").write_text(json.dumps(weft))
    (folder / ".vscode" / "launch.json").write_text(json.dumps({"version": "0.2.0", "configurations": [launch]}))
    driven = browser("--window-size=1440,900")
    try:
        opened = Code(driven, folder, tmp_path / "home")
        yield opened
        opened.close()
    finally:
        driven.quit()


def test_vs_code_stops_all_ranks_shows_one_goes_back_and_follows_a_finding(code: Code) -> None:
    from selenium.webdriver.common.keys import Keys

    code.click(".explorer-folders-view .monaco-list-row", "gather.py", double=True)
    code.shows(".view-lines", "comm.rank")
    code.keys(Keys.CONTROL, "g")
    code.keys("12")
    code.keys(Keys.ENTER)
    code.keys(Keys.F9)
    code.keys(Keys.F5)
    # All ranks stand at the line.
    code.shows(".debug-call-stack", *(f"rank {rank} · gather.py:12 in work" for rank in range(4)))
    assert "PAUSED ON BREAKPOINT" in code.text(".debug-call-stack").upper()

    # Rank 2 has 3 of its own and 2 of its neighbour.
    time.sleep(5)  # the workbench is about to choose the rank that stopped first
    code.click(".debug-call-stack .monaco-list-row", "rank 2")
    code.keys(Keys.ARROW_RIGHT)
    code.until(lambda: code.text(".debug-call-stack").count("<module>") == 2, "the stack of rank 2 is shown")
    code.keys(Keys.ARROW_DOWN)
    code.keys(Keys.ENTER)
    code.shows(".debug-variables", "part =\n3", "left =\n2", "total =\n5")
    code.keep("rank-2")
    # A step back: what the line computed is not there yet.
    code.click(".debug-toolbar .codicon-debug-step-back")
    code.shows(".debug-call-stack", "rank 2 · gather.py:11 in work")
    code.shows(".debug-variables", "left =\n2")
    assert "total" not in code.text(".debug-variables")
    code.keep("back")
    # A finding: a line in the Problems panel that leads to its place.
    code.keys(Keys.CONTROL, Keys.SHIFT, "m")
    code.shows(".markers-panel", "receives from any source at gather.py:21", "message-race")
    code.click(".markers-panel .monaco-list-row", "receives from any source", double=True)
    code.shows(".statusbar", "Ln 21")
    code.keep("problems")

    # In the list of findings, an entry takes the ranks to its moment.
    code.keys(Keys.CONTROL, Keys.SHIFT, "d")
    code.click(".pane-header", "WEFT: FINDINGS")
    code.click(".tree-explorer-viewlet-tree-view .monaco-list-row", "receives from any source")
    code.shows(".debug-call-stack", "rank 0 · recv(", "rank 2 · send(dest=0, tag=7)")  # past the breakpoint
    code.keep("finding")
    # The run as a picture, beside the source.
    code.keys(Keys.F1)
    code.keys("Weft: Show the Run")
    code.keys(Keys.ENTER)
    with code.panel() as page:
        code.until(lambda: page("return document.querySelectorAll('canvas').length"), "the panel has the picture")
        code.until(lambda: "Findings (" in page("return document.body.innerText"), "the panel has the finding")
        assert page("return innerWidth") > 200
    assert "comm.recv(tag=7)" in code.text(".view-lines")  # the source is there, too
    code.keep("view")
