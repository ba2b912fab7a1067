"""What is published says one version, and a source distribution is whole."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

import weft

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_the_same_wherever_it_stands() -> None:
    assert PROJECT["version"] == weft.__version__


def test_no_address_of_the_project_is_of_a_private_host() -> None:
    assert PROJECT["urls"]
    assert all(url.startswith("https://pypi.org/project/weft-debugger/") for url in PROJECT["urls"].values())


@pytest.mark.matrix
@pytest.mark.timeout(200)
def test_a_source_distribution_has_docs_tests_and_headers_and_nothing_that_was_built(tmp_path: Path) -> None:
    build = [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, timeout=180, capture_output=True)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = [
        "docs/releasing.md", "tests/native/test_bridge.py", "tests/conftest.py", "tools/wheel.py", "Makefile",
        "LICENSE", "src/weft/py.typed", "src/weft/native/format.h", "src/weft/native/kernel/view.h",
        "src/weft/recorder/shim.h",
        "src/weft/native/generate.py", "src/weft/native/headers/__init__.py", "src/weft/dataparallel/native/check.h",
        "src/weft/tasks/native/table.h", "src/weft/web/main.html", "src/weft/view/sent.d.ts", "mkdocs.yml",
        "jsconfig.json", "tools/page/package-lock.json", "editors/vscode/extension.js",
    ]  # fmt: skip
    assert [name for name in wanted if name not in names] == []
    built = [name for name in names if name.endswith((".so", ".pyc", ".o"))]
    assert built == [] and "src/weft/native/headers/format.py" not in names


@pytest.mark.timeout(200)
def test_without_a_compiler_the_build_ends_with_one_line(tmp_path: Path) -> None:
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--force"]
    folders = ["--build-temp", str(tmp_path / "temp"), "--build-lib", str(tmp_path / "lib")]
    done = subprocess.run(
        ["env", "CC=/no/such/cc", *build, *folders], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("weft-debugger is built with a C compiler (apt-get install gcc, or set CC), and it failed: ")
