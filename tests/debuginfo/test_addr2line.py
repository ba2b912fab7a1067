"""Lines that addr2line told once are kept by build id."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from machine import need
from weft.debuginfo import addr2line
from weft.debuginfo.elf import read_build_id

SOURCE = "int twice(int x)\n{\n    return 2 * x;\n}\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library with lines, and an empty cache."""
    compiler = need("cc", "addr2line")
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "twice.c").write_text(SOURCE)
    built = tmp_path / "twice.so"
    flags = ["-g", "-shared", "-fPIC", "-Wl,--build-id"]
    subprocess.run([compiler, *flags, "-o", built, "twice.c"], cwd=tmp_path, check=True, timeout=60)
    return built


def place(module: Path) -> int:
    """An address within the function."""
    told = subprocess.run(["nm", module], capture_output=True, text=True, check=True, timeout=60).stdout
    return int(next(line.split()[0] for line in told.splitlines() if line.endswith(" T twice")), 16) + 2


def forbidden(*arguments: object, **options: object) -> None:
    pytest.fail("addr2line was asked again")


def test_an_address_is_asked_for_once(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of, at, problems = read_build_id(module), place(module), list[str]()
    first = addr2line.lines_of(str(module), of, [at, 1], problems)
    assert first[str(at)][0][1:] == (2, "twice")
    assert set(first) == {str(at)}  # nothing is known of address 1, and that is kept too
    monkeypatch.setattr(addr2line.subprocess, "run", forbidden)
    again = addr2line.lines_of(str(module), of, [at, 1], problems)
    assert [list(frame) for frame in again[str(at)]] == [list(frame) for frame in first[str(at)]]
    assert problems == []


def test_a_module_that_changed_is_asked_again(module: Path) -> None:
    of, at, problems = read_build_id(module), place(module), list[str]()
    addr2line.lines_of(str(module), of, [at], problems)
    module.write_bytes(b"\x7fELF damaged")
    assert addr2line.lines_of(str(module), of, [at], problems) == {}


def test_an_answer_that_failed_is_not_kept(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of, at, problems = read_build_id(module), place(module), list[str]()
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "")
        assert addr2line.lines_of(str(module), of, [at], problems) == {}
    assert "addr2line is missing" in problems[0]
    assert addr2line.lines_of(str(module), of, [at], problems)
