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

    def read_section(self) -> Section:
        """Read the bounds of one dimension: `high` or `low:high`."""
        found = self.cursor.read_subscript(whole_signs=("*", ":"))
        if isinstance(found, syntax.Constant):
            return Section(None, found.value)
        return found if isinstance(found, Section) else Section(None, None)

    def read_subscript(self) -> Subscript:
        """Read one subscript."""
        return self.cursor.read_subscript(whole_signs=("*", ":"))

    def read_reference(self) -> Reference:
        """Read a name and its subscripts, such as `a(i,:)`."""
        word = self.cursor.take_name("a variable")
        subscripts = self.cursor.read_list(self.read_subscript) if self.cursor.accept("(") else None
        return Reference(self.cursor.fold(word), subscripts, word.place)

    def read_references(self) -> tuple[Reference, ...]:
        """Read `(a, b(1:2), …)`."""
        self.cursor.expect("(")
        return self.cursor.read_list(self.read_reference)

    def read_entity(self) -> syntax.Entity:
        """Read a name with its sizes, such as `t(n,0:m)`."""
        word = self.cursor.take_name()
        sizes = self.cursor.read_list(self.read_section) if self.cursor.accept("(") else ()
        return syntax.Entity(self.cursor.fold(word), sizes, word.place)

    def read_entities(self) -> tuple[syntax.Entity, ...]:
        """Read a list of names with their sizes up to the directive's end."""
        found = [self.read_entity()]
        while self.cursor.accept(","):
            found.append(self.read_entity())
        return tuple(found)

    def read_dummy(self) -> str | None:
        """Read one index name of an alignment; None for `*`. The k-th `:` gets the name ":k"."""
        if self.cursor.accept(":"):
            self.colons += 1
            return f":{self.colons}"
        return None if self.cursor.accept("*") else self.cursor.take_name_text("a dummy")

    def read_alignment(self) -> syntax.Alignment:
        """Read `(i,j) with target(…)`. If the index names are written as `:`, the k-th one belongs to the k-th `:` of
        the target.
        """
        cursor = self.cursor
        self.colons = 0
        cursor.expect("(")
        dummies = cursor.read_list(self.read_dummy)
        cursor.expect("with")
        cursor.dummies = dummies
        word = cursor.take_name("a variable")
        self.colons = 0
        subscripts = cursor.read_list(self.read_alignment_subscript) if cursor.accept("(") else None
        return syntax.Alignment(dummies, Reference(cursor.fold(word), subscripts, word.place))

    def read_alignment_subscript(self) -> Subscript:
        """Read one subscript of an alignment's target. The k-th `:` means the index with the name ":k"."""
        cursor = self.cursor
        place = cursor.word.place
        if cursor.text != ":" or cursor.peek() not in (",", ")"):
            return self.read_subscript()
        self.colons += 1
        name = f":{self.colons}"
        if name not in cursor.dummies:
            cursor.fail("this `:` has no `:` among the dummies; write `*` for every index")
        cursor.take()
        one, zero = Expression("1", (), place), Expression("0", (), place)
        return syntax.Affine(cursor.dummies.index(name), one, zero)

    def read_edge(self) -> Width | syntax.NamedEdges:
        """Read the shadow edges of one dimension: widths `1:1`, or names as `:("name", …)`."""
        if self.cursor.accept(":"):
            self.cursor.expect("(")
            return syntax.NamedEdges(self.cursor.read_list(self.read_string))
        if self.cursor.word.kind == "string":
            return syntax.NamedEdges((self.read_string(),))
        return self.read_width()

    def read_distribution(self) -> syntax.Distribution:
        """Read `(block,*) onto p`. For a lone `*`, which means the distribution of the caller, `axes` of the result is
        None.
        """
        self.cursor.accept("*")
        axes = self.cursor.read_list(self.read_axis) if self.cursor.accept("(") else None
        onto = self.read_reference() if self.cursor.accept("onto") else None
        return syntax.Distribution(axes, onto)

    def read_block(self) -> None:
        """Read `(shadow_width = n)` after `block`."""
        if self.cursor.accept("("):
            self.cursor.read_list(self.read_keyword_argument)

    def read_keyword_argument(self) -> Expression:
        """Read `shadow_width = n` and return the value."""
        self.cursor.take_name()
        self.cursor.expect("=")
        return self.cursor.read_expression()

    def read_derived(self) -> syntax.Derived:
        """Read `(expression, low:high, …) with target(@i + "edge", …)`."""
        cursor = self.cursor
        cursor.expect("(")
        found = cursor.read_list(self.read_derived_item)
        cursor.expect("with")
        target = cursor.take_name_text("an array")
        subscripts: tuple[Expression | Whole | str, ...] = ()
        self.edges: list[str] = []
        if cursor.accept("("):
            subscripts = cursor.read_list(self.read_derived_subscript)
        return syntax.Derived(found, target, subscripts, tuple(self.edges))

    def read_derived_item(self) -> Expression | Section:
        """Read one expression or section of `derived`."""
        low = self.cursor.read_expression(":")
        return Section(low, self.cursor.read_expression()) if self.cursor.accept(":") else low

    def read_derived_subscript(self) -> Expression | Whole | str:
        """Read one subscript of the target of `derived`: an expression, `*`, or `@i + "edge"` (returned as the dummy's
        name).
        """
        if self.cursor.accept("@"):
            dummy = self.cursor.take_name_text("a dummy")
            while self.cursor.accept("+"):
                self.edges.append(self.read_string())
            return dummy
        return Whole() if self.cursor.accept("*") else self.cursor.read_expression()
