"""Where an export goes, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from tests_support import ROOT, Installed, execute
from weft.cli.main import main
from weft.errors import UsageError
from weft.export import FORMATS, default_path, write
from weft.export.output import stage_output
from weft.trace import Level, Trace
from weft.trace.builder import Builder

Weft = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("to", sorted(FORMATS))
def test_what_exists_is_never_overwritten(to: str, hung: Trace, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.write_text("precious")
    with pytest.raises(UsageError, match=r"mine exists: delete it, or name another place with -o"):
        write(hung, to, out)
    assert out.read_text() == "precious" and list(tmp_path.iterdir()) == [out]


def test_an_export_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), stage_output(tmp_path / "out") as path:
        path.write_text("half")
        _ = 1 // 0
    assert list(tmp_path.iterdir()) == []


def test_what_came_to_be_meanwhile_stays(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="was created meanwhile"), stage_output(tmp_path / "out") as path:
        path.write_text("new")
        (tmp_path / "out").write_text("theirs")
    assert (tmp_path / "out").read_text() == "theirs" and len(list(tmp_path.iterdir())) == 1


def test_a_place_that_cannot_be_written_is_one_line(weft_command: Weft, hung: Trace) -> None:
    done = weft_command("export", hung.path, "--format", "perfetto", "--output", "/proc/nowhere/x")
    assert done.returncode == 4
    assert done.stderr == "weft: /proc/nowhere/x cannot be written: No such file or directory\n"


@pytest.mark.parametrize("needs", [("otf2", "otf2"), ("parquet", "pyarrow")])
def test_a_missing_package_is_named_with_the_remedy(
    needs: tuple[str, str],
    hung: Trace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    to, package = needs
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["export", str(hung.path), "--format", to, "--output", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"weft: an export to {to} needs the package {package}")
    assert said.endswith("pip install 'weft-debugger[export]'\n") and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_calls_is_refused(tmp_path: Path) -> None:
    b = Builder(ranks=1, level=Level.OUTCOMES)
    b.ranks[0].append_outcomes([1])
    with pytest.raises(UsageError, match="level outcomes, which holds no calls"):
        write(b.open(), "perfetto", tmp_path / "out")


@pytest.mark.parametrize("to", sorted(FORMATS))
def test_a_run_without_a_single_call_is_an_empty_export(to: str, tmp_path: Path) -> None:
    b = Builder(ranks=2)
    told = write(b.open(), to, tmp_path / "out")
    assert told[0].number == 0 and (tmp_path / "out").exists()


@pytest.mark.parametrize("to", sorted(FORMATS))
def test_a_format_is_found_by_name_and_told(to: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export", "--help"])
    assert re.search(rf"^weft export RUN --format {to} +\S", capsys.readouterr().out, re.M)
    page = (ROOT / "docs" / "commands" / "export.md").read_text()
    assert f"--format {to}" in page, f"docs/commands/export.md does not have --format {to}"
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["export"]
    missing = set(FORMATS[to].needs) - {re.split(r"[^\w-]", one)[0] for one in extra}
    assert not missing, f"pip install 'weft-debugger[export]' does not bring {missing}"


def test_the_formats_of_the_documentation_are_there() -> None:
    page = (ROOT / "docs" / "commands" / "export.md").read_text()
    assert set(re.findall(r"--format (\w+)", page)) == set(FORMATS)


def test_without_out_it_goes_to_the_current_directory(weft_command: Weft, hung: Trace, tmp_path: Path) -> None:
    done = weft_command("export", hung.path, "--format", "perfetto")
    assert done.returncode == 0
    assert (tmp_path / default_path(hung, "perfetto")).is_file()
    assert done.stdout.endswith("4 slices, 1 flow, 2 unfinished slices\n")
    assert "rank" in done.stderr  # what could not be read is said


@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_a_real_run_that_hung_is_exported(mpich: Installed, weft_command: Weft) -> None:
    program = ROOT / "src" / "weft" / "examples" / "heat.py"
    words = [*mpich.mpiexec, "-n", "3", str(mpich.python), program]
    weft_command("run", "--out", "heat", "--", *words, env=mpich.environment, timeout=250)
    said = {to: weft_command("export", "heat", "--format", to).stdout for to in FORMATS}
    assert "4 messages, 3 open calls" in said["otf2"]
    assert "2 flows, 3 unfinished slices" in said["perfetto"]
    assert "4 messages, 3 unmatched receives, 3 ranks" in said["parquet"]


FULL = """
import resource, sys
from weft.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize("to", sorted(FORMATS))
def test_a_full_disk_is_one_line_and_leaves_nothing_behind(to: str, tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    for n in range(4000):
        # Numbers that do not compress.
        b.ranks[0].send(1, tag=n * 7919 % 10007, count=n * 104729 % 99991, buffer=n * 2654435761 % 2**40)
    b.write()
    words = ["export", tmp_path / "run", "--format", to, "--output", tmp_path / "out"]
    done = execute([sys.executable, "-c", FULL, *words])
    assert done.returncode == 4
    assert "annot write" in done.stderr or "cannot be written" in done.stderr
    assert "oo large" in done.stderr and done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


LIMITED = """
import resource, sys
from pathlib import Path
import weft, weft.export
for module in sys.argv[4].split(","):
    __import__(module)
status = Path("/proc/self/status").read_text()
used = int(next(line for line in status.splitlines() if line.startswith("VmData")).split()[1]) * 1024
limit = used + int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
for many, noun in weft.export.write(weft.open(sys.argv[1]), sys.argv[2], Path("out-" + sys.argv[2])):
    print(many, noun)
"""

ALLOWED = 96 << 20
"""Bytes of memory that an export may take, beyond its libraries."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 1.6 million calls, larger than what an export may take."""
    path = tmp_path_factory.mktemp("large") / "run"
    made = execute([
        sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import traces; from pathlib import Path;"
        "traces.write(Path(sys.argv[2]), 'halo', 16, 1_600_000)", ROOT / "benchmarks", path,
    ])  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert sum(file.stat().st_size for file in (path / "ranks").iterdir()) > 1.2 * ALLOWED
    return path


# One heap for all threads: how many a busy machine makes is its own affair.
MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("to", sorted(FORMATS))
def test_a_run_larger_than_the_memory_goes_through(to: str, large: Path, tmp_path: Path) -> None:
    # Counted is memory that must stay; the record and the columns of the match lie in files.
    modules = f"weft.export.{to}.writing,weft.match"
    command = [sys.executable, "-c", LIMITED, large, to, str(ALLOWED), modules]
    done = execute(command, cwd=tmp_path, timeout=110, env=MEMORY)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) == weft.open(large).event_count > 1_500_000


@pytest.mark.slow
def test_the_limit_of_that_test_is_one(large: Path, tmp_path: Path) -> None:
    greedy = LIMITED.replace(
        "for many, noun in",
        "x = weft.match.match_operations(weft.open(sys.argv[1])); y = bytearray(96 << 20)\nfor many, noun in",
    )
    command = [sys.executable, "-c", greedy, large, "perfetto", str(ALLOWED), "weft.match"]
    done = execute(command, cwd=tmp_path)
    assert done.returncode != 0 and "MemoryError" in done.stderr
