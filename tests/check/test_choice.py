"""Which findings are told, and which let a check fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests_support import WEFT, execute
from weft.check import Checked
from weft.check.choice import Choice, choose, fails, key, verify
from weft.errors import UsageError
from weft.findings import Finding, Site

PROGRAM = """\
#pragma dvm array distribute[block]
double a[9], b[9];
static void left(void)
{
    #pragma dvm parallel([i] on a[i])
    for (int i = 1; i < 9; i++)
        a[i] = b[i - 1];
}
int main(void)
{
    #pragma dvm parallel([i] on b[i])
    for (int i = 0; i < 9; i++)
        b[i] = a[i] = i;
    left();
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("choice")
    (path / "p.cdv").write_text(PROGRAM)
    return path


def weft(folder: Path, *words: str) -> tuple[int, str]:
    done = execute([*WEFT, "check", *words, "p.cdv"], timeout=60, cwd=folder)
    return done.returncode, done.stdout + done.stderr


def test_the_directives_that_ran_are_listed_in_their_order_and_a_report_is_a_baseline(folder: Path) -> None:
    status, out = weft(folder, "--directives")
    lines = [line.split("  ")[1:] for line in out.splitlines() if line.startswith("p.cdv:")]
    assert status == 1
    assert lines[0] == ["#pragma dvm array distribute[block]", "(1 time)"]
    assert lines[-2:] == [
        ["#pragma dvm parallel([i] on b[i])", "(1 time, 9 iterations)"],
        ["#pragma dvm parallel([i] on a[i])", "(1 time, 8 iterations)"],
    ]
    assert weft(folder, "--format", "json", "-o", "old.json")[0] == 1
    (folder / "p.cdv").write_text("\n\n" + PROGRAM)  # lines may move
    status, out = weft(folder, "--baseline", "old.json")
    assert (status, out.splitlines()[0]) == (0, "Nothing else found in p.cdv (finished)")
    assert "1 finding known from old.json" in out
    (folder / "p.cdv").write_text(PROGRAM.replace("b[i] = a[i] = i", "b[i] = a[8 - i] = i"))
    status, out = weft(folder, "--baseline", "old.json")
    assert status == 1 and "[stale-halo-read]" not in out


def finding(kind: str = "stale-halo-read", file: str = "p.cdv", line: int = 7, function: str = "left") -> Finding:
    return Finding(kind, "error", "certain", "It reads.", sites=(Site(0, "read", file, line, function),))


def checked(*findings: Finding) -> Checked:
    return Checked("p.cdv", findings, 0)


@pytest.mark.parametrize("word", ["stale-halo-read", "p.cdv", "*.cdv", "left", "LEFT"])
def test_a_word_means_a_kind_a_file_or_a_procedure(word: str) -> None:
    one, other = finding(), finding("shared-write", "q.c", 7, "main")
    assert choose(checked(one, other), Choice(only=(word,))).findings == (one,)
    told = choose(checked(one, other), Choice(skip=(word,)))
    assert told.findings == (other,)
    assert told.notes == ("1 finding left out by --only or --skip",)


def test_a_word_that_means_nothing_is_an_error(folder: Path) -> None:
    verify(Choice(only=("left", "p.cdv", "shared-write"), fail_on=("never",)), [folder / "p.cdv"])
    with pytest.raises(UsageError, match="stale-halo-raed names no kind of finding, no file and no procedure"):
        verify(Choice(only=("stale-halo-raed",)), [folder / "p.cdv"])
    with pytest.raises(UsageError, match="--fail-on bad: name error"):
        verify(Choice(fail_on=("bad",)), [])
    with pytest.raises(UsageError, match=r"none\.json is not a file; --format json -o FILE writes one"):
        verify(Choice(baseline=folder / "none.json"), [])


def test_a_comment_with_a_reason_suppresses_its_line_and_one_without_does_not(tmp_path: Path) -> None:
    path = tmp_path / "p.c"
    path.write_text("a; /* weft: ignore shared-write: one copy is enough */\n\nb; // weft: ignore shared-write\n")
    one, other = finding("shared-write", str(path), 1), finding("shared-write", str(path), 3)
    told = choose(checked(one, other), Choice())
    assert told.findings == (other,)
    assert told.notes == (f"suppressed: shared-write at {path}:1: one copy is enough",)
    assert told.unread == (f"{path}:3: `weft: ignore shared-write` gives no reason, and suppresses nothing",)
    assert choose(checked(finding("remote-access", str(path), 1)), Choice()).findings


@pytest.mark.parametrize("begin", ["C ", "c ", "* ", "! ", "      ! ", "# ", "    # ", "// ", " * ", "a = 1  // "])
def test_each_language_writes_the_comment_in_its_own_way(begin: str, tmp_path: Path) -> None:
    for kind, left in (("shared-write", 0), ("halo-write", 1)):
        path = tmp_path / f"{kind}.f"
        path.write_text(f"{begin}weft: ignore {kind}: one copy is enough\n      A = 1\n")
        assert len(choose(checked(finding("shared-write", str(path), 2)), Choice()).findings) == left


def test_a_file_of_rules_suppresses_with_a_reason(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text("# known\nstale-halo-read p.cdv:left the edge is constant\n")
    told = choose(checked(finding(), finding(function="main")), Choice(suppress=rules))
    assert [one.sites[0].function for one in told.findings] == ["main"]
    rules.write_text("stale-halo-read p.cdv\n")
    with pytest.raises(UsageError, match="rules:1: write KIND FILE"):
        choose(checked(finding()), Choice(suppress=rules))


def test_a_baseline_knows_as_many_findings_as_it_holds(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text(json.dumps({"findings": [finding(line=3).to_json()]}))
    assert key(finding(line=3).to_json()) == key(finding(line=9).to_json())
    assert len(choose(checked(finding(line=9), finding(line=11)), Choice(baseline=old)).findings) == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("error",), True),
        (("never",), False),
        (("shared-write",), False),
        (("stale-halo-read",), True),
        (("note",), True),
    ],
)
def test_what_lets_a_check_fail_can_be_chosen(words: tuple[str, ...], expected: bool) -> None:
    assert fails(finding(), Choice(fail_on=words)) == expected
