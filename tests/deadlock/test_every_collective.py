"""Every collective and every maker of a communicator that the standard has, as a deadlock of two ranks and without.

Rank 0 is in the call, and rank 1 waits for a message that rank 0 would send behind it. In the corrected twin rank 1
makes the call before it receives.
"""

from __future__ import annotations

from typing import Any

import pytest

from weft import deadlock
from weft.findings import Finding
from weft.mpi import meaning
from weft.mpi.meaning import Act, Form, Meaning, Over, Trait
from weft.mpi.table import functions_by_name
from weft.report.analysis import run_analyses
from weft.report.registry import ANALYSES
from weft.trace.builder import WORLD, Builder, Request
from weft.trace.builder.run import RankBuilder
from weft.trace.layout import Def
from weft.trace.varint import encode_string, encode_unsigned

TAG = 7
EVERY = sorted(
    meaning.names_of(meaning.meanings_with(Act.COLLECTIVE))
    | meaning.functions_with(Act.BEGIN_OR_END, where=lambda m: m.over is not Over.NOBODY)
)
"""All that members of a group call together, in every form."""
OF_DATA = meaning.functions_with(Act.COLLECTIVE, where=lambda m: m.moves)


class Program:
    """Two ranks, and the objects that a call of this function needs on both."""

    def __init__(self, row: Meaning) -> None:
        self.row = row
        self.function = functions_by_name()[f"MPI_{row.name}"]
        self.build = Builder(ranks=2)
        self.known: list[dict[str, Any]] = [self._objects(rank) for rank in self.build.ranks]

    def _objects(self, rank: RankBuilder) -> dict[str, Any]:
        """What this rank has at hand before the call."""
        found: dict[str, Any] = {"COMM": WORLD, "WINDOW": 1, "FILE": 1, "GROUP": 1, "SESSION": 1, "INFO": 1}
        if self.row.over is Over.WINDOW:
            found["WINDOW"] = self._window(rank)
        if self.row.over is Over.FILE:
            found["FILE"] = self._file(rank)
        if self.row.over is Over.GROUP:
            found["GROUP"] = self._group(rank)
        if self.row.frees == "COMM":
            found["COMM"] = rank.make_comm("MPI_Comm_dup", WORLD, (0, 1))
        return found

    def _window(self, rank: RankBuilder) -> int:
        id = rank.new_id("WINDOW")
        fields = (id, WORLD, 0, 0x100000 * (rank.index + 1), 64, 1, 0)
        rank.define(Def.WINDOW, b"".join(map(encode_unsigned, fields)))
        rank.call("MPI_Win_create", base=fields[3], size=64, disp_unit=1, info=1, comm=WORLD, win=id)
        return id

    def _file(self, rank: RankBuilder) -> int:
        id = rank.new_id("FILE")
        rank.define(Def.FILE, encode_unsigned(id) + encode_unsigned(WORLD) + encode_unsigned(0) + encode_string("data"))
        rank.call("MPI_File_open", comm=WORLD, filename="data", info=1, fh=id)
        return id

    def _group(self, rank: RankBuilder) -> int:
        id = rank.new_id("GROUP")
        rank.define(Def.GROUP, encode_unsigned(id) + self.build.encode_members(rank, (0, 1)))
        rank.call("MPI_Comm_group", comm=WORLD, group=id)
        return id

    def arguments(self, rank: RankBuilder, root: int) -> dict[str, Any]:
        """Right arguments for the call by this rank."""
        given: dict[str, Any] = {}
        for p in self.function.parameters:
            if p.place == "none":
                continue
            if p.name == "root":
                given[p.name] = root
            elif p.name in ("remote_leader",):
                given[p.name] = 1 - rank.index
            elif p.name == "local_group":
                given[p.name] = self.known[rank.index]["GROUP"]
            elif p.direction == "in" and p.handle and not p.array:
                given[p.name] = {
                    "DATATYPE": "MPI_INT", "OP": "MPI_SUM", "ERRHANDLER": 1, "REQUEST": 1, "MESSAGE": 1,
                    **self.known[rank.index],
                }[p.handle]  # fmt: skip
            elif p.direction == "inout" and p.handle and not p.array:
                given[p.name] = self.known[rank.index][p.handle]
            elif p.name in ("sources", "destinations"):
                given[p.name] = [1 - rank.index] * 2
            elif p.direction == "in" and p.array:
                given[p.name] = ["MPI_INT"] * 2 if p.handle == "DATATYPE" else [1] * (0 if p.handle else 2)
            elif p.direction == "in" and p.type == "int":
                given[p.name] = 0 if p.kind in ("ASSERT", "RANK", "DISPLACEMENT", "OFFSET") else 1
            elif p.type == "address" and p.name.endswith(("buf", "buffer")):
                given[p.name] = 0x1000 if p.name.startswith("send") else 0x2000
            elif p.direction == "in" and p.type == "string" and not p.array:
                given[p.name] = "word"
        return given

    def makes(self, rank: RankBuilder) -> dict[str, Any]:
        """Handles that come out, of a call that returned."""
        outs = [p for p in self.function.parameters if p.direction == "out" and p.handle and not p.array]
        return {p.name: rank.new_id(p.handle or "") for p in outs}

    def comes(self, rank: RankBuilder, root: int, *, done: bool) -> None:
        """This rank's part: the call and, for one that a request stands for, the wait; open where not `done`."""
        given = self.arguments(rank, root)
        if self.row.form not in (Form.NONBLOCKING, Form.PERSISTENT):
            rank.call(self.function.name, **given, **(self.makes(rank) if done else {}), open=not done, site=at(10))
            return
        made = self.makes(rank)
        rank.call(self.function.name, **given, **made, site=at(10))
        request = Request(made["request"], self.function.name)
        if self.row.form is Form.PERSISTENT:
            rank.start(request, site=at(11))
        rank.call("MPI_Wait", request=request, open=not done, site=at(12))
        if self.row.form is Form.PERSISTENT and done:
            rank.request_free(request)


def at(line: int) -> tuple[str, int, str]:
    return ("step.py", line, "main")


def faulty(row: Meaning, root: int = 0) -> list[Finding]:
    """What is found where rank 1 waits for a message, and rank 0 in the call for rank 1."""
    program = Program(row)
    program.comes(program.build.ranks[0], root, done=False)
    program.build.ranks[1].open.recv(0, tag=TAG, site=at(20))
    program.build.ended = "deadlock"
    return deadlock.find(program.build.open())


def right(row: Meaning, root: int = 0) -> list[Finding]:
    """What the analyses of progress find where rank 1 makes the call first."""
    program = Program(row)
    zero, one = program.build.ranks
    for rank in (zero, one):
        program.comes(rank, root, done=True)
    zero.send(1, tag=TAG)
    one.recv(0, tag=TAG)
    trace = program.build.open()
    report = run_analyses(trace, [a for a in ANALYSES if a.name in ("deadlock", "potential deadlock", "collectives")])
    assert not report.failures
    return list(report.findings)


def told(name: str, found: list[Finding]) -> None:
    assert len(found) == 1, f"{name}: {found}"
    finding = found[0]
    assert (finding.kind, finding.severity, finding.ranks) == ("deadlock", "error", (0, 1)), name
    assert {site.line for site in finding.sites} >= {20}, name


@pytest.mark.cases(44)
@pytest.mark.parametrize("name", EVERY)
def test_a_rank_in_it_whose_partner_waits_for_it_is_a_deadlock_and_a_partner_that_comes_is_none(name: str) -> None:
    row = meaning.all_meanings()[name]
    roots = (0, 1) if row.is_rooted else (0,)
    for root in roots:
        told(name, faulty(row, root))
        assert right(row, root) == [], name


def test_the_table_has_all_makers_of_communicators() -> None:
    """But for those that need no group: a parent's is there already, and a socket joins two that are strangers."""
    made = {f.removeprefix("MPI_").removesuffix("_c") for f, function in functions_by_name().items()
            if any(p.handle == "COMM" and p.direction == "out" for p in function.parameters)}  # fmt: skip
    assert made - set(EVERY) == {"Comm_get_parent", "Comm_join"}


@pytest.mark.parametrize("name", sorted(n for n in EVERY if n.endswith("_init")))
def test_a_rank_that_is_still_making_a_persistent_collective_waits_too(name: str) -> None:
    program = Program(meaning.all_meanings()[name])
    zero, one = program.build.ranks
    zero.call(f"MPI_{name}", **program.arguments(zero, 0), open=True, site=at(10))
    one.open.recv(0, tag=TAG, site=at(20))
    program.build.ended = "deadlock"
    told(name, deadlock.find(program.build.open()))


def test_a_persistent_collective_that_the_other_made_and_never_started_is_told_so() -> None:
    program = Program(meaning.all_meanings()["Allreduce_init"])
    zero, one = program.build.ranks
    for rank in (zero, one):
        made = program.makes(rank)
        rank.call("MPI_Allreduce_init", **program.arguments(rank, 0), **made, site=at(10))
    zero.start(Request(made["request"], ""), site=at(11))
    zero.call("MPI_Wait", request=made["request"], open=True, site=at(12))
    one.finalize()
    program.build.ended = "deadlock"
    found = deadlock.find(program.build.open())
    assert len(found) == 1
    assert "rank 1 never starts it: it has finished" in found[0].message


def test_groups_that_agree_on_another_tag_do_not_meet() -> None:
    program = Program(meaning.all_meanings()["Comm_create_group"])
    zero, one = program.build.ranks
    one.call("MPI_Comm_create_group", **{**program.arguments(one, 0), "tag": 5}, open=True, site=at(9))
    zero.call("MPI_Comm_create_group", **{**program.arguments(zero, 0), "tag": 6}, open=True, site=at(10))
    program.build.ended = "deadlock"
    found = deadlock.find(program.build.open())
    assert [f.ranks for f in found] == [(0, 1)]


def test_every_collective_has_a_place_in_the_proof() -> None:
    strange = {m.name for m in meaning.meanings_with(Act.COLLECTIVE) if Trait.MEETS_STRANGERS in m.traits}
    assert len(EVERY) == 130
    assert strange <= set(EVERY)
    assert len(OF_DATA) == 66
