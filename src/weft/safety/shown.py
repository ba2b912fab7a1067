"""Show texts that others may have written, so that a terminal does not obey them."""

from __future__ import annotations

import io
import re
from functools import cache
from typing import Final

_ACTS: Final = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
    "\U000e0001\U000e0020-\U000e007f]"
)
"""Controls but for tab and line feed, what turns the direction of writing or hides, and halves of characters."""
_NUMBER: Final = r"(?:[345]8;(?:5;\d{1,3}|2;\d{1,3};\d{1,3};\d{1,3})|[0-7]|[1-9]\d|10[0-7])"
_STYLE: Final = rf"\x1b\[(?:{_NUMBER}(?:;{_NUMBER})*)?m|\r(?=\n)"
"""Colours and weights, which Weft writes itself; not 8, which hides."""


@cache
def _pattern(*, styles: bool) -> re.Pattern[str]:
    # Made when it is needed: few texts have anything that acts, and to make it is a hundredth of a short command.
    return re.compile(f"({_STYLE})|{_ACTS}" if styles else _ACTS)


def _only_shows(text: str) -> bool:
    """Return whether a text certainly has no character that acts: most have none, and this is the fastest check."""
    return text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable()


def shown(text: str) -> str:
    r"""Return a text with each character that acts on a terminal written as an escape: `\\x1b`, `\\u202e`."""
    return text if _only_shows(text) else _pattern(styles=False).sub(_escape_character, text)


def _escape_character(found: re.Match[str]) -> str:
    """Return a character that would act on a terminal as an escape, in the notation of Python and JSON. `found`: the
    match of the character.
    """
    number = ord(found[0])
    if number < 0x7F:
        return f"\\x{number:02x}"
    # What JSON leaves as it is, it has so, too: a character beyond 16 bits as two halves.
    halves = [number] if number < 1 << 16 else [0xD7C0 + (number >> 10), 0xDC00 + (number & 0x3FF)]
    return "".join(f"\\u{half:04x}" for half in halves)


def _kept(found: re.Match[str]) -> str:
    return found[0] if found[1] is not None else _escape_character(found)


class Output(io.TextIOWrapper):
    """A standard stream that escapes all characters that act on a terminal, except its own colours."""

    def write(self, text: str) -> int:
        """Write a text; its length."""
        super().write(text if _only_shows(text) else _pattern(styles=True).sub(_kept, text))
        return len(text)
