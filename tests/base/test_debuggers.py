"""The gdb that is used: the system's, or the wheel's where that is missing or cannot call."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.base import debuggers


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A system's gdb 13 and a wheel's gdb 18."""
    for name, version in (("gdb", "(Debian 13.1-3) 13.1"), ("wheel", "(GDB) 18.1")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho 'GNU gdb {version}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(debuggers, "_find_wheel_gdb", lambda: str(tmp_path / "wheel"))
    debuggers._find_missing_ability.cache_clear()
    return str(tmp_path / "gdb"), str(tmp_path / "wheel")


def test_the_systems_gdb_is_preferred_where_it_can_call(two: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debuggers, "_has_amx", lambda: False)
    assert debuggers.find_gdb() == two[0]


def test_the_wheels_gdb_is_used_where_the_systems_cannot_call(
    two: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debuggers, "_has_amx", lambda: True)
    assert debuggers.find_gdb() == two[1]
    assert len(debuggers.describe_unused_gdbs()) == 1
    assert f"not {two[0]}: gdb 13 cannot call functions" in debuggers.describe_unused_gdbs()[0]
    monkeypatch.setattr(debuggers, "_find_wheel_gdb", lambda: None)
    assert debuggers.find_gdb() == two[0]  # better than none: it can do all else
    assert debuggers.describe_unused_gdbs() == []


def test_the_wheels_gdb_is_used_where_the_system_has_none(
    two: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert debuggers.find_gdb() == two[1]
