"""Texts that others may have written, as a terminal shows them and does not obey."""

from __future__ import annotations

import re
from typing import Final

_ACTS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
    "|\U000e0001|[\U000e0020-\U000e007f]"
)
"""Controls but for tab and line feed, what turns the direction of writing or hides, and halves of characters."""
STYLE: Final = re.compile("\x1b\\[[0-9;]{0,20}m|\r|\x1b\\[K")
"""What Weft itself writes to a terminal: styles, and the progress that writes over its own line."""


def shown(text: str) -> str:
    """A text with each character that acts on a terminal written as an escape: `\\x1b`, `\\u202e`."""
    return text if text.isascii() and text.isprintable() else _ACTS.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
