"""The directives of Fortran-DVM(H) (`CDVM$`, `!DVM$`), read into the syntax tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from weft.dvm import syntax
from weft.dvm.directives.fortran_attributes import KEYWORDS, FortranAttributeReader
from weft.dvm.directives.fortran_constructs import DIRECTIVES, FortranConstructReader
from weft.dvm.syntax import (
    Directive,
    Expression,
    Position,
)
from weft.dvm.tokens import FORTRAN_WORDS, TokenCursor, tokenize

ENDS: Final[dict[str, syntax.EndKind]] = {
    "region": "region",
    "task_region": "task_region",
    "on": "on",
    "interval": "interval",
    "debug": "debug",
    "asynchronous": "asynchronous",
    "checksection": "check_section",
    "hostsection": "host_section",
    "host_section": "host_section",
}

NOTES: Final = (
    "barrier",
    "check",
    "checksection",
    "cp_create",
    "cp_load",
    "cp_save",
    "cp_wait",
    "debug",
    "exit",
    "exitinterval",
    "hostsection",
    "host_section",
    "independent",
    "interval",
    "io_mode",
    "new_value",
    "own",
    "routine",
    "trace",
    "traceoff",
    "traceon",
)


def read_fortran_directive(pieces: Iterable[tuple[Position, str]]) -> Directive:
    """Return the directive in the text after a sentinel such as `!dvm$`. The text comes in pieces, one for each line of
    the directive: (position of the first character, text).

    Raises DirectiveError for a directive that is unknown or malformed.
    """
    return FortranDirectiveReader(TokenCursor(tokenize(pieces, FORTRAN_WORDS), folded=True)).read_directive()


class FortranDirectiveReader(FortranAttributeReader, FortranConstructReader):
    """Reads one directive from a cursor."""

    def read_directive(self) -> Directive:
        """Return the directive that the cursor's tokens form. Raises DirectiveError if its first word is unknown, or if
        tokens are left after its end.
        """
        cursor = self.cursor
        word = cursor.word
        keyword = cursor.text
        if keyword in KEYWORDS:
            found = self.read_declaration()
        elif keyword == "end" or (keyword.startswith("end") and keyword[3:] in ENDS):
            found = self.read_end()
        elif keyword in NOTES:
            found = self.read_note()
        elif keyword in DIRECTIVES:
            cursor.take()
            found = DIRECTIVES[keyword](self)
        else:
            cursor.fail(f"`{word.text}` is not a directive of Fortran-DVMH", word)
        cursor.finish()
        return found

    def read_end(self) -> Directive:
        """Read the end of a construct, such as `end region` or `endregion`; the number after `end debug` is ignored."""
        cursor = self.cursor
        word = cursor.take()
        keyword = cursor.fold(word)
        kind = ENDS.get(keyword[3:] if keyword != "end" else cursor.take_name_text("what ends"))
        if kind is None:
            cursor.fail(f"Fortran-DVMH has no such END; it has END of {', '.join(ENDS)}", word)
        if kind == "debug" and cursor.word.kind == "number":
            cursor.take()
        return syntax.End(self.place, self.last_line, kind)

    def read_note(self) -> Directive:
        """Read a directive that does not matter for the data (such as `barrier`), and return its keyword and its
        arguments.
        """
        cursor = self.cursor
        keyword = cursor.take_name_text()
        arguments: list[Expression] = []
        while not cursor.ended:
            taken = cursor.take_until(frozenset((",",)))
            if taken:
                arguments.append(cursor.make_expression(taken))
            if not cursor.ended and not cursor.accept(","):
                cursor.fail(f"`{cursor.word.text}` closes nothing")
        return syntax.Note(self.place, self.last_line, keyword, tuple(arguments))
