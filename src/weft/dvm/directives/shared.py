"""What directives of C and of Fortran are made of alike, but for the spelling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, cast

from weft.dvm import syntax
from weft.dvm.syntax import Reference
from weft.dvm.tokens import Reader


class SharedPartReader(Reader):
    """Reads these parts of a directive."""

    axes: ClassVar[Mapping[str, syntax.AxisKind]]
    """The kinds of a distribution as the language spells them."""
    reductions: ClassVar[tuple[str, ...]]

    def has_groups(self) -> bool:
        """Return whether a clause may begin with the name of a group."""
        return True

    def read_bare(self) -> Reference:
        """Read a name without subscripts."""
        word = self.cursor.take_name("a variable")
        return Reference(self.cursor.fold(word), None, word.place)

    def read_reduced(self) -> Reference:
        """Read the variable of a reduction."""
        return self.read_bare()

    def read_group(self) -> str | None:
        """Read `group:`; None if it is not there."""
        if not self.has_groups() or self.cursor.word.kind != "name" or self.cursor.peek() != ":":
            return None
        found = self.cursor.take_name_text()
        self.cursor.expect(":")
        return found

    def read_one_reduction(self) -> syntax.Reduction:
        """Read one reduction, such as `sum(s)` or `maxloc(m, l)`."""
        cursor = self.cursor
        word = cursor.take_name("a reduction")
        kind = cursor.fold(word)
        if kind not in self.reductions:
            cursor.fail(f"`{word.text}` is not a reduction; the reductions are {', '.join(self.reductions)}", word)
        cursor.expect("(")
        variable = self.read_reduced()
        location = size = None
        if kind in ("maxloc", "minloc"):
            cursor.expect(",")
            location = self.read_reduced()
            if cursor.accept(","):
                size = cursor.read_expression()
        cursor.expect(")")
        return syntax.Reduction(cast(syntax.ReductionKind, kind), variable, location, size)

    def read_axis(self) -> syntax.Axis:
        """Read the distribution of one dimension, such as `block`, `genblock(b)` or `*`."""
        cursor = self.cursor
        if cursor.text == "]" or cursor.accept("*"):
            return syntax.Axis("*")
        word = cursor.take_name("a distribution")
        kind = self.axes.get(cursor.fold(word))
        if kind is None:
            cursor.fail(f"`{word.text}` is not a distribution", word)
        if kind == "block":
            self.read_block()
            return syntax.Axis("block")
        cursor.expect("(")
        if kind == "derived":
            found = syntax.Axis("derived", derived=self.read_derived())
        elif kind == "wgtblock":
            weights = cursor.read_expression()
            cursor.expect(",")
            found = syntax.Axis(kind, weights, cursor.read_expression())
        else:
            found = syntax.Axis(kind, cursor.read_expression())
        cursor.expect(")")
        return found

    def read_block(self) -> None:
        """Pass arguments after `block`, if the language has some."""

    def read_derived(self) -> syntax.Derived:
        """Read the contents of the brackets of `derived`."""
        raise NotImplementedError
