"""Clauses of Fortran-DVM(H)'s loops and tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from weft.dvm import syntax
from weft.dvm.directives.fortran_parts import FortranPartReader
from weft.dvm.syntax import Reference


class FortranClauseReader(FortranPartReader):
    """Reads clauses."""

    reductions = ("sum", "product", "max", "min", "and", "or", "eqv", "neqv", "maxloc", "minloc")

    def reduced(self) -> Reference:
        """Read the variable of a reduction, which may have subscripts."""
        return self.reference()

    def clauses(
        self, known: dict[str, Callable[[FortranClauseReader], syntax.Clause]], of: str
    ) -> tuple[syntax.Clause, ...]:
        """Read the clauses up to the end."""
        cursor = self.cursor
        found: list[syntax.Clause] = []
        while not cursor.ended:
            while cursor.accept(","):
                pass
            word = cursor.name("a clause")
            reader = known.get(cursor.fold(word))
            if reader is None:
                cursor.fail(f"`{word.text}` is not a clause of {of}; known are {', '.join(sorted(known))}", word)
            found.append(reader(self))
            if cursor.ended:
                break
        return tuple(found)

    def private(self) -> syntax.Clause:
        """`private(a, b)` and `new(a, b)`."""
        return syntax.Private(self.references())

    def reduction(self) -> syntax.Clause:
        """`reduction(sum(s), …)` and `reduction(group: sum(s), …)`."""
        self.cursor.expect("(")
        group = self.group()
        return syntax.Reductions(self.cursor.listed(self.one_reduction), group)

    def shadow_renew(self) -> syntax.Clause:
        """`shadow_renew(a(1:1,1:1)(corner), b)`."""
        return syntax.ShadowRenew(self.renewals())

    def renewals(self) -> tuple[syntax.Renewal, ...]:
        """Read `(a, b(corner), c(1:1)(corner))`."""
        self.cursor.expect("(")
        return self.cursor.listed(self.renewal)

    def renewal(self) -> syntax.Renewal:
        """Read `a(1:1)(corner)`."""
        cursor = self.cursor
        array = self.bare()
        widths = None
        corner = cursor.accept("(", "corner", ")")
        if not corner and cursor.accept("("):
            widths = cursor.listed(self.edge)
            corner = cursor.accept("(", "corner", ")")
        return syntax.Renewal(array, widths, corner)

    def shadow_use(self, kind: str) -> syntax.Clause:
        """`shadow_start group`, `shadow_wait group`."""
        return syntax.ShadowUse("start" if kind == "start" else "wait", self.cursor.named("a group"))

    def shadow_compute(self) -> syntax.Clause:
        """`shadow_compute` and `shadow_compute(a(1:1))`."""
        array = None
        if self.cursor.accept("("):
            array = self.renewal()
            self.cursor.expect(")")
        return syntax.ShadowUse("compute", None, array)

    def across(self) -> syntax.Clause:
        """`across(a(1:1), …)` and `across(in: a(1:1))(out: b)`."""
        found: list[syntax.Dependence] = []
        self.way = "inout"
        self.cursor.expect("(")
        while True:
            for way in ("in", "out"):
                if self.cursor.accept(way, ":"):
                    self.way = way
            found.extend(self.cursor.listed(self.dependence))
            if not self.cursor.accept("("):
                return syntax.Across(tuple(found))

    def dependence(self) -> syntax.Dependence:
        """Read `a(1:1,0:0)` and, passing over them, its sections."""
        cursor = self.cursor
        array = self.bare()
        widths = cursor.listed(self.width) if cursor.accept("(") else None
        if widths and cursor.text == "(" and cursor.peek() in ("section", "low", "high"):
            cursor.next()
            cursor.until(frozenset())
            cursor.expect(")")
        return syntax.Dependence(array, widths, self.way)  # type: ignore[arg-type]

    def remote(self) -> syntax.Remote:
        """Read `(a(i,:), b)` and `(group: a(i,:))`."""
        self.cursor.expect("(")
        group = self.group()
        return syntax.Remote(self.cursor.listed(self.reference), group)

    def indirect(self) -> syntax.Remote:
        """Read what `indirect_access` has."""
        found = self.remote()
        return syntax.Remote(found.items, found.group, indirect=True)

    def tie(self) -> syntax.Clause:
        """`tie(a(i,-j))`."""
        return syntax.Tie(self.references())

    def consistent(self) -> syntax.Clause:
        """`consistent(a)` and `consistent(group: a(i))`."""
        found = self.remote()
        return syntax.Consistent(found.items, found.group)

    def stage(self) -> syntax.Clause:
        """`stage(n)`."""
        self.cursor.expect("(")
        depth = self.cursor.expression()
        self.cursor.expect(")")
        return syntax.Stage(depth)

    def cuda_block(self) -> syntax.Clause:
        """`cuda_block(32,8)`."""
        self.cursor.expect("(")
        return syntax.CudaBlock(self.cursor.listed(self.cursor.expression))


CLAUSES: Final[dict[str, Callable[[FortranClauseReader], syntax.Clause]]] = {
    "private": FortranClauseReader.private,
    "new": FortranClauseReader.private,
    "firstprivate": FortranClauseReader.private,
    "reduction": FortranClauseReader.reduction,
    "shadow_renew": FortranClauseReader.shadow_renew,
    "shadow_start": lambda reader: reader.shadow_use("start"),
    "shadow_wait": lambda reader: reader.shadow_use("wait"),
    "shadow_compute": FortranClauseReader.shadow_compute,
    "across": FortranClauseReader.across,
    "remote_access": FortranClauseReader.remote,
    "indirect_access": FortranClauseReader.indirect,
    "tie": FortranClauseReader.tie,
    "consistent": FortranClauseReader.consistent,
    "stage": FortranClauseReader.stage,
    "cuda_block": FortranClauseReader.cuda_block,
}
