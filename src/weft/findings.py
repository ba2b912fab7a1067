"""What an analysis has to say: a Finding is data, and only a view turns it into text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from weft.base.event_id import EventId
from weft.evidence import NO_EVIDENCE, Evidence, Proof
from weft.kinds import CERTAINTIES, KINDS, SEVERITIES, Certainty, Severity


@dataclass(frozen=True, slots=True)
class Site:
    """Where a rank called MPI: `call` is the function's name; `line` is 0 and the texts are "" where unknown."""

    rank: int
    call: str
    file: str = ""
    line: int = 0
    function: str = ""
    callers: tuple[tuple[str, int, str], ...] = field(default=(), compare=False)
    """(file, line, function) of one way to the call, innermost first: programs wrap MPI in functions of their own."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file and self.line else self.file or "an unknown line"

    def to_json(self) -> dict[str, Any]:
        """Return the site as the report's JSON holds it: rank, call, file, line, function, and callers likewise."""
        return {
            "rank": self.rank,
            "call": self.call,
            "file": self.file,
            "line": self.line,
            "function": self.function,
            "callers": [{"file": f, "line": n, "function": name} for f, n, name in self.callers],
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a run, or may be, or is worth to know.

    `message` is one sentence for a person and names no kind: views put `[kind]` behind it. `sites` begin with the
    one to look at first, and `events` are the evidence in the record. `evidence` holds what else a view or a script
    can use. `cause` is equal for findings that one line can stand for; None: kind and sites decide.

    Raises ValueError for a kind, severity or certainty that does not exist.
    """

    kind: str
    severity: Severity
    certainty: Certainty
    message: str
    ranks: tuple[int, ...] = ()
    sites: tuple[Site, ...] = ()
    events: tuple[EventId, ...] = ()
    evidence: Evidence = NO_EVIDENCE
    cause: str | None = None
    alike: int = 1
    """How many findings of this cause it stands for."""
    consequences: tuple[str, ...] = ()
    """What was found that only follows from it, in words."""
    beyond: int = 0
    """For the last finding of a line that is reported: how many more there are."""
    proof: Proof | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"no kind of finding is called {self.kind!r}")
        if self.severity not in SEVERITIES:
            raise ValueError(f"no severity is called {self.severity!r}")
        if self.certainty not in CERTAINTIES:
            raise ValueError(f"no certainty is called {self.certainty!r}")

    @property
    def cause_key(self) -> tuple[Any, ...]:
        """Return a key that is equal for findings of one cause: the kind with the cause; without a cause, the kind with
        the code sites, or with the message if there are no sites.
        """
        if self.cause is not None:
            return (self.kind, self.cause)
        return (self.kind, tuple((s.call, s.file, s.line) for s in self.sites) or self.message)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as the report's JSON holds it."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "certainty": self.certainty,
            "message": self.message,
            "ranks": list(self.ranks),
            "sites": [site.to_json() for site in self.sites],
            "events": [list(event) for event in self.events],
            "evidence": self.facts(),
        }

    def facts(self) -> dict[str, Any]:
        """Return what the report's JSON holds as evidence: the facts themselves, and counts, consequences and proof if
        there are any.
        """
        return {
            **self.evidence.to_json(),
            **({"more_at_this_line": self.beyond} if self.beyond else {}),
            **({"count": self.alike} if self.alike > 1 else {}),
            **({"consequences": list(self.consequences)} if self.consequences else {}),
            **({"proof": self.proof.to_json()} if self.proof else {}),
        }


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity, then certainty; findings that are equal in both keep their order."""
    return sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), CERTAINTIES.index(f.certainty)))
