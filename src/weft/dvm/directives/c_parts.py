"""What the directives of C-DVMH are made of: references, alignments, distributions, edges."""

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
    "wgtblock": "wgtblock",
    "genblock": "genblock",
    "multblock": "multblock",
    "indirect": "indirect",
    "derived": "derived",
}


class CPartReader(SharedPartReader):
    """Reads the parts of a directive. `old`: those of the old form of C-DVM, too."""

    old = False
    axes = AXES

    def accept_separator(self) -> bool:
        """Pass a comma, if one is next. Return whether another clause or attribute follows."""
        if self.cursor.ended:
            return False
        if self.cursor.accept(",") and self.cursor.word.kind != "name":
            self.cursor.fail("a clause is expected after the comma")
        return True

    def read_subscripts(self) -> tuple[Subscript, ...] | None:
        """Read `[…][…]`; None if there are no subscripts."""
        found: list[Subscript] = []
        while self.cursor.accept("["):
            found.append(self.cursor.read_subscript())
            self.cursor.expect("]")
        return tuple(found) or None

    def read_reference(self) -> Reference:
        """Read a name and its subscripts."""
        word = self.cursor.take_name("a variable")
        return Reference(word.text, self.read_subscripts(), word.place)

    def read_references(self) -> tuple[Reference, ...]:
        """Read `(a, b[1:2], …)`."""
        self.cursor.expect("(")
        return self.cursor.read_list(self.read_reference)

    def read_dummies(self) -> tuple[str | None, ...]:
        """Read the index names of an alignment or a parallel loop, such as `[i][j][]`; None for an empty one."""
        found: list[str | None] = []
        while self.cursor.accept("["):
            if self.cursor.text == "]":
                found.append(None)
            else:
                word = self.cursor.take_name("a dummy")
                if word.text in found:
                    self.cursor.fail(f"`{word.text}` is here twice", word)
                found.append(word.text)
            self.cursor.expect("]")
        return tuple(found)

    def read_edge(self) -> Width | syntax.NamedEdges:
        """Read the shadow edges of one dimension: widths `1:1`, or names `"left", "right"`."""
        if self.cursor.word.kind != "string":
            return self.read_width()
        names = [self.read_string()]
        while self.cursor.accept(","):
            names.append(self.read_string())
        return syntax.NamedEdges(tuple(names))

    def read_distribution(self) -> syntax.Distribution:
        """Read a distribution, `[block][*]…`. In the old form, `onto tasks[…]` may follow it."""
        axes: list[syntax.Axis] = []
        if self.cursor.text != "[":
            self.cursor.fail("`[` and a distribution for each dimension are expected")
        while self.cursor.accept("["):
            axes.append(self.read_axis())
            self.cursor.expect("]")
        onto = self.read_reference() if self.old and self.cursor.accept("onto") else None
        return syntax.Distribution(tuple(axes), onto)

    def read_derived(self) -> syntax.Derived:
        """Read the arguments of `derived`: `expression, low:high, … with target[@i + "edge"][…]`."""
        cursor = self.cursor
        found: list[Expression | Section] = []
        while True:
            low = cursor.read_expression(":", "with")
            found.append(Section(low, cursor.read_expression("with")) if cursor.accept(":") else low)
            if not cursor.accept(","):
                break
        cursor.expect("with")
        target = cursor.take_name("an array").text
        subscripts: list[Expression | Whole | str] = []
        edges: list[str] = []
        while cursor.accept("["):
            if cursor.accept("@"):
                subscripts.append(cursor.take_name("a dummy").text)
                while cursor.accept("+"):
                    edges.append(self.read_string())
            elif cursor.text == "]":
                subscripts.append(Whole())
            else:
                subscripts.append(cursor.read_expression())
            cursor.expect("]")
        return syntax.Derived(tuple(found), target, tuple(subscripts), tuple(edges))

    def read_alignment(self) -> syntax.Alignment:
        """Read the arguments of `align`: `[i][j] with target[…][…]`."""
        dummies = self.read_dummies()
        self.cursor.expect("with")
        self.cursor.dummies = dummies
        return syntax.Alignment(dummies, self.read_reference())

    def read_shadow(self) -> syntax.Shadow:
        """Read the widths of shadow edges, `[1:1][2]…`."""
        widths: list[Width | syntax.NamedEdges] = []
        if self.cursor.text != "[":
            self.cursor.fail("`[` and a width for each dimension are expected")
        while self.cursor.accept("["):
            widths.append(self.read_edge())
            self.cursor.expect("]")
        return syntax.Shadow(tuple(widths))

    def read_sizes(self) -> tuple[Section, ...]:
        """Read the sizes of a template, `[n][m]…`."""
        found: list[Section] = []
        while self.cursor.accept("["):
            found.append(Section(None, self.cursor.read_expression()))
            self.cursor.expect("]")
        return tuple(found)
