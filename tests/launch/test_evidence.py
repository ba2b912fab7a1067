"""What the machine knows of a job's end is read from its own files."""

from pathlib import Path

import pytest

from weft.launch import evidence


def test_counters_are_found_by_name_and_missing_ones_are_none(tmp_path: Path) -> None:
    file = tmp_path / "memory.events"
    file.write_text("low 0\noom 3\noom_kill 2\n")
    assert evidence.read_counter(file, "oom_kill") == 2
    assert evidence.read_counter(file, "oom_group_kill") is None
    assert evidence.read_counter(tmp_path / "none", "oom_kill") is None


def test_the_innermost_group_that_counts_is_asked_and_the_least_limit_holds(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "memory.events").write_text("oom_kill 5\n")
    (tmp_path / "a" / "memory.max").write_text("1000000\n")
    (inner / "memory.max").write_text("max\n")
    assert evidence.count_memory_kills([inner, tmp_path / "a"])["group"] == 5
    assert evidence.read_memory_limit([inner, tmp_path / "a"]) == 1000000


def test_only_kills_of_the_run_itself_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.events").write_text("oom_kill 5\n")
    monkeypatch.setattr(evidence, "find_memory_cgroups", lambda: [tmp_path])
    before = evidence.Evidence()
    assert before.facts({})["memory_kills"] == 0
    (tmp_path / "memory.events").write_text("oom_kill 6\n")
    facts = before.facts({"SLURM_JOB_ID": "77", "SLURM_JOB_END_TIME": "1700000000"})
    assert (facts["memory_kills"], facts["of"]) == (1, "group")
    assert facts["batch"] == {"system": "slurm", "job": "77", "end": 1700000000}
