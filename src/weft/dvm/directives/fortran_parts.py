"""What the directives of Fortran-DVM(H) are made of: references, alignments, distributions."""

from __future__ import annotations

from typing import Final

from weft.dvm import syntax
from weft.dvm.directives.shared import SharedPartReader
from weft.dvm.syntax import (
    Expression,
    Reference,
    Section,
    Subscript,
    Whole,
    Width,
)

AXES: Final[dict[str, syntax.AxisKind]] = {
    "block": "block",
    "gen_block": "genblock",
    "genblock": "genblock",
    "wgt_block": "wgtblock",
    "wgtblock": "wgtblock",
    "mult_block": "multblock",
    "multblock": "multblock",
    "indirect": "indirect",
    "derived": "derived",
}


class FortranPartReader(SharedPartReader):
    """Reads the parts of a directive."""

    axes = AXES

    def section(self) -> Section:
        """Read `high` or `low:high`."""
        found = self.cursor.subscript(whole=("*", ":"))
        if isinstance(found, syntax.Constant):
            return Section(None, found.value)
        return found if isinstance(found, Section) else Section(None, None)

    def subscript(self) -> Subscript:
        """Read one subscript."""
        return self.cursor.subscript(whole=("*", ":"))

    def reference(self) -> Reference:
        """Read a name and its subscripts."""
        word = self.cursor.name("a variable")
        subscripts = self.cursor.listed(self.subscript) if self.cursor.accept("(") else None
        return Reference(self.cursor.fold(word), subscripts, word.place)

    def references(self) -> tuple[Reference, ...]:
        """Read `(a, b(1:2), …)`."""
        self.cursor.expect("(")
        return self.cursor.listed(self.reference)

    def entity(self) -> syntax.Entity:
        """Read a name with its sizes."""
        word = self.cursor.name()
        sizes = self.cursor.listed(self.section) if self.cursor.accept("(") else ()
        return syntax.Entity(self.cursor.fold(word), sizes, word.place)

    def entities(self) -> tuple[syntax.Entity, ...]:
        """Read names with sizes up to the end."""
        found = [self.entity()]
        while self.cursor.accept(","):
            found.append(self.entity())
        return tuple(found)

    def dummy(self) -> str | None:
        """Read one dummy of an alignment; a `:` is one too, called ":" and its number."""
        if self.cursor.accept(":"):
            self.colons += 1
            return f":{self.colons}"
        return None if self.cursor.accept("*") else self.cursor.named("a dummy")

    def alignment(self) -> syntax.Alignment:
        """Read `(i,j) with target(…)`; the k-th `:` of the dummies goes with the k-th one of the target."""
        cursor = self.cursor
        self.colons = 0
        cursor.expect("(")
        dummies = cursor.listed(self.dummy)
        cursor.expect("with")
        cursor.dummies = dummies
        word = cursor.name("a variable")
        self.colons = 0
        subscripts = cursor.listed(self.aligned) if cursor.accept("(") else None
        return syntax.Alignment(dummies, Reference(cursor.fold(word), subscripts, word.place))

    def aligned(self) -> Subscript:
        """Read one subscript of an alignment's target."""
        cursor = self.cursor
        place = cursor.word.place
        if cursor.text != ":" or cursor.peek() not in (",", ")"):
            return self.subscript()
        self.colons += 1
        name = f":{self.colons}"
        if name not in cursor.dummies:
            cursor.fail("this `:` has no `:` among the dummies; write `*` for every index")
        cursor.next()
        one, zero = Expression("1", (), place), Expression("0", (), place)
        return syntax.Affine(cursor.dummies.index(name), one, zero)

    def edge(self) -> Width | syntax.NamedEdges:
        """Read the edges of one dimension: widths, or names as `:("name", …)`."""
        if self.cursor.accept(":"):
            self.cursor.expect("(")
            return syntax.NamedEdges(self.cursor.listed(self.string))
        if self.cursor.word.kind == "string":
            return syntax.NamedEdges((self.string(),))
        return self.width()

    def distribution(self) -> syntax.Distribution:
        """Read `(block,*) onto p`; `*` alone takes what the caller gave."""
        self.cursor.accept("*")
        axes = self.cursor.listed(self.axis) if self.cursor.accept("(") else None
        onto = self.reference() if self.cursor.accept("onto") else None
        return syntax.Distribution(axes, onto)

    def block(self) -> None:
        """Read `(shadow_width = n)` behind `block`."""
        if self.cursor.accept("("):
            self.cursor.listed(self.keyed)

    def keyed(self) -> Expression:
        """Read `shadow_width = n`."""
        self.cursor.name()
        self.cursor.expect("=")
        return self.cursor.expression()

    def derived(self) -> syntax.Derived:
        """Read `(expression, low:high, …) with target(@i + "edge", …)`."""
        cursor = self.cursor
        cursor.expect("(")
        found = cursor.listed(self.derived_item)
        cursor.expect("with")
        target = cursor.named("an array")
        subscripts: tuple[Expression | Whole | str, ...] = ()
        self.edges: list[str] = []
        if cursor.accept("("):
            subscripts = cursor.listed(self.derived_subscript)
        return syntax.Derived(found, target, subscripts, tuple(self.edges))

    def derived_item(self) -> Expression | Section:
        """Read one expression or section of `derived`."""
        low = self.cursor.expression(":")
        return Section(low, self.cursor.expression()) if self.cursor.accept(":") else low

    def derived_subscript(self) -> Expression | Whole | str:
        """Read one subscript of the target of `derived`."""
        if self.cursor.accept("@"):
            dummy = self.cursor.named("a dummy")
            while self.cursor.accept("+"):
                self.edges.append(self.string())
            return dummy
        return Whole() if self.cursor.accept("*") else self.cursor.expression()
