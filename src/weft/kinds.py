"""The kinds of findings, a record each. The word of a kind is its slug in reports and the name of its page.

A page is docs/findings/SLUG.md, of which the package has a copy (in a checkout, a link to it). What is
printed about a kind in a sentence is there and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, Literal

from weft.base.lazy import dataclass
from weft.errors import UsageError, WeftError

Severity = Literal["error", "warning", "note"]
Certainty = Literal["certain", "possible", "undecided"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
"""Worst first."""

CERTAINTIES: Final[tuple[Certainty, ...]] = ("certain", "possible", "undecided")
"""Surest first."""

HOME: Final = "https://pypi.org/project/weft-debugger/"
"""Where Weft is at home: pages have no address of their own there, what is behind # names the finding."""

CHECK: Final = "weft check"
"""In place of an analysis of the registry: the front ends of that command give the kind."""

_SENTENCE: Final = re.compile(r".*?[.](?=\s|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding: what it is called, how bad and how sure it usually is, and who gives it."""

    slug: str
    severity: Severity
    analyses: tuple[str, ...]
    """Names of analyses in `weft.report.registry`, or CHECK."""
    certainty: Certainty = "certain"
    """The surest that a finding of this kind can be."""
    evidence: tuple[str, ...] = ()
    """Names of the shapes of its evidence: of `weft.evidence`, or of the module of the analysis."""

    @property
    def title(self) -> str:
        """Return what it means: the first sentence of its page."""
        return _first_sentence(_paragraphs(self.page))

    @property
    def remedy(self) -> str:
        """Return what helps: the first sentence under `## Remedy` of its page."""
        return _first_sentence(_paragraphs(self.page.partition("\n## Remedy\n")[2]))

    @property
    def page(self) -> str:
        """Return its page: Markdown with cause, example and remedy."""
        return _read_page(self.slug)

    @property
    def address(self) -> str:
        """Return a web address for it."""
        return f"{HOME}#{self.slug}"


RECORDS: Final = (
    # how a rank ended
    Kind("uncaught-exception", "error", ("how the ranks ended",), evidence=("Ended",)),
    Kind("crash", "error", ("how the ranks ended",), evidence=("Ended",)),
    Kind("weft-error", "error", ("how the ranks ended",), evidence=("Ended",)),
    Kind("abort", "error", ("how the ranks ended",), evidence=("Ended",)),
    Kind("early-exit", "error", ("how the ranks ended",), evidence=("Ended",)),
    # messages and collectives
    Kind(
        "message-race", "warning", ("message races", "lifetime and threads"), evidence=("Race", "OrderOnly", "Around")
    ),
    Kind("deadlock", "error", ("deadlock", CHECK), evidence=("Deadlock", "Processes")),
    Kind(
        "potential-deadlock",
        "warning",
        ("potential deadlock", "other matches", CHECK),
        evidence=("Cycle", "Alternative", "Untried", "Processes"),
    ),
    Kind(
        "collective-mismatch",
        "error",
        ("collectives", "lifetime and threads"),
        evidence=("Instance", "Absent", "Freed"),
    ),
    Kind("argument-mismatch", "error", ("collectives",), evidence=("Argument",)),
    Kind(
        "type-mismatch",
        "error",
        ("messages", "memory behind buffers", "packing and buffers"),
        evidence=("Sizes", "Variable", "Around"),
    ),
    Kind("truncation", "error", ("messages",), evidence=("Sizes", "Around")),
    Kind("unmatched-send", "error", ("messages",), evidence=("Sent",)),
    Kind("unmatched-receive", "error", ("messages",), evidence=("Wanted",)),
    # requests, objects and arguments
    Kind("request-leak", "error", ("requests",)),
    Kind("request-misuse", "error", ("requests",)),
    Kind(
        "buffer-reuse",
        "error",
        ("requests", "accesses of buffers", "one-sided"),
        evidence=("Overlap", "Sampled", "MetPending"),
    ),
    Kind("buffer-overrun", "error", ("memory behind buffers",), evidence=("Overrun", "Outlived")),
    Kind("resource-leak", "warning", ("resources", "packing and buffers"), evidence=("OfClass",)),
    Kind(
        "invalid-argument",
        "error",
        ("invalid arguments", "packing and buffers", "lifetime and threads", "one-sided", "ready sends"),
        evidence=("Parameter", "Refused", "Returned", "Spawned"),
    ),
    # one-sided
    Kind("epoch-misuse", "error", ("one-sided",), evidence=("Epoch",)),
    Kind(
        "rma-race",
        "error",
        ("one-sided", "accesses of windows"),
        evidence=("WindowOverlap", "MetOperation", "MetShared"),
    ),
    Kind("file-race", "error", ("files",), evidence=("Bytes",)),
    # waiting
    Kind("late-sender", "note", ("waits",), evidence=("Cost",)),
    Kind("late-receiver", "note", ("waits",), evidence=("Cost",)),
    Kind("wait-at-collective", "note", ("waits",), evidence=("Cost",)),
    Kind("wait-at-epoch", "note", ("waits",), evidence=("Cost",)),
    Kind("imbalance", "note", ("waits",), evidence=("Imbalance",)),
    # data-parallel programs
    Kind("data-race", "error", (CHECK,), evidence=("CheckCase",)),
    Kind("missed-barrier", "error", (CHECK,), evidence=("Processes",)),
    Kind("loop-dependence", "error", (CHECK,), evidence=("CheckCase", "Compared")),
    Kind("uninitialised-read", "error", (CHECK,), evidence=("CheckCase",)),
    Kind("shared-write", "error", (CHECK,), evidence=("CheckCase", "Compared")),
    Kind("early-copy-use", "error", (CHECK,), evidence=("CheckCase",)),
    Kind("early-reduction-use", "error", ("accesses of buffers", CHECK), evidence=("MetPending", "CheckCase")),
    Kind("out-of-bounds", "error", (CHECK,), evidence=("CheckCase",)),
    Kind("remote-access", "error", ("ghost cells", CHECK), evidence=("Ghost", "CheckCase")),
    Kind("halo-write", "error", ("ghost cells", CHECK), evidence=("Ghost", "CheckCase")),
    Kind("stale-halo-read", "error", ("ghost cells", CHECK), evidence=("Ghost", "CheckCase")),
    Kind("stale-copy", "error", (CHECK,), evidence=("CheckCase",)),
    Kind("directive-order", "error", (CHECK,), evidence=("CheckCase",)),
    Kind("merged-task", "warning", (CHECK,), evidence=("CheckCase",)),
    Kind("wrong-reduction", "error", ("reductions", CHECK), evidence=("Element", "CheckCase", "Compared")),
    Kind("divergence", "warning", (CHECK,), evidence=("Compared",)),
)
"""Every kind there is."""

KINDS: Final[Mapping[str, Kind]] = {kind.slug: kind for kind in RECORDS}
"""The kinds by their slugs."""


def find_kind(slug: str) -> Kind:
    """Return the kind of finding that has a slug. Raises UsageError, which names the nearest slug, if there is none."""
    if slug not in KINDS:
        import difflib  # nearly all slugs exist

        near = difflib.get_close_matches(slug, KINDS, 1, 0.5)
        hint = f" (did you mean {near[0]}?);" if near else ";"
        raise UsageError(f"there is no kind of finding {slug!r}{hint} `weft explain` lists all kinds")
    return KINDS[slug]


@cache
def _read_page(slug: str) -> str:
    """Return the Markdown text of a kind's page. Raises WeftError if it is not installed."""
    # Every command imports the kinds, few print their pages.
    from importlib.resources import files

    try:
        return (files("weft") / "explanations" / f"{slug}.md").read_text(encoding="utf-8")
    except OSError as error:
        raise WeftError(f"the page of {slug} is missing ({error.strerror}): install Weft again") from None


def _paragraphs(text: str) -> list[str]:
    return [part.strip() for part in text.split("\n\n") if part.strip() and not part.strip().startswith("#")]


def _first_sentence(paragraphs: list[str]) -> str:
    """Return the first sentence of the first paragraph; "" if there is no paragraph."""
    text = " ".join(paragraphs[0].split()) if paragraphs else ""
    found = _SENTENCE.match(text)
    return found[0] if found else text
