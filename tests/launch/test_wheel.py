"""The built wheel on a machine without a compiler."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests_support import Installed

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "bash", "env", "sed", "cat", "grep", "ldd", "uname", "dirname", "basename", "expr", "hostname")


@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_the_demo_runs_from_the_wheel_where_there_is_no_compiler(mpich: Installed, tmp_path: Path) -> None:
    venv = Path(mpich.mpicc).parents[1]
    build = [sys.executable, ROOT / "tools/wheel.py", tmp_path / "dist", venv]
    subprocess.run(build, check=True, timeout=600, cwd=ROOT)
    wheel = max((tmp_path / "dist").glob("*.whl"), key=lambda path: path.stat().st_size)  # the other has no recorders
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True, timeout=120)
    install = [tmp_path / "env/bin/python", "-m", "pip", "install", "--quiet", wheel, "mpich", "mpi4py"]
    subprocess.run(install, check=True, timeout=300)
    (tmp_path / "tools").mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / "tools" / tool).symlink_to(found)
    path = f"{tmp_path / 'env/bin'}:{tmp_path / 'tools'}"
    assert shutil.which("cc", path=path) is None and shutil.which("gcc", path=path) is None
    environment = {**os.environ, "PATH": path, "WEFT_CACHE": str(tmp_path / "cache")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [tmp_path / "env/bin/weft", "demo"], capture_output=True, text=True, timeout=120, cwd=tmp_path,
        env=environment, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[deadlock]" in done.stdout + done.stderr and "nothing found" in done.stdout + done.stderr
    assert "building the recorder" not in done.stdout + done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 15
