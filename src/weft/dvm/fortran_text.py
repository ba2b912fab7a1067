"""Statements of Fortran as text: what is assigned, what stands in brackets, what opens a block."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

NAME: Final = re.compile(r"[a-z]\w*")
END: Final = re.compile(r"end(?:program|subroutine|function|module|submodule|blockdata|procedure)?\w*$")
NOT_AN_END: Final = re.compile(
    r"end(?:do|if|select|where|forall|associate|block(?!data)|critical|enum|interface|type|file|team)"
)
DO: Final = re.compile(
    r"(?:\w+:)?do(\d+),?(?:while\(.*|concurrent\(.*|([a-z]\w*)=(.+,.+))?$|(?:\w+:)?do(?:while\(.*|concurrent\(.*|([a-z]\w*)=(.+,.+))?$"
)
END_DO: Final = re.compile(r"enddo\w*$")


def top_level_indices(code: str, characters: str) -> Iterator[int]:
    """Yield the indices at which one of `characters` occurs outside brackets and strings."""
    depth, quote = 0, ""
    for at, sign in enumerate(code):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "([":
            depth += 1
        elif sign in ")]":
            depth -= 1
        if depth == 0 and not quote and sign in characters:
            yield at


def split_top(code: str, sign: str = ",") -> list[str]:
    """Return the parts of a statement between the signs that are outside of brackets."""
    cuts = [-1, *top_level_indices(code, sign), len(code)]
    return [code[a + 1 : b] for a, b in itertools.pairwise(cuts)]


def _find_assignment_sign(code: str) -> int | None:
    """Return the index of the `=` of an assignment, not of `==` or `=>`; None if there is none."""
    for at in top_level_indices(code, "="):
        if code[at + 1 : at + 2] in ("=", ">") or code[at - 1 : at] in ("=", "/", "<", ">"):
            continue
        return at
    return None


TARGET: Final = re.compile(r"([a-z]\w*)((?:\(.*\))?(?:%.*)?)$")


def is_assignment(code: str) -> bool:
    return split_assignment(code) is not None


def split_assignment(code: str) -> tuple[str, str, int] | None:
    """Return the parts of an assignment: the name on its left side, the subscripts or components after it, and the
    index of the `=`. None for another statement.
    """
    at = _find_assignment_sign(code)
    if at is None or DO.match(code) or any(cut < at for cut in top_level_indices(code, ":,")):
        return None
    matched = TARGET.match(code[:at])
    if matched is None or any(True for _ in top_level_indices(code[at:], ",")):
        return None
    if matched[1] in ("if", "forall", "where") and matched[2].startswith("(") and not _is_one_bracket(matched[2]):
        return None
    return matched[1], matched[2], at


def _is_one_bracket(code: str) -> bool:
    """Return whether the code is one pair of brackets, such as the `(i,j)` after a name. Text may follow it only if a
    component `%…` or another bracket begins there.
    """
    depth = 0
    for at, sign in enumerate(code):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return at == len(code) - 1 or code[at + 1] in "%("
    return False


def split_condition(code: str) -> tuple[str, str]:
    """Return the condition of a logical IF and the statement after it; ("", code) for other statements."""
    if not code.startswith("if("):
        return "", code
    depth = 0
    for at, sign in enumerate(code):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and sign == ")":
            rest = code[at + 1 :]
            if not rest or rest == "then" or rest[0] in "=%(" or rest[0].isdigit():
                return "", code
            return code[2 : at + 1], rest
    return "", code


def opens_block(code: str) -> bool:
    """Return whether a statement opens a block other than DO: IF, SELECT, ASSOCIATE, BLOCK, CRITICAL, WHERE, FORALL."""
    return bool(
        re.match(r"(?:\w+:)?(?:if\(.*\)then\w*$|selectcase\(|selecttype\(|associate\(|block$|critical$)", code)
        or (
            re.match(r"(?:where|forall)\(", code)
            and not is_assignment(split_condition(code.replace("where", "if", 1).replace("forall", "if", 1))[1])
        )
    )


def closes_block(code: str) -> bool:
    """Return whether the statement closes a block other than DO."""
    return bool(re.match(r"end(?:if|select|associate|block(?!data)|critical|where|forall)\w*$", code))
