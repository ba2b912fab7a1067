"""The levels of a record, by the words that commands, run.json and the recorder use."""

from __future__ import annotations

from typing import Final

LEVELS: Final = ("outcomes", "trace")

_OLD: Final = {"order": "outcomes"}
"""What older runs and scripts say; elsewhere `order` means happens-before."""


def level_named(word: str) -> str:
    """The level that a word means, old words included; a word that means none comes back as it is."""
    return _OLD.get(word, word)
