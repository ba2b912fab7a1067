"""Real programs for message races: every situation of Park & Chung 2008 (MPIRace-Check), in C and mpi4py.

One program holds all cases of a language, each on a communicator of its own, so that none can see the messages of
another. `{R1}` in a receive and `{S1}` in a send become comments; the finding of a case must name exactly these lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.findings import Finding

RANKS = 4
"""Rank 0 receives, ranks 1 and 2 send, rank 3 takes what the Sendrecvs of rank 0 send."""

PYTHON = """\
from mpi4py import MPI
import numpy as np
me = MPI.COMM_WORLD.rank
a, b, c = np.full(1, me, "i"), np.zeros(1, "i"), np.zeros(1, "i")
s, ANY, ANY_TAG = MPI.Status(), MPI.ANY_SOURCE, MPI.ANY_TAG
"""

C = """\
#include <mpi.h>
#define ANY MPI_ANY_SOURCE
#define ANY_TAG MPI_ANY_TAG
int main(int argc, char **argv) {
  int me, a[1] = {0}, b[1], c[1];
  MPI_Comm comm;
  MPI_Status s;
  MPI_Message m;
  MPI_Request r, q[2];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  (void)m, (void)r, (void)q;
"""

# {x} is the buffer of this receive, {k} its number, {mark} the comment that names its line.
PY_FORMS = {
    "Recv": ["comm.Recv({x}, {source}, {tag}, s)  {mark}"],
    "Irecv": ["q{k} = comm.Irecv({x}, {source}, {tag})  {mark}"],
    "Irecv+Wait": ["q = comm.Irecv({x}, {source}, {tag})  {mark}", "q.Wait(s)"],
    "Sendrecv": ["comm.Sendrecv(a, 3, 99, {x}, {source}, {tag}, s)  {mark}"],
    "Sendrecv_replace": ["comm.Sendrecv_replace({x}, 3, 99, {source}, {tag}, s)  {mark}"],
    "Probe+Recv": ["comm.Probe({source}, {tag}, s)  {mark}", "comm.Recv({x}, s.Get_source(), s.Get_tag())"],
    "Mprobe+Mrecv": ["m = comm.Mprobe({source}, {tag}, s)  {mark}", "m.Recv({x})"],
    "recv": ["comm.recv(source={source}, tag={tag})  {mark}"],
}

C_FORMS = {
    "Recv": ["MPI_Recv({x}, 1, MPI_INT, {source}, {tag}, comm, &s); {mark}"],
    "Irecv": ["MPI_Irecv({x}, 1, MPI_INT, {source}, {tag}, comm, q + {k}); {mark}"],
    "Irecv+Wait": [
        "MPI_Irecv({x}, 1, MPI_INT, {source}, {tag}, comm, &r); {mark}",
        "MPI_Wait(&r, MPI_STATUS_IGNORE);",
    ],
    "Sendrecv": ["MPI_Sendrecv(a, 1, MPI_INT, 3, 99, {x}, 1, MPI_INT, {source}, {tag}, comm, &s); {mark}"],
    "Sendrecv_replace": [
        "MPI_Sendrecv_replace({x}, 1, MPI_INT, 3, 99, {source}, {tag}, comm, MPI_STATUS_IGNORE); {mark}"
    ],
    "Probe+Recv": [
        "MPI_Probe({source}, {tag}, comm, &s); {mark}",
        "MPI_Recv({x}, 1, MPI_INT, s.MPI_SOURCE, s.MPI_TAG, comm, MPI_STATUS_IGNORE);",
    ],
    "Mprobe+Mrecv": [
        "MPI_Mprobe({source}, {tag}, comm, &m, &s); {mark}",
        "MPI_Mrecv({x}, 1, MPI_INT, &m, MPI_STATUS_IGNORE);",
    ],
}

PAPER = ("Recv", "Sendrecv", "Sendrecv_replace", "Irecv")

Ask = tuple[str, str]
"""Source and tag that a receive asks for."""


@dataclass(frozen=True)
class Case:
    """Two receives of rank 0, and the tags of what ranks 1 and 2 send it; `race`: whether they race."""

    name: str
    forms: tuple[str, str]
    asks: tuple[Ask, Ask]
    sends: tuple[tuple[int, int], ...]
    race: bool


def cases(forms: Sequence[str]) -> Iterator[Case]:
    """The four classic cases with each form of receive, and the paper's twenty situations."""
    for form in forms:
        both = (form, form)
        yield Case(f"tags-differ/{form}", both, (("ANY", "1"), ("ANY", "2")), ((1, 1), (2, 2)), False)
        yield Case(f"named-first/{form}", both, (("2", "ANY_TAG"), ("ANY", "ANY_TAG")), ((1, 1), (2, 1)), False)
        yield Case(f"one-sender/{form}", both, (("ANY", "ANY_TAG"),) * 2, ((1, 1), (1, 2)), False)
        yield Case(f"two-senders/{form}", both, (("ANY", "1"),) * 2, ((1, 1), (2, 1)), True)
    for one, two in itertools.combinations_with_replacement(PAPER, 2):
        for tag in ("1", "ANY_TAG"):
            yield Case(f"paper/{one}+{two}/{tag}", (one, two), (("ANY", tag),) * 2, ((1, 1), (2, 1)), True)


@dataclass(frozen=True)
class RaceProgram:
    """All cases of one language in one source."""

    language: str
    ranks: int = RANKS

    @property
    def title(self) -> str:
        """`c/message-race`, of which each case is a line of the table."""
        return f"{self.language}/message-race"

    @property
    def place(self) -> str:
        """A folder's name for it."""
        return f"{self.language}-message-race"

    @property
    def cases(self) -> list[Case]:
        """What stands in it."""
        return list(cases(list(C_FORMS if self.language == "c" else PY_FORMS)))

    @cached_property
    def source(self) -> str:
        """The program."""
        numbered = list(enumerate(self.cases))
        if self.language == "c":
            body = [line for number, case in numbered for line in _c(number, case)]
            return C + "".join(f"  {line}\n" for line in body) + "  MPI_Finalize();\n  return 0;\n}\n"
        return PYTHON + "".join(f"{line}\n" for number, case in numbered for line in _py(number, case))

    def verdicts(self, findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
        """The title of each case, and `ok` or what is wrong; what no case can have caused is wrong in all."""
        lines = self.source.splitlines()
        marks = [{mark: _line(lines, number, mark) for mark in _MARKS} for number in range(len(self.cases))]
        first = [case["R1"] for case in marks]
        loud = [f for f in findings if f.severity != "note"]
        strange = [f for f in loud if f.kind != "message-race"]
        for case, at, begin, end in zip(self.cases, marks, first, [*first[1:], len(lines) + 1], strict=True):
            found = [f for f in loud if f.kind == "message-race" and begin <= f.sites[0].line < end]
            yield f"{self.title}/{case.name}", _verdict(case, at, found, strange)


_MARKS = ("R1", "R2", "S1", "S2")


def _line(lines: Sequence[str], case: int, mark: str) -> int:
    return next(number for number, text in enumerate(lines, 1) if f"{mark} of case {case}." in text)


def _verdict(case: Case, at: dict[str, int], found: Sequence[Finding], strange: Sequence[Finding]) -> str:
    if strange:
        return f"false alarm: {strange[0].kind}: {strange[0].message}"
    if not case.race:
        return "ok" if not found else f"false alarm: {found[0].message}"
    if len(found) != 1:
        return f"{len(found)} races instead of one" if found else "missed"
    receive, took, other, later = ((site.rank, site.line) for site in found[0].sites)
    # Behind a probe it is the next line that receives.
    second = at["R2"] + (case.forms[1] == "Probe+Recv")
    if receive != (0, at["R1"]) or later != (0, second) or {took, other} != {(1, at["S1"]), (2, at["S2"])}:
        return f"wrong line: {found[0].message}"
    return "ok"


def _marks(number: int, opening: str, closing: str) -> dict[str, str]:
    return {mark: f"{opening} {mark} of case {number}.{closing}" for mark in _MARKS}


def _receives(case: Case, forms: dict[str, list[str]], marks: dict[str, str]) -> list[str]:
    lines = []
    for k, (form, (source, tag)) in enumerate(zip(case.forms, case.asks, strict=True)):
        lines += [t.format(x="bc"[k], k=k, source=source, tag=tag, mark=marks[f"R{k + 1}"]) for t in forms[form]]
    return lines


def _pending(case: Case) -> list[int]:
    return [k for k, form in enumerate(case.forms) if form == "Irecv"]


def _extra(case: Case) -> int:
    """Messages that the Sendrecvs send to rank 3."""
    return sum(form.startswith("Sendrecv") for form in case.forms)


def _py(number: int, case: Case) -> list[str]:
    marks = _marks(number, "#", "")
    lines = ["comm = MPI.COMM_WORLD.Dup()", "if me == 0:"]
    waits = [f"q{k}.Wait()" for k in _pending(case)]
    lines += [f"    {line}" for line in [*_receives(case, PY_FORMS, marks), *waits]]
    objects = "recv" in case.forms
    for k, (rank, tag) in enumerate(case.sends):
        call = f"comm.send(me, 0, {tag})" if objects else f"comm.Send(a, 0, {tag})"
        lines.append(f"if me == {rank}: {call}  {marks[f'S{k + 1}']}")
    lines += ["if me == 3: comm.Recv(b, 0, 99)"] * _extra(case)
    return [*lines, "comm.Free()"]


def _c(number: int, case: Case) -> list[str]:
    marks = _marks(number, "/*", " */")
    pending = _pending(case)
    waits = [f"MPI_Waitall({len(pending)}, q + {pending[0]}, MPI_STATUSES_IGNORE);"] if pending else []
    lines = ["MPI_Comm_dup(MPI_COMM_WORLD, &comm);", "if (me == 0) {"]
    lines += [f"  {line}" for line in [*_receives(case, C_FORMS, marks), *waits]] + ["}"]
    for k, (rank, tag) in enumerate(case.sends):
        lines.append(f"if (me == {rank}) MPI_Send(a, 1, MPI_INT, 0, {tag}, comm); {marks[f'S{k + 1}']}")
    lines += ["if (me == 3) MPI_Recv(b, 1, MPI_INT, 0, 99, comm, MPI_STATUS_IGNORE);"] * _extra(case)
    return [*lines, "MPI_Comm_free(&comm);"]
