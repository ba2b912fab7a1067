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
        """Return whether a clause may name the group that it is of."""
        return True

    def bare(self) -> Reference:
        """Read a name without subscripts."""
        word = self.cursor.name("a variable")
        return Reference(self.cursor.fold(word), None, word.place)

    def reduced(self) -> Reference:
        """Read the variable of a reduction."""
        return self.bare()

    def group(self) -> str | None:
        """Read `group:`, if it stands there."""
        if not self.has_groups() or self.cursor.word.kind != "name" or self.cursor.peek() != ":":
            return None
        found = self.cursor.named()
        self.cursor.expect(":")
        return found

    def one_reduction(self) -> syntax.Reduction:
        """Read `sum(s)`."""
        cursor = self.cursor
        word = cursor.name("a reduction")
        kind = cursor.fold(word)
        if kind not in self.reductions:
            cursor.fail(f"`{word.text}` is not a reduction; known are {', '.join(self.reductions)}", word)
        cursor.expect("(")
        variable = self.reduced()
        location = size = None
        if kind in ("maxloc", "minloc"):
            cursor.expect(",")
            location = self.reduced()
            if cursor.accept(","):
                size = cursor.expression()
        cursor.expect(")")
        return syntax.Reduction(cast(syntax.ReductionKind, kind), variable, location, size)

    def axis(self) -> syntax.Axis:
        """Read how one dimension is dealt out."""
        cursor = self.cursor
        if cursor.text == "]" or cursor.accept("*"):
            return syntax.Axis("*")
        word = cursor.name("a distribution")
        kind = self.axes.get(cursor.fold(word))
        if kind is None:
            cursor.fail(f"`{word.text}` is not a distribution", word)
        if kind == "block":
            self.block()
            return syntax.Axis("block")
        cursor.expect("(")
        if kind == "derived":
            found = syntax.Axis("derived", derived=self.derived())
        elif kind == "wgtblock":
            weights = cursor.expression()
            cursor.expect(",")
            found = syntax.Axis(kind, weights, cursor.expression())
        else:
            found = syntax.Axis(kind, cursor.expression())
        cursor.expect(")")
        return found

    def block(self) -> None:
        """Read what may stand behind `block`."""

    def derived(self) -> syntax.Derived:
        """Read what `derived` has in its brackets."""
        raise NotImplementedError
