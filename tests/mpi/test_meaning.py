"""The table of meanings, held whole against the standard's table of procedures."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import weft
from weft.mpi import meaning, table
from weft.mpi.meaning import Act, Form, InPlace, Meaning, Mode, Over, Share, Sync, Trait, Waits
from weft.mpi.meaning.rows import all_rows
from weft.mpi.table import Function, Parameter
from weft.native.headers.epochs import Call

STATED = [f for f in table.all_functions() if meaning.why_refused(f.name) is None]


def unstated(functions: Iterable[Function]) -> list[str]:
    """The functions that have neither a row nor a reason to have none."""
    return [f.name for f in functions if meaning.find_meaning(f.name) is None and meaning.why_refused(f.name) is None]


def row(f: Function) -> Meaning:
    found = meaning.find_meaning(f.name)
    assert found is not None, f"{f.name} has no row in weft/mpi/meaning and no reason in refusals.py"
    return found


def each(functions: Iterable[Function], check: Callable[[Function], None]) -> None:
    """Check them all, and name each that fails."""
    failures = []
    for f in functions:
        try:
            check(f)
        except AssertionError as error:
            failures.append(f"{f.name}: {error}")
    assert not failures, "\n".join(failures)


def parameters(f: Function) -> dict[str, Parameter]:
    return {p.name: p for p in f.parameters}


def test_each_function_of_the_standard_is_stated_or_refused_with_a_reason() -> None:
    assert unstated(table.all_functions()) == [], "give each a row in weft/mpi/meaning, or a reason in its refusals.py"


def test_a_function_that_is_added_without_a_meaning_is_told_by_its_name() -> None:
    invented = Function(9999, "MPI_Invented", "int", (), None)
    assert unstated([*table.all_functions(), invented]) == ["MPI_Invented"]


def test_no_function_is_stated_twice_or_beside_the_standard() -> None:
    counts = Counter(found.name for found in all_rows())
    assert [name for name, count in counts.items() if count > 1] == []
    assert set(counts) - {meaning.base_name(f.name) for f in STATED} == set()


def test_no_function_is_both_stated_and_refused() -> None:
    assert [name for name in meaning.all_meanings() if meaning.why_refused(f"MPI_{name}")] == []


def test_what_a_function_makes_and_frees_are_handles_that_it_has() -> None:
    def check(f: Function) -> None:
        found = row(f)
        given = [p for p in f.parameters if p.handle and not p.array]
        if not found.traits & (Trait.GIVES_KNOWN | Trait.GIVES_LASTING):
            assert {p.handle for p in given if p.direction == "out"} == set(found.makes)
        if found.frees:
            assert found.frees in {p.handle for p in given if p.direction == "inout"}
        elif found.act not in (Act.START, Act.COMPLETE) and f.name != "MPI_Type_commit":
            assert not [p for p in given if p.direction == "inout"]

    each(STATED, check)


def test_a_form_of_a_function_has_its_arguments_and_its_request() -> None:
    def check(f: Function) -> None:
        found = row(f)
        assert ("REQUEST" in found.makes) == (found.form in (Form.NONBLOCKING, Form.PERSISTENT) and not found.polls)
        kin = meaning.find_meaning(found.kin)
        assert kin is not None, f"{found.name} is said to be a form of {found.kin}, which has no row"
        if found.kin == found.name:
            assert found.form in (Form.BLOCKING, Form.NONBLOCKING)
            return
        assert kin.form is Form.BLOCKING
        assert kin.act is found.act
        if Mode.PARTITIONED is found.mode or found.form in (Form.BEGIN, Form.END) or found.polls:
            return
        large = "_c" if f.name.endswith("_c") else ""
        of_kin = table.functions_by_name()[f"MPI_{kin.name}{large}"]
        own = [p.name for p in f.parameters if p.name not in ("request", "info", "status")]
        assert own == [p.name for p in of_kin.parameters if p.name not in ("info", "status")]

    each(STATED, check)


def test_whose_members_call_it_is_said_by_an_argument() -> None:
    def check(f: Function) -> None:
        found, given = row(f), parameters(f)
        classes = {Over.COMMUNICATOR: "COMM", Over.WINDOW: "WINDOW", Over.FILE: "FILE", Over.GROUP: "GROUP"}
        if found.over in classes:
            assert classes[found.over] in {p.handle for p in given.values() if p.direction != "out"}
            assert found.act is Act.COLLECTIVE
        assert (found.act is Act.COLLECTIVE) == (found.over in classes)

    each(STATED, check)


def test_how_much_a_collective_moves_is_said_as_its_arguments_say_it() -> None:
    def check(f: Function) -> None:
        found, given = row(f), parameters(f)
        assert found.is_rooted == ("root" in given)
        assert found.is_reduction == ("op" in given)
        assert found.is_neighbourhood == ("neighbor" in f.name.lower())
        for share, counts, types in (
            (found.sends, "sendcounts", "sendtypes"),
            (found.receives, "recvcounts", "recvtypes"),
        ):
            assert (share is Share.TYPED) == (types in given)
            if share is Share.LISTED:
                assert {counts, "recvcounts"} & given.keys()
            if share in (Share.COUNT, Share.EACH):
                assert {"count", counts.removesuffix("s"), "recvcount", "recvcounts"} & given.keys()
        assert (found.sends is Share.NOTHING) == (found.kin == "Barrier")
        in_place = found.in_place
        assert (in_place is InPlace.NOWHERE) == (found.is_neighbourhood or found.kin in ("Barrier", "Bcast"))
        assert (in_place in (InPlace.SENDING_AT_ROOT, InPlace.RECEIVING_AT_ROOT)) == (
            found.is_rooted and found.kin != "Bcast"
        )

    each([f for f in STATED if row(f).moves], check)


def test_what_touches_a_window_names_it() -> None:
    def check(f: Function) -> None:
        found, given = row(f), parameters(f)
        touches = found.act in (Act.ACCESS, Act.EPOCH) or found.sync is not Sync.NONE
        if touches:
            assert "win" in given
        assert (found.act is Act.ACCESS) == ("target_disp" in given) == bool(found.access)

    each(STATED, check)


def test_what_is_asked_over_and_over_answers_at_once() -> None:
    def check(f: Function) -> None:
        assert row(f).is_local
        assert {"flag", "outcount"} & {p.name for p in f.parameters if p.direction == "out"}

    each([f for f in STATED if row(f).polls], check)


def test_only_what_returns_at_its_own_time_is_called_local() -> None:
    waiting = {m.name for m in meaning.all_meanings().values() if m.form is Form.BLOCKING and not m.is_local}
    assert {"Send", "Recv", "Wait", "Barrier", "Comm_spawn", "Comm_accept", "Win_start", "Finalize"} <= waiting
    assert not {"Bsend", "Rsend", "Comm_rank", "Test", "Start", "Iprobe", "Win_post", "Type_commit"} & waiting


def test_every_collective_may_wait_for_its_members() -> None:
    """A row whose request or whose call waits for nobody would never be part of a proof."""
    collectives = meaning.meanings_with(Act.COLLECTIVE)
    assert len(collectives) > 120
    assert {m.name for m in collectives if m.waits not in (Waits.EVERY, Waits.SOME)} == set()


def test_what_is_done_to_epochs_is_what_the_kernel_knows() -> None:
    assert [call.name for call in Call][1:] == [sync.name for sync in Sync if Sync.NONE < sync <= Sync.FREE]


def test_words_are_one_object_each_and_combinations_too() -> None:
    assert [word for word in Form if word.value == "persistent"] == [Form.PERSISTENT]
    assert Form.PERSISTENT.name == "PERSISTENT"
    assert Trait.POLLS | Trait.REDUCES is not Trait.POLLS
    both = Trait.POLLS | Trait.REDUCES
    assert (both & Trait.POLLS) is Trait.POLLS
    assert Trait.REDUCES in both
    assert Trait.BOTH_GROUPS not in both
    assert repr(both) == "Trait.POLLS|REDUCES"
    assert not Trait.NONE


LISTED = {
    "mpi/table.py": "parameters of functions that the standard's table lacks",
    "access/ordering.py": "calls in a loop that waits by polling memory",
    "deadlock/unbuffered_sends.py": "collectives that libraries are known to make local",
    "replay/plan.py": "how a replay is told the outcome",
    "stretchs/closed.py": "calls of which something goes on that no cut may pass",
    "stretchs/moments.py": "calls of which something goes on that a stretch of the run does not show",
    "usage/collectives.py": "arguments beside root, operation and types that members give alike",
    "usage/origin_buffers.py": "parameters that are buffers",
    "waits/causes.py": "what a table of times calls making and freeing",
}
"""Files that name several functions in one place, and what they say of them that the table does not."""


def _named(node: ast.AST) -> list[str]:
    """The words of a text, a tuple, a list, a set or the keys of a dict."""
    if isinstance(node, ast.Constant):
        return node.value.split() if isinstance(node.value, str) else []
    parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


@pytest.mark.matrix
def test_no_room_keeps_a_list_of_functions_of_its_own() -> None:
    package = Path(weft.__file__).parent
    found = set()
    for file in package.rglob("*.py"):
        name = file.relative_to(package).as_posix()
        if name.startswith("mpi/meaning/"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            words = _named(node)
            if len(words) > 3 and all(word.removeprefix("MPI_") in meaning.all_meanings() for word in words):
                found.add(name)
    assert found == set(LISTED), "ask weft.mpi.meaning, or say here what the list says that the table does not"
