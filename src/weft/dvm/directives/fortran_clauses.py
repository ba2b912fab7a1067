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

    def read_reduced(self) -> Reference:
        """Read the variable of a reduction, which may have subscripts."""
        return self.read_reference()

    def read_clauses(
        self, clause_readers: dict[str, Callable[[FortranClauseReader], syntax.Clause]], construct_name: str
    ) -> tuple[syntax.Clause, ...]:
        """Read clauses up to the directive's end, each by the reader of its keyword. Raises DirectiveError for an
        unknown one.
        """
        cursor = self.cursor
        found: list[syntax.Clause] = []
        while not cursor.ended:
            while cursor.accept(","):
                pass
            word = cursor.take_name("a clause")
            reader = clause_readers.get(cursor.fold(word))
            if reader is None:
                cursor.fail(
                    f"`{word.text}` is not a clause of {construct_name}; its clauses are "
                    f"{', '.join(sorted(clause_readers))}",
                    word,
                )
            found.append(reader(self))
            if cursor.ended:
                break
        return tuple(found)

    def read_private(self) -> syntax.Clause:
        """Read `private(a, b)` and `new(a, b)`."""
        return syntax.Private(self.read_references())

    def read_reduction(self) -> syntax.Clause:
        """Read `reduction(sum(s), …)` and `reduction(group: sum(s), …)`."""
        self.cursor.expect("(")
        group = self.read_group()
        return syntax.Reductions(self.cursor.read_list(self.read_one_reduction), group)

    def read_shadow_renew(self) -> syntax.Clause:
        """Read `shadow_renew(a(1:1,1:1)(corner), b)`."""
        return syntax.ShadowRenew(self.read_renewals())

    def read_renewals(self) -> tuple[syntax.Renewal, ...]:
        """Read `(a, b(corner), c(1:1)(corner))`."""
        self.cursor.expect("(")
        return self.cursor.read_list(self.read_renewal)

    def read_renewal(self) -> syntax.Renewal:
        """Read one array whose shadow edges are renewed: `a(1:1)(corner)`."""
        cursor = self.cursor
        array = self.read_bare()
        widths = None
        corner = cursor.accept("(", "corner", ")")
        if not corner and cursor.accept("("):
            widths = cursor.read_list(self.read_edge)
            corner = cursor.accept("(", "corner", ")")
        return syntax.Renewal(array, widths, corner)

    def read_shadow_use(self, kind: str) -> syntax.Clause:
        """Read `shadow_start group`, `shadow_wait group`."""
        return syntax.ShadowUse("start" if kind == "start" else "wait", self.cursor.take_name_text("a group"))

    def read_shadow_compute(self) -> syntax.Clause:
        """Read `shadow_compute` and `shadow_compute(a(1:1))`."""
        array = None
        if self.cursor.accept("("):
            array = self.read_renewal()
            self.cursor.expect(")")
        return syntax.ShadowUse("compute", None, array)

    def read_across(self) -> syntax.Clause:
        """Read `across(a(1:1), …)` and `across(in: a(1:1))(out: b)`."""
        found: list[syntax.Dependence] = []
        self.way = "inout"
        self.cursor.expect("(")
        while True:
            for way in ("in", "out"):
                if self.cursor.accept(way, ":"):
                    self.way = way
            found.extend(self.cursor.read_list(self.read_dependence))
            if not self.cursor.accept("("):
                return syntax.Across(tuple(found))

    def read_dependence(self) -> syntax.Dependence:
        """Read one array of `across` with the widths of its dependences: `a(1:1,0:0)`. Sections after them are passed
        over.
        """
        cursor = self.cursor
        array = self.read_bare()
        widths = cursor.read_list(self.read_width) if cursor.accept("(") else None
        if widths and cursor.text == "(" and cursor.peek() in ("section", "low", "high"):
            cursor.take()
            cursor.take_until(frozenset())
            cursor.expect(")")
        return syntax.Dependence(array, widths, self.way)  # type: ignore[arg-type]

    def read_remote(self) -> syntax.Remote:
        """Read the arrays of a remote access: `(a(i,:), b)` or `(group: a(i,:))`."""
        self.cursor.expect("(")
        group = self.read_group()
        return syntax.Remote(self.cursor.read_list(self.read_reference), group)

    def read_indirect(self) -> syntax.Remote:
        """Read the arrays of `indirect_access`, in the form of `remote_access`."""
        found = self.read_remote()
        return syntax.Remote(found.items, found.group, indirect=True)

    def read_tie(self) -> syntax.Clause:
        """Read `tie(a(i,-j))`."""
        return syntax.Tie(self.read_references())

    def read_consistent(self) -> syntax.Clause:
        """Read `consistent(a)` and `consistent(group: a(i))`."""
        found = self.read_remote()
        return syntax.Consistent(found.items, found.group)

    def read_stage(self) -> syntax.Clause:
        """Read the clause `stage(n)`, the depth of a pipelined loop."""
        self.cursor.expect("(")
        depth = self.cursor.read_expression()
        self.cursor.expect(")")
        return syntax.Stage(depth)

    def read_cuda_block(self) -> syntax.Clause:
        """Read `cuda_block(32,8)`."""
        self.cursor.expect("(")
        return syntax.CudaBlock(self.cursor.read_list(self.cursor.read_expression))


CLAUSES: Final[dict[str, Callable[[FortranClauseReader], syntax.Clause]]] = {
    "private": FortranClauseReader.read_private,
    "new": FortranClauseReader.read_private,
    "firstprivate": FortranClauseReader.read_private,
    "reduction": FortranClauseReader.read_reduction,
    "shadow_renew": FortranClauseReader.read_shadow_renew,
    "shadow_start": lambda reader: reader.read_shadow_use("start"),
    "shadow_wait": lambda reader: reader.read_shadow_use("wait"),
    "shadow_compute": FortranClauseReader.read_shadow_compute,
    "across": FortranClauseReader.read_across,
    "remote_access": FortranClauseReader.read_remote,
    "indirect_access": FortranClauseReader.read_indirect,
    "tie": FortranClauseReader.read_tie,
    "consistent": FortranClauseReader.read_consistent,
    "stage": FortranClauseReader.read_stage,
    "cuda_block": FortranClauseReader.read_cuda_block,
}
