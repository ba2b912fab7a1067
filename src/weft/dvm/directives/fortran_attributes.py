"""Declarations of Fortran-DVM(H): a keyword or attributes, and the names that have them."""

from __future__ import annotations

from typing import Final

from weft.dvm import syntax
from weft.dvm.directives.fortran_parts import FortranPartReader
from weft.dvm.syntax import (
    Directive,
)

TRAITS: Final[dict[str, syntax.TraitKind]] = {
    "template": "template",
    "dynamic": "dynamic",
    "inherit": "inherit",
    "processors": "processors",
    "task": "task",
    "heap": "heap",
    "common": "common",
    "dimension": "dimension",
    "pointer": "pointer",
    "consistent": "consistent",
    "asyncid": "asyncid",
    "reduction_group": "reduction_group",
    "remote_group": "remote_group",
    "indirect_group": "indirect_group",
    "consistent_group": "consistent_group",
}
TYPES: Final = ("integer", "real", "double", "precision", "complex", "logical", "character")
KEYWORDS: Final = (*TYPES, *TRAITS, "distribute", "align", "shadow")


class FortranAttributeReader(FortranPartReader):
    """Reads a declaration."""

    def read_declaration(self) -> Directive:
        """Read `keyword name…` or `attribute, attribute :: name…`."""
        cursor = self.cursor
        attributes: list[syntax.Attribute] = []
        entities: tuple[syntax.Entity, ...] = ()
        while True:
            word = cursor.word
            keyword = cursor.text
            if keyword not in KEYWORDS:
                cursor.fail(f"`{word.text}` is not an attribute", word)
            cursor.take()
            if cursor.word.kind == "name" and keyword not in TYPES and cursor.text not in ("with", "onto"):
                attribute, entities = self.read_old_form(keyword)
                attributes.append(attribute)
                break
            attributes.extend(self.read_attribute(keyword))
            if cursor.accept("::"):
                entities = self.read_entities()
                break
            if not cursor.accept(","):
                cursor.fail("`::` and names, or another attribute, are expected")
        return syntax.Declare(self.place, self.last_line, tuple(attributes), entities)

    def read_attribute(self, keyword: str) -> tuple[syntax.Attribute, ...]:
        """Read the arguments after the keyword of one attribute, such as `distribute` or `shadow`. The result is empty
        for a type such as `real*8`.
        """
        cursor = self.cursor
        if keyword in TYPES:
            while cursor.text in TYPES:
                cursor.take()
            if cursor.accept("*"):
                cursor.take()
            return ()
        if keyword == "distribute":
            return (self.read_distribution(),)
        if keyword == "align":
            if cursor.accept("with"):
                return (syntax.Alignment(None, self.read_reference()),)
            return (self.read_alignment() if cursor.text == "(" else syntax.Alignment(None, None),)
        if keyword == "shadow":
            cursor.expect("(")
            return (syntax.Shadow(cursor.read_list(self.read_edge)),)
        sizes = cursor.read_list(self.read_section) if cursor.accept("(") else ()
        return (syntax.Trait(TRAITS[keyword], sizes),)

    def read_old_form(self, keyword: str) -> tuple[syntax.Attribute, tuple[syntax.Entity, ...]]:
        """Read `keyword name(…), …`: one attribute, and the names that have it."""
        cursor = self.cursor
        if keyword in TRAITS:
            return syntax.Trait(TRAITS[keyword]), self.read_entities()
        word = cursor.take_name()
        entity = syntax.Entity(cursor.fold(word), (), word.place)
        if keyword == "distribute":
            return self.read_distribution(), (entity,)
        if keyword == "align":
            return self.read_alignment(), (entity,)
        cursor.expect("(")
        return syntax.Shadow(cursor.read_list(self.read_edge)), (entity,)
