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
        """Return whether a clause may name a group. Only the old form of C-DVM has groups."""
        return self.old

    def read_clauses(self, construct_name: str) -> tuple[syntax.Clause, ...]:
        """Read all clauses of a loop or a task region. Raises DirectiveError for an unknown one."""
        cursor = self.cursor
        clauses: list[syntax.Clause] = []
        while self.accept_separator():
            word = cursor.take_name("a clause")
            reader = CLAUSES.get(word.text) or (OLD_CLAUSES.get(word.text) if self.old else None)
            if reader is None:
                known = ", ".join(sorted(CLAUSES))
                cursor.fail(f"`{word.text}` is not a clause of {construct_name}; its clauses are {known}", word)
            cursor.expect("(")
            clauses.append(reader(self))
        return tuple(clauses)

    def read_private(self) -> syntax.Clause:
        """Read `private(a, b)`."""
        return syntax.Private(self.cursor.read_list(self.read_bare))

    def read_reduction(self) -> syntax.Clause:
        """Read `reduction(sum(s), maxloc(m, where))`; in the old form `reduction(group: sum(s))`, too."""
        group = self.read_group()
        return syntax.Reductions(self.cursor.read_list(self.read_one_reduction), group)

    def read_shadow_renew(self) -> syntax.Clause:
        """Read `shadow_renew(a[1:1][1:1](corner), b)`."""
        return syntax.ShadowRenew(self.cursor.read_list(self.read_renewal))

    def read_renewal(self) -> syntax.Renewal:
        """Read one array whose shadow edges are renewed: `a[1:1](corner)`."""
        word = self.cursor.take_name("an array")
        widths = self.read_shadow().widths if self.cursor.text == "[" else None
        corner = self.cursor.accept("(")
        if corner:
            self.cursor.expect("corner")
            self.cursor.expect(")")
        return syntax.Renewal(Reference(word.text, None, word.place), widths, corner)

    def read_across(self) -> syntax.Clause:
        """Read `across(a[1:1], out:b[0:1])`."""
        return syntax.Across(self.cursor.read_list(self.read_dependence))

    def read_dependence(self) -> syntax.Dependence:
        """Read one array of `across`: `a[1:1][0:0]` or `out:a[1:1]`."""
        out = self.cursor.accept("out", ":")
        word = self.cursor.take_name("an array")
        widths: list[Width] = []
        while self.cursor.accept("["):
            widths.append(self.read_width())
            self.cursor.expect("]")
        array = Reference(word.text, None, word.place)
        return syntax.Dependence(array, tuple(widths) or None, "out" if out else "inout")

    def read_remote(self) -> syntax.Remote:
        """Read `a[i][], b[1]` and the closing bracket; in the old form `group: a[i][]`, too."""
        group = self.read_group()
        return syntax.Remote(self.cursor.read_list(self.read_subscripted), group)

    def read_subscripted(self) -> Reference:
        """Read a name that must have subscripts, such as `a[i][]`."""
        found = self.read_reference()
        if found.subscripts is None:
            raise DirectiveError(found.place, f"`{found.name}` needs subscripts here: {found.name}[] for all of it")
        return found

    def read_tie(self) -> syntax.Clause:
        """Read the clause `tie(a[i][-j])`, which says which loop index each dimension of an array follows."""
        items = self.cursor.read_list(self.read_subscripted)
        for item in items:
            for subscript in item.subscripts or ():
                if not isinstance(subscript, Affine | Whole):
                    raise DirectiveError(item.place, "`tie` takes a loop's index, its negative, or nothing")
        return syntax.Tie(items)

    def read_stage(self) -> syntax.Clause:
        """Read the clause `stage(n)`, the depth of a pipelined loop."""
        depth = self.cursor.read_expression()
        self.cursor.expect(")")
        return syntax.Stage(depth)

    def read_cuda_block(self) -> syntax.Clause:
        """Read `cuda_block(32, 8)`."""
        return syntax.CudaBlock(self.cursor.read_list(self.cursor.read_expression))

    def read_shadow_use(self, kind: Literal["start", "wait"]) -> syntax.Clause:
        """Read `shadow_start(group)` or `shadow_wait(group)` on a loop."""
        group = self.cursor.take_name("a group").text
        self.cursor.expect(")")
        return syntax.ShadowUse(kind, group)


CLAUSES: Final[dict[str, Callable[[CClauseReader], syntax.Clause]]] = {
    "private": CClauseReader.read_private,
    "reduction": CClauseReader.read_reduction,
    "shadow_renew": CClauseReader.read_shadow_renew,
    "across": CClauseReader.read_across,
    "remote_access": CClauseReader.read_remote,
    "tie": CClauseReader.read_tie,
    "stage": CClauseReader.read_stage,
    "cuda_block": CClauseReader.read_cuda_block,
}

OLD_CLAUSES: Final[dict[str, Callable[[CClauseReader], syntax.Clause]]] = {
    "shadow_start": lambda reader: reader.read_shadow_use("start"),
    "shadow_wait": lambda reader: reader.read_shadow_use("wait"),
}
