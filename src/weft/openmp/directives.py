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
LANES_IN_ORDER: Final = "critical(weft_lanes_in_order)"
"""What stands for `ordered simd`: lanes begin one after another, and such a block comes after those before it."""
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
    def is_order_of_lanes(self) -> bool:
        """Return whether the directive is `ordered simd`, whose blocks run in the order of a simd loop's lanes."""
        return self.head == ("ordered", "simd") and self.find_clause("threads") is None

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


def parse_directive(directive_text: str, ignores_case: bool = False) -> OpenMPDirective | None:
    """Return the directive in the text after `#pragma omp` or `!$omp`; None if it cannot be read.

    `ignores_case`: return the words of clauses in lower case, as Fortran is not case-sensitive.
    """
    words: list[OpenMPClause] = []
    at = 0
    while at < len(directive_text.rstrip()):
        token = _TOKEN.match(directive_text, at)
        if token is None:
            return None
        at = token.end()
        word = token["word"].lower() if ignores_case else token["word"]
        if not token["open"]:
            words.append(OpenMPClause(word))
            continue
        end = find_closing_bracket(directive_text, at - 1)
        if end < 0:
            return None
        words.append(OpenMPClause(word, directive_text[at:end]))
        at = end + 1
    head = []
    for one in words:
        if one.inside is not None or one.word.lower() not in WORDS:
            break
        head.append(one.word.lower())
    return OpenMPDirective(tuple(head), tuple(words[len(head) :])) if head else None


def find_line_starts(text: str) -> list[int]:
    """Return the index at which each line of a text begins."""
    return [0, *(found.end() for found in re.finditer("\n", text))]


def find_closing_bracket(text: str, opening: int, brackets: str = "()") -> int:
    """Return the index of the bracket that closes the one at index `opening`; -1 if none does. `brackets`: the opening
    and the closing one.
    """
    depth = 0
    for k in range(opening, len(text)):
        depth += (text[k] == brackets[0]) - (text[k] == brackets[1])
        if not depth:
            return k
    return -1


def rewrite_for_runtime(
    directive: OpenMPDirective, loop_word: str, line: int, loop_variable: str = ""
) -> OpenMPDirective:
    """Return a directive in the form that the simulated runtime needs.

    `loop_word`: the language's word for a loop (`for` or `do`). `line`: the directive's line, which its schedule passes
    to the runtime. `loop_variable`: keeps its last value after a simd loop; "" if the loop declares it.
    """
    ends = directive.head[:1] == ("end",)
    head = list(directive.head)
    if directive.has_inscan_reduction:
        return directive
    if "workshare" in head:  # gfortran parts some array assignments that must not be, and names no lines in it
        return OpenMPDirective(tuple("single" if word == "workshare" else word for word in head), directive.clauses)
    if "loop" in head:
        at = head.index("loop")
        head[at : at + 1] = [loop_word] if "parallel" in head or "teams" not in head else ["parallel", loop_word]
        directive = directive.without_clauses(frozenset(("bind",)))
        if "teams" in head:
            head.remove("teams")
            directive = directive.without_clauses(_OF_TEAMS)
    if "teams" in head and "distribute" in head:
        at = head.index("distribute")
        head[at : at + 1] = [] if "parallel" in head else ["parallel", loop_word]
        head.remove("teams")
        directive = directive.without_clauses(_OF_TEAMS)
    if directive.is_order_of_lanes:
        return OpenMPDirective((LANES_IN_ORDER,), ())
    if "simd" in head and "declare" not in head:
        if len(head) > 1 + ends:
            head.remove("simd")
            directive = _drop_if_clause(directive.without_clauses(_OF_SIMD), "simd")
        else:
            return _rewrite_simd_loop(directive, loop_word, line, loop_variable)
    made = OpenMPDirective(tuple(head), directive.clauses)
    return made if ends or loop_word not in head else _set_schedule(made, loop_word, line)


def split_combined(directive: OpenMPDirective) -> tuple[OpenMPDirective, ...]:
    """Return a Fortran directive as the one or two directives that gfortran needs.

    `parallel single` does not exist in Fortran; and gfortran 12 ignores `depend` on a combined target construct, so
    that a `taskwait depend` goes before it.
    """
    before = tuple(clause for clause in directive.clauses if clause.word == "depend")
    if (
        before
        and directive.head[0] == "target"
        and len(directive.head) > 1
        and not {"data", "update"} & set(directive.head)
    ):
        return OpenMPDirective(("taskwait",), before), directive.without_clauses(frozenset(("depend", "nowait")))
    if directive.head == ("parallel", "single"):
        return OpenMPDirective(("parallel",), directive.clauses), OpenMPDirective(("single",), ())
    if directive.head == ("end", "parallel", "single"):
        return OpenMPDirective(("end", "single"), ()), OpenMPDirective(("end", "parallel"), ())
    return (directive,)


def _rewrite_simd_loop(directive: OpenMPDirective, loop_word: str, line: int, loop_variable: str) -> OpenMPDirective:
    """Return the directive of a parallel loop to write in place of a simd loop's. By its `num_threads` (see LANES) the
    runtime knows that the iterations are lanes of a simd loop. `loop_variable`: gets a `lastprivate` where that is
    needed.
    """
    if directive.head[0] == "end":
        return OpenMPDirective(("end", "parallel", loop_word), ())
    safelen = directive.find_clause("safelen")
    words = (safelen.inside or "").strip() if safelen else ""
    at = int(words) if words.isdigit() else 0
    named = any(
        loop_variable and re.search(rf"\b{re.escape(loop_variable)}\b", c.inside or "", re.I)
        for c in directive.clauses
        if c.word in ("lastprivate", "private", "linear")
    )
    kept = _drop_if_clause(directive.without_clauses(_OF_SIMD), "simd").clauses
    kept = tuple(
        c
        for c in kept
        if not (c.word == "linear" and loop_variable and loop_variable.lower() in (c.inside or "").lower())
    )
    linear = directive.find_clause("linear")
    lost = linear is not None and loop_variable and loop_variable.lower() in (linear.inside or "").lower()
    last = (OpenMPClause("lastprivate", loop_variable),) if loop_variable and (lost or not named) else ()
    return OpenMPDirective(
        ("parallel", loop_word),
        (*kept, *last, OpenMPClause("num_threads", str(LANES + at)), OpenMPClause("schedule", f"dynamic, {line}")),
    )


def _drop_if_clause(directive: OpenMPDirective, modifier: str) -> OpenMPDirective:
    """Return the directive without its clause `if(MODIFIER: ...)`, where MODIFIER is `modifier`."""
    return OpenMPDirective(
        directive.head,
        tuple(c for c in directive.clauses if not (c.word == "if" and (c.inside or "").strip().startswith(modifier))),
    )


def _set_schedule(directive: OpenMPDirective, loop_word: str, line: int) -> OpenMPDirective:
    """Return a directive with a new schedule, which passes the loop's kind of schedule, line and chunk to the runtime.
    The program's own schedule and order are removed.
    """
    schedule = directive.find_clause("schedule")
    words, _, chunk = (schedule.inside or "").partition(",") if schedule else ("", "", "")
    kind = words.rpartition(":")[2].strip().lower()
    order = directive.find_clause("order")
    modifier = (order.inside or "").partition(":")[0].strip().lower() if order else ""
    if modifier == "reproducible" and not kind:
        kind = "static"  # the same iteration of two such loops is the same thread's
    elif modifier == "unconstrained":
        kind = ""
    own = chunk.strip() if kind in ("static", "dynamic") else ""  # guided's chunks may be larger than it says
    if own:
        own = f" + (long)({own}) * {LINES}L" if loop_word == "for" else f" + int({own}, 8) * {LINES}_8"
    said = OpenMPClause("schedule", f"{'guided' if kind == 'static' else 'dynamic'}, {line}{own}")
    # With an order the compiler deals the iterations out itself.
    return directive.without_clauses(frozenset(("schedule", "order"))).with_clauses(said)
