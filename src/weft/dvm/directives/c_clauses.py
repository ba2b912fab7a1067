"""Clauses of C-DVMH's loops and task regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from weft.dvm import syntax
from weft.dvm.directives.c_parts import CPartReader
from weft.dvm.syntax import (
    Affine,
    DirectiveError,
    Reference,
    Whole,
    Width,
)


class CClauseReader(CPartReader):
    """Reads clauses."""

    reductions = ("sum", "product", "max", "min", "and", "or", "xor", "maxloc", "minloc")

    def has_groups(self) -> bool:
        """Return those of the old form have."""
        return self.old

    def clauses(self, of: str) -> tuple[syntax.Clause, ...]:
        """Read the clauses of a loop or a task region."""
        cursor = self.cursor
        clauses: list[syntax.Clause] = []
        while self.separated():
            word = cursor.name("a clause")
            reader = CLAUSES.get(word.text) or (OLD_CLAUSES.get(word.text) if self.old else None)
            if reader is None:
                known = ", ".join(sorted(CLAUSES))
                cursor.fail(f"`{word.text}` is not a clause of {of}; known are {known}", word)
            cursor.expect("(")
            clauses.append(reader(self))
        return tuple(clauses)

    def private(self) -> syntax.Clause:
        """`private(a, b)`."""
        return syntax.Private(self.cursor.listed(self.bare))

    def reduction(self) -> syntax.Clause:
        """`reduction(sum(s), maxloc(m, where))`; in the old form `reduction(group: sum(s))`, too."""
        group = self.group()
        return syntax.Reductions(self.cursor.listed(self.one_reduction), group)

    def shadow_renew(self) -> syntax.Clause:
        """`shadow_renew(a[1:1][1:1](corner), b)`."""
        return syntax.ShadowRenew(self.cursor.listed(self.renewal))

    def renewal(self) -> syntax.Renewal:
        """Read `a[1:1](corner)`."""
        word = self.cursor.name("an array")
        widths = self.shadow().widths if self.cursor.text == "[" else None
        corner = self.cursor.accept("(")
        if corner:
            self.cursor.expect("corner")
            self.cursor.expect(")")
        return syntax.Renewal(Reference(word.text, None, word.place), widths, corner)

    def across(self) -> syntax.Clause:
        """`across(a[1:1], out:b[0:1])`."""
        return syntax.Across(self.cursor.listed(self.dependence))

    def dependence(self) -> syntax.Dependence:
        """Read `a[1:1][0:0]`."""
        out = self.cursor.accept("out", ":")
        word = self.cursor.name("an array")
        widths: list[Width] = []
        while self.cursor.accept("["):
            widths.append(self.width())
            self.cursor.expect("]")
        array = Reference(word.text, None, word.place)
        return syntax.Dependence(array, tuple(widths) or None, "out" if out else "inout")

    def remote(self) -> syntax.Remote:
        """Read `a[i][], b[1]` and the closing bracket; in the old form `group: a[i][]`, too."""
        group = self.group()
        return syntax.Remote(self.cursor.listed(self.subscripted), group)

    def subscripted(self) -> Reference:
        """Read a name with subscripts."""
        found = self.reference()
        if found.subscripts is None:
            raise DirectiveError(found.place, f"`{found.name}` needs subscripts here: {found.name}[] for all of it")
        return found

    def tie(self) -> syntax.Clause:
        """`tie(a[i][-j])`."""
        items = self.cursor.listed(self.subscripted)
        for item in items:
            for subscript in item.subscripts or ():
                if not isinstance(subscript, Affine | Whole):
                    raise DirectiveError(item.place, "`tie` takes a loop's index, its negative, or nothing")
        return syntax.Tie(items)

    def stage(self) -> syntax.Clause:
        """`stage(n)`."""
        depth = self.cursor.expression()
        self.cursor.expect(")")
        return syntax.Stage(depth)

    def cuda_block(self) -> syntax.Clause:
        """`cuda_block(32, 8)`."""
        return syntax.CudaBlock(self.cursor.listed(self.cursor.expression))

    def shadow_use(self, kind: Literal["start", "wait"]) -> syntax.Clause:
        """`shadow_start(group)` or `shadow_wait(group)` on a loop."""
        group = self.cursor.name("a group").text
        self.cursor.expect(")")
        return syntax.ShadowUse(kind, group)


CLAUSES: Final[dict[str, Callable[[CClauseReader], syntax.Clause]]] = {
    "private": CClauseReader.private,
    "reduction": CClauseReader.reduction,
    "shadow_renew": CClauseReader.shadow_renew,
    "across": CClauseReader.across,
    "remote_access": CClauseReader.remote,
    "tie": CClauseReader.tie,
    "stage": CClauseReader.stage,
    "cuda_block": CClauseReader.cuda_block,
}

OLD_CLAUSES: Final[dict[str, Callable[[CClauseReader], syntax.Clause]]] = {
    "shadow_start": lambda reader: reader.shadow_use("start"),
    "shadow_wait": lambda reader: reader.shadow_use("wait"),
}
