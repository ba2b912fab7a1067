"""What the README says of installing Weft works as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests_support import execute

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def the_line() -> str:
    """The README's line that installs Weft."""
    (line,) = re.findall(r"^(python -m pip install .*)$", README, re.MULTILINE)
    return str(line)


def test_the_readme_names_no_package_that_an_index_would_have_to_have() -> None:
    lines = [line for line in README.splitlines() if re.match(r"\S*pip install .*weft-debugger", line)]
    assert not lines, "no index has it before the first release"
    assert re.search(r" '?\.(\[|'|$)", the_line())


@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_the_readmes_line_installs_a_weft_that_records(tmp_path: Path) -> None:
    clone, empty = tmp_path / "clone", tmp_path / "empty"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True, timeout=60)
    subprocess.run([sys.executable, "-m", "venv", empty], check=True, timeout=120)
    path = f"{empty / 'bin'}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "PYTHONPATH": "", "WEFT_CACHE": str(tmp_path / "cache")}
    installed = execute(["bash", "-c", the_line()], cwd=clone, timeout=600, env=own)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    done = execute(["weft", "demo"], cwd=tmp_path, timeout=200, env=own)
    assert done.returncode == 0 and "[deadlock]" in done.stdout, done.stdout + done.stderr
