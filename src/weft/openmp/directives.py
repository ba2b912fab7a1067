"""OpenMP directives, parsed and rewritten for the simulated runtime: each iteration is a strand of its own.

The rewritten schedule passes two facts to the runtime. Its kind: `guided` means a static schedule of the program, by
which the same iteration of two loops runs on the same thread; `dynamic` means all others. Its chunk: the line of the
directive, because the compiler gives the call that begins a loop no line, and the program's own chunk. A simd loop
becomes a parallel loop whose number of threads marks its iterations as lanes.

Clauses that only affect the speed of a loop are removed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LANES: Final = 1_000_000
"""`num_threads` of a simd loop, and its safelen added: native/loops.c knows it."""
LINES: Final = 1 << 24
"""By which the program's own chunk is multiplied before the line is added: native/loops.c knows it, too."""
WORDS: Final = frozenset(
    "parallel for do simd sections section target teams distribute taskloop master masked loop ordered workshare "
    "single task critical barrier atomic end data enter exit update declare".split()
)
_OF_SIMD: Final = frozenset(("safelen", "simdlen", "aligned", "nontemporal", "order"))
_OF_TEAMS: Final = frozenset(("num_teams", "thread_limit", "dist_schedule"))
_TOKEN: Final = re.compile(r"\s*,?\s*(?P<word>[A-Za-z_]\w*)\s*(?P<open>\()?")


@dataclass(frozen=True, slots=True)
class OpenMPClause:
    """A clause such as `schedule(static, 4)`: its word, and the text in its brackets (None without brackets)."""

    word: str
    inside: str | None = None

    def __str__(self) -> str:
        return self.word if self.inside is None else f"{self.word}({self.inside})"


@dataclass(frozen=True, slots=True)
class OpenMPDirective:
    """A directive: the words that name it (`("parallel", "for")`), and its clauses."""

    head: tuple[str, ...]
    clauses: tuple[OpenMPClause, ...]

    def __str__(self) -> str:
        return " ".join((*self.head, *map(str, self.clauses)))

    @property
    def is_simd_loop(self) -> bool:
        """Return whether the directive is `simd` alone, not combined with another."""
        return self.head == ("simd",)

    @property
    def has_inscan_reduction(self) -> bool:
        """Return whether the loop has an inscan reduction, with which the compiler accepts no schedule."""
        return any(c.word == "reduction" and (c.inside or "").strip().startswith("inscan") for c in self.clauses)

    def find_clause(self, word: str) -> OpenMPClause | None:
        """Return the first clause with the given word, or None."""
        return next((one for one in self.clauses if one.word == word), None)

    def without_clauses(self, words: frozenset[str]) -> OpenMPDirective:
        """Return the directive without the clauses of the given words."""
        return OpenMPDirective(self.head, tuple(one for one in self.clauses if one.word not in words))

    def with_clauses(self, *clauses: OpenMPClause) -> OpenMPDirective:
        """Return the directive with more clauses at its end."""
        return OpenMPDirective(self.head, (*self.clauses, *clauses))


def parse_directive(text: str, folded: bool = False) -> OpenMPDirective | None:
    """Parse the text after `#pragma omp` or `!$omp`; None if it is not a directive that can be read.

    `folded`: write the words of clauses in lower case, as Fortran is not case-sensitive.
    """
    words: list[OpenMPClause] = []
    at = 0
    while at < len(text.rstrip()):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at = token.end()
        word = token["word"].lower() if folded else token["word"]
        if not token["open"]:
            words.append(OpenMPClause(word))
            continue
        end = find_closing_bracket(text, at - 1)
        if end < 0:
            return None
        words.append(OpenMPClause(word, text[at:end]))
        at = end + 1
    head = []
    for one in words:
        if one.inside is not None or one.word.lower() not in WORDS:
            break
        head.append(one.word.lower())
    return OpenMPDirective(tuple(head), tuple(words[len(head) :])) if head else None


def find_closing_bracket(text: str, at: int) -> int:
    """Return the index of the bracket that closes the one at `at`; -1 if none does."""
    depth = 0
    for k in range(at, len(text)):
        depth += (text[k] == "(") - (text[k] == ")")
        if not depth:
            return k
    return -1


def rewrite_for_runtime(one: OpenMPDirective, loop: str, line: int, index: str = "") -> OpenMPDirective:
    """Return the directive as the simulated runtime needs it.

    `loop`: the language's word for a loop (`for` or `do`). `line`: the directive's line, which is passed on in its
    schedule. `index`: the loop's variable, which keeps its last value after a simd loop; "" if the loop declares it.
    """
    ends = one.head[:1] == ("end",)
    head = list(one.head)
    if one.has_inscan_reduction:
        return one
    if "workshare" in head:  # gfortran parts some array assignments that must not be, and names no lines in it
        return OpenMPDirective(tuple("single" if word == "workshare" else word for word in head), one.clauses)
    if "loop" in head:
        at = head.index("loop")
        head[at : at + 1] = [loop] if "parallel" in head or "teams" not in head else ["parallel", loop]
        one = one.without_clauses(frozenset(("bind",)))
        if "teams" in head:
            head.remove("teams")
            one = one.without_clauses(_OF_TEAMS)
    if "teams" in head and "distribute" in head:
        at = head.index("distribute")
        head[at : at + 1] = [] if "parallel" in head else ["parallel", loop]
        head.remove("teams")
        one = one.without_clauses(_OF_TEAMS)
    if "simd" in head and "declare" not in head:
        if len(head) > 1 + ends:
            head.remove("simd")
            one = _drop_if_clause(one.without_clauses(_OF_SIMD), "simd")
        else:
            return _rewrite_simd_loop(one, loop, line, index)
    made = OpenMPDirective(tuple(head), one.clauses)
    return made if ends or loop not in head else _set_schedule(made, loop, line)


def split_combined(one: OpenMPDirective) -> tuple[OpenMPDirective, ...]:
    """Split a Fortran directive into two if gfortran needs that, else return it alone.

    `parallel single` does not exist in Fortran; and gfortran 12 ignores `depend` on a combined target construct, so
    that a `taskwait depend` goes before it.
    """
    before = tuple(clause for clause in one.clauses if clause.word == "depend")
    if before and one.head[0] == "target" and len(one.head) > 1 and not {"data", "update"} & set(one.head):
        return OpenMPDirective(("taskwait",), before), one.without_clauses(frozenset(("depend", "nowait")))
    if one.head == ("parallel", "single"):
        return OpenMPDirective(("parallel",), one.clauses), OpenMPDirective(("single",), ())
    if one.head == ("end", "parallel", "single"):
        return OpenMPDirective(("end", "single"), ()), OpenMPDirective(("end", "parallel"), ())
    return (one,)


def _rewrite_simd_loop(one: OpenMPDirective, loop: str, line: int, index: str) -> OpenMPDirective:
    """Return a simd loop as a parallel loop whose iterations the runtime treats as lanes (see LANES)."""
    if one.head[0] == "end":
        return OpenMPDirective(("end", "parallel", loop), ())
    safelen = one.find_clause("safelen")
    words = (safelen.inside or "").strip() if safelen else ""
    at = int(words) if words.isdigit() else 0
    named = any(
        index and re.search(rf"\b{re.escape(index)}\b", c.inside or "", re.I)
        for c in one.clauses
        if c.word in ("lastprivate", "private", "linear")
    )
    kept = _drop_if_clause(one.without_clauses(_OF_SIMD), "simd").clauses
    kept = tuple(c for c in kept if not (c.word == "linear" and index and index.lower() in (c.inside or "").lower()))
    linear = one.find_clause("linear")
    lost = linear is not None and index and index.lower() in (linear.inside or "").lower()
    last = (OpenMPClause("lastprivate", index),) if index and (lost or not named) else ()
    return OpenMPDirective(
        ("parallel", loop),
        (*kept, *last, OpenMPClause("num_threads", str(LANES + at)), OpenMPClause("schedule", f"dynamic, {line}")),
    )


def _drop_if_clause(one: OpenMPDirective, word: str) -> OpenMPDirective:
    """Return the directive without its clause `if(WORD: ...)`."""
    return OpenMPDirective(
        one.head, tuple(c for c in one.clauses if not (c.word == "if" and (c.inside or "").strip().startswith(word)))
    )


def _set_schedule(one: OpenMPDirective, loop: str, line: int) -> OpenMPDirective:
    """Return the directive with the schedule that tells the runtime kind, line and chunk of the loop, in place of its
    own.
    """
    schedule = one.find_clause("schedule")
    words, _, chunk = (schedule.inside or "").partition(",") if schedule else ("", "", "")
    kind = words.rpartition(":")[2].strip().lower()
    order = one.find_clause("order")
    modifier = (order.inside or "").partition(":")[0].strip().lower() if order else ""
    if modifier == "reproducible" and not kind:
        kind = "static"  # the same iteration of two such loops is the same thread's
    elif modifier == "unconstrained":
        kind = ""
    own = chunk.strip() if kind in ("static", "dynamic") else ""  # guided's chunks may be larger than it says
    if own:
        own = f" + (long)({own}) * {LINES}L" if loop == "for" else f" + int({own}, 8) * {LINES}_8"
    said = OpenMPClause("schedule", f"{'guided' if kind == 'static' else 'dynamic'}, {line}{own}")
    # With an order the compiler deals the iterations out itself.
    return one.without_clauses(frozenset(("schedule", "order"))).with_clauses(said)
