"""Which findings are told, and which let a check fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests_support import WEFT, execute
from weft.check.finding_selection import verify_selection
from weft.errors import UsageError
from weft.findings import Finding, Site
from weft.report.selection import (
    Baseline,
    SelectionOptions,
    SuppressionRule,
    baseline_key,
    counts_as_failure,
    read_baseline,
    read_suppression_rules,
    select_findings,
    word_matches_file,
)

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


@pytest.mark.matrix
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


def checked(*findings: Finding) -> tuple[Finding, ...]:
    return findings


@pytest.mark.parametrize("word", ["stale-halo-read", "p.cdv", "*.cdv", "left", "LEFT"])
def test_a_word_means_a_kind_a_file_or_a_procedure(word: str) -> None:
    one, other = finding(), finding("shared-write", "q.c", 7, "main")
    assert select_findings(checked(one, other), SelectionOptions(only=(word,))).findings == (one,)
    told = select_findings(checked(one, other), SelectionOptions(skip=(word,)))
    assert told.findings == (other,)
    assert told.notes == ("1 finding left out by --only or --skip",)


def test_a_word_that_means_nothing_is_an_error(folder: Path) -> None:
    verify_selection(SelectionOptions(only=("left", "p.cdv", "shared-write"), fail_on=("never",)), [folder / "p.cdv"])
    with pytest.raises(UsageError, match=r"stale-halo-raed is neither a kind of finding .* nor a file or procedure"):
        verify_selection(SelectionOptions(only=("stale-halo-raed",)), [folder / "p.cdv"])
    with pytest.raises(UsageError, match="--fail-on bad: unknown value; use error"):
        verify_selection(SelectionOptions(fail_on=("bad",)), [])
    with pytest.raises(UsageError, match=r"none\.json is not a file; -o FILE.json writes one"):
        read_baseline(folder / "none.json")


def test_a_source_that_is_not_utf_8_has_its_comments_read(tmp_path: Path) -> None:
    path = tmp_path / "p.c"
    path.write_bytes(b"a; /* \xe9 */ // weft: ignore shared-write: one copy is enough\n")
    assert select_findings(checked(finding("shared-write", str(path), 1)), SelectionOptions()).findings == ()
    assert select_findings(checked(finding("halo-write", str(path), 1)), SelectionOptions()).findings


def test_a_comment_with_a_reason_suppresses_its_line_and_one_without_does_not(tmp_path: Path) -> None:
    path = tmp_path / "p.c"
    path.write_text("a; /* weft: ignore shared-write: one copy is enough */\n\nb; // weft: ignore shared-write\n")
    one, other = finding("shared-write", str(path), 1), finding("shared-write", str(path), 3)
    told = select_findings(checked(one, other), SelectionOptions())
    assert told.findings == (other,)
    assert told.notes == ("suppressed: shared-write at p.c:1: one copy is enough",)
    assert told.unread == (
        f"{path}:3: `weft: ignore shared-write` suppresses nothing, because it gives no reason: add "
        "one after a second colon",
    )
    assert select_findings(checked(finding("remote-access", str(path), 1)), SelectionOptions()).findings


@pytest.mark.parametrize("begin", ["C ", "c ", "* ", "! ", "      ! ", "# ", "    # ", "// ", " * ", "a = 1  // "])
def test_each_language_writes_the_comment_in_its_own_way(begin: str, tmp_path: Path) -> None:
    for kind, left in (("shared-write", 0), ("halo-write", 1)):
        path = tmp_path / f"{kind}.f"
        path.write_text(f"{begin}weft: ignore {kind}: one copy is enough\n      A = 1\n")
        assert len(select_findings(checked(finding("shared-write", str(path), 2)), SelectionOptions()).findings) == left


def test_a_file_of_rules_suppresses_with_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("# known\nstale-halo-read p.cdv:left the edge is constant\n")
    told = select_findings(
        checked(finding(), finding(function="main")), SelectionOptions(suppress=read_suppression_rules(file))
    )
    assert [one.sites[0].function for one in told.findings] == ["main"]
    assert told.unread == ()
    file.write_text("stale-halo-read p.cdv\n")
    with pytest.raises(UsageError, match="rules:1: not a rule; write KIND FILE"):
        read_suppression_rules(file)


def test_a_rule_that_means_no_finding_is_told_and_one_that_does_is_not() -> None:
    used = SuppressionRule("stale-halo-read", "p.cdv", "7", "known", "rules:1")
    unused = SuppressionRule("stale-halo-read", "p.cdv", "8", "mended long ago", "rules:2")
    told = select_findings(checked(finding()), SelectionOptions(suppress=(used, unused)))
    assert told.findings == ()
    assert told.unread == (
        "rules:2: this rule suppresses nothing, because no finding matches it: correct the rule, or delete it",
    )
    left_out = select_findings(checked(finding()), SelectionOptions(skip=("stale-halo-read",), suppress=(used,)))
    assert left_out.unread == ()


def test_a_file_is_named_from_this_folder_however_its_path_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    absolute = str(tmp_path / "src" / "p.c")
    for word in ("p.c", "src/p.c", "./src/p.c", "src/*", absolute):
        assert word_matches_file(word, absolute), word
    for word in ("other/p.c", "q.c", "./q.c", "/src/p.c"):
        assert not word_matches_file(word, absolute), word
    told = select_findings(
        checked(finding("data-race", absolute)),
        SelectionOptions(suppress=(SuppressionRule("*", "src/p.c", "", "benign", "rules:1"),)),
    )
    assert told.notes == ("suppressed: data-race at p.c:7: benign",)


def test_a_baseline_knows_as_many_findings_as_it_holds(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text(json.dumps({"findings": [finding(line=3).to_json()]}))
    assert baseline_key(finding(line=3).to_json()) == baseline_key(finding(line=9).to_json())
    known = read_baseline(old)
    assert known == Baseline(old, (baseline_key(finding().to_json()),))
    assert (
        len(select_findings(checked(finding(line=9), finding(line=11)), SelectionOptions(baseline=known)).findings) == 1
    )


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--baseline", b"{", "old is not a report of Weft in JSON"),
        ("--baseline", b'{"findings": [1]}', "old is not a report of Weft in JSON"),
        ("--baseline", b"\xff\xfe", "old cannot be read: it is not text"),
        ("--suppress", b"stale-halo-raed p.cdv known\n", "old:1: write KIND FILE"),
        ("--suppress", b"\xff\xfe", "old cannot be read: it is not text"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_before_the_program_runs(
    option: str, text: bytes, said: str, tmp_path: Path
) -> None:
    program = PROGRAM.replace("left();", 'left();\n    fopen("ran", "w");')
    (tmp_path / "p.cdv").write_text("#include <stdio.h>\n" + program)
    (tmp_path / "old").write_bytes(text)
    status, out = weft(tmp_path, option, "old")
    assert status == 2 and said in out
    assert not (tmp_path / "ran").exists()
    if text == b"{":  # what is asked for is what a run makes
        weft(tmp_path)
        assert (tmp_path / "ran").exists()


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
    assert counts_as_failure(finding(), SelectionOptions(fail_on=words)) == expected
