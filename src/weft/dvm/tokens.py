"""The tokens of a directive, each with its place, and a cursor that reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar

from weft.dvm.syntax import (
    Affine,
    Constant,
    DirectiveError,
    Expression,
    Position,
    Section,
    Subscript,
    Whole,
    Width,
)

T = TypeVar("T")

C_WORDS: Final = re.compile(
    r"""(?P<skip>\s+|\\\n|/\*.*?\*/|//[^\n]*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)[uUlLfF]*)
      | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | (?P<sign>->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||=>|.)""",
    re.VERBOSE | re.DOTALL,
)
"""The words of C; a comment is a space."""

FORTRAN_WORDS: Final = re.compile(
    r"""(?P<skip>\s+|![^\n]*)
      | (?P<logical>\.[A-Za-z]+\.)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>(?:\d+(?:\.(?![A-Za-z]+\.)\d*)?|\.\d+)(?:[eEdD][+-]?\d+)?(?:_\w+)?)
      | (?P<string>"(?:""|[^"])*"|'(?:''|[^'])*')
      | (?P<sign>\*\*|//|==|/=|<=|>=|=>|::|.)""",
    re.VERBOSE | re.DOTALL,
)
"""The words of Fortran; `::` is one of them, so a section with a stride cannot be written without a space."""

OPENING: Final = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a directive; its kind is "name", "number", "string", "sign", "logical" or "end"."""

    kind: str
    text: str
    place: Position
    spaced: bool
    """A space stood before it."""


def tokenize(pieces: Iterable[tuple[Position, str]], language: re.Pattern[str]) -> list[Token]:
    """Return the tokens of a directive, the last an "end" token. `pieces`: the directive's text in parts, each with the
    position of its first character.
    """
    found: list[Token] = []
    spaced = False
    end = Position("", 0, 0)
    for start, text in pieces:
        line, column = start.line, start.column
        for match in language.finditer(text):
            place = Position(start.file, line, column)
            if match.lastgroup == "skip":
                spaced = True
            else:
                found.append(Token(str(match.lastgroup), match.group(), place, spaced))
                spaced = False
            breaks = match.group().count("\n")
            line += breaks
            column = len(match.group()) - match.group().rfind("\n") if breaks else column + len(match.group())
        end = Position(start.file, line, column)
        spaced = True
    found.append(Token("end", "", end, True))
    return found


class TokenCursor:
    """Reads the tokens of one directive; every error names the place of the token that it is about.

    `folded`: names and keywords are compared, and returned, in lower case, as in Fortran.
    """

    def __init__(self, found: Sequence[Token], folded: bool) -> None:
        self.words = found
        self.folded = folded
        self.at = 0
        self.dummies: tuple[str | None, ...] = ()

    @property
    def word(self) -> Token:
        """Return the next token."""
        return self.words[self.at]

    @property
    def text(self) -> str:
        """Return the next token's text, in lower case if the language ignores case."""
        return self.fold(self.word)

    @property
    def ended(self) -> bool:
        """Return whether all tokens have been read."""
        return self.word.kind == "end"

    def fold(self, word: Token) -> str:
        """Return a token's text for comparing: in lower case if the language ignores case."""
        return word.text.lower() if self.folded and word.kind in ("name", "logical") else word.text

    def peek(self, ahead: int = 1) -> str:
        """Return the text of the token that is `ahead` places after the next one."""
        return self.fold(self.words[min(self.at + ahead, len(self.words) - 1)])

    def fail(self, what: str, word: Token | None = None) -> NoReturn:
        """Raise DirectiveError about a token, by default the next one."""
        raise DirectiveError((word or self.word).place, what)

    def take(self) -> Token:
        """Return the next token and move past it. The cursor never moves past the end token."""
        word = self.word
        if not self.ended:
            self.at += 1
        return word

    def accept(self, *texts: str) -> bool:
        """Move past the next tokens if they are `texts`, and return True. Otherwise stay, and return False."""
        if any(self.peek(ahead) != text for ahead, text in enumerate(texts)):
            return False
        self.at += len(texts)
        return True

    def expect(self, text: str) -> Token:
        """Return the next token, which must be `text`, and move past it. Raises DirectiveError for another token."""
        if self.text != text or self.ended:
            shown = "the directive ends" if self.ended else f"`{self.word.text}` stands"
            self.fail(f"{shown} where `{text}` is expected")
        return self.take()

    def take_name(self, expected: str = "a name") -> Token:
        """Return the next token, which must be a name, and move past it. Raises DirectiveError for another token;
        `expected` says what is missing.
        """
        if self.word.kind != "name":
            shown = "the directive ends" if self.ended else f"`{self.word.text}` stands"
            self.fail(f"{shown} where {expected} is expected")
        return self.take()

    def take_name_text(self, what: str = "a name") -> str:
        """Return the text of the next token, which must be a name, and move past it."""
        return self.fold(self.take_name(what))

    def finish(self) -> None:
        """Raise DirectiveError if tokens are left."""
        if not self.ended:
            self.fail(f"`{self.word.text}` is where the directive should end")

    def read_list(self, read_item: Callable[[], T], close: str = ")") -> tuple[T, ...]:
        """Read items separated by commas, each by `read_item`, and the closing bracket after them."""
        found = [read_item()]
        while self.accept(","):
            found.append(read_item())
        self.expect(close)
        return tuple(found)

    # --- expressions ----------------------------------------------------------------------------------------------

    def take_until(self, stop_texts: frozenset[str]) -> list[Token]:
        """Return the tokens before the next stop, and move to it. A stop is one of `stop_texts` or a closing bracket,
        but not within brackets that open after the cursor.
        """
        taken: list[Token] = []
        open_brackets: list[str] = []
        choices = 0
        while not self.ended:
            word = self.word
            if open_brackets:
                if word.text == open_brackets[-1]:
                    open_brackets.pop()
            elif word.text == ":" and choices:
                choices -= 1
            elif word.text in stop_texts or word.text in OPENING.values():
                break
            elif word.text == "?":
                choices += 1
            if word.text in OPENING:
                open_brackets.append(OPENING[word.text])
            taken.append(self.take())
        if open_brackets:
            self.fail(f"`{open_brackets[-1]}` is missing")
        return taken

    def read_expression(self, *stop_texts: str) -> Expression:
        """Read an expression up to a comma, one of `stop_texts` or a closing bracket."""
        start = self.word
        taken = self.take_until(frozenset((*stop_texts, ",")))
        if not taken:
            self.fail("an expression is expected", start)
        return self.make_expression(taken)

    def make_expression(self, tokens: Sequence[Token]) -> Expression:
        """Return tokens as an Expression: their text, the names in it, and its position."""
        names = [
            self.fold(word)
            for before, word in zip((None, *tokens), tokens, strict=False)
            if word.kind == "name" and (before is None or before.text not in (".", "->", "%"))
        ]
        return Expression(join_tokens(tokens), tuple(dict.fromkeys(names)), tokens[0].place)

    def read_subscript(self, *stop_texts: str, whole_signs: tuple[str, ...] = ("*",)) -> Subscript:
        """Read one subscript: a whole dimension (nothing, or one of `whole_signs`), a section `low:high`, or an
        expression. The expression may use one of the directive's index names.
        """
        if self.text in whole_signs and (self.peek() in (",", "]", ")")):
            self.take()
            return Whole()
        taken = self.take_until(frozenset((*stop_texts, ",", ":")))
        if self.accept(":"):
            high = self.take_until(frozenset((*stop_texts, ",", ":")))
            if not taken and not high:
                return Whole()
            return Section(self.make_expression(taken) if taken else None, self.make_expression(high) if high else None)
        if not taken:
            return Whole()
        return self.make_affine(taken)

    def make_affine(self, tokens: Sequence[Token]) -> Constant | Affine:
        """Return an expression as `coefficient * index + offset`, if it uses one of the directive's index names
        (dummies); otherwise as a constant. Raises DirectiveError if it is not linear.

        Coefficient and offset are C or Fortran text that the program computes. The offset is the expression with 0 as
        the index; the coefficient is the expression with 1 as the index, minus the offset.
        """
        uses = [k for k, word in enumerate(tokens) if word.kind == "name" and self.fold(word) in self.dummies]
        if not uses:
            return Constant(self.make_expression(tokens))
        at = uses[0]
        if len(uses) > 1 or not is_linear(tokens, at):
            self.fail(f"`{join_tokens(tokens)}` is not of the form a*{tokens[at].text}+b", tokens[0])
        dummy = self.dummies.index(self.fold(tokens[at]))
        one, zero = (self.make_expression(replace_name(tokens, at, value)) for value in ("1", "0"))
        if len(tokens) == 1:
            return Affine(dummy, one, zero)
        place = tokens[0].place
        return Affine(dummy, Expression(f"({one.text}) - ({zero.text})", one.names, place), zero)


def join_tokens(taken: Sequence[Token]) -> str:
    """Return the tokens as text, with spaces where there were some."""
    return "".join((" " if word.spaced and k else "") + word.text for k, word in enumerate(taken))


def replace_name(taken: Sequence[Token], at: int, value: str) -> list[Token]:
    """Return the tokens with the token at index `at` replaced by the number `value`."""
    was = taken[at]
    return [*taken[:at], Token("number", value, was.place, was.spaced), *taken[at + 1 :]]


def is_linear(tokens: Sequence[Token], dummy_index: int) -> bool:
    """Return whether an expression is linear in the index name at token `dummy_index`. It must not be within a call, a
    subscript, a quotient or a power.
    """
    before = tokens[dummy_index - 1].text if dummy_index else ""
    after = tokens[dummy_index + 1].text if dummy_index + 1 < len(tokens) else ""
    if before not in ("", "+", "-", "*", "(") or after not in ("", "+", "-", "*", ")"):
        return False
    depth = 0
    for k in range(dummy_index - 1, -1, -1):
        if tokens[k].text in (")", "]"):
            depth += 1
        elif tokens[k].text in ("(", "["):
            depth -= 1
            if depth < 0:
                called = k and (tokens[k - 1].kind == "name" or tokens[k - 1].text in (")", "]", "/", "%"))
                if tokens[k].text == "[" or called:
                    return False
                depth = 0
    return True


class Reader:
    """What the readers of both languages' directives share: where the directive stands, and what both write alike."""

    def __init__(self, cursor: TokenCursor) -> None:
        self.cursor = cursor
        self.place = cursor.word.place
        self.last_line = cursor.words[-1].place.line

    def read_width(self) -> Width:
        """Read `low:high`, or one number for both."""
        low = self.cursor.read_expression(":")
        return Width(low, self.cursor.read_expression() if self.cursor.accept(":") else low)

    def read_string(self) -> str:
        """Read a string in quotes and return its contents."""
        if self.cursor.word.kind != "string":
            self.cursor.fail("the name of an edge, in quotes, is expected")
        return self.cursor.take().text[1:-1]
