"""How each rank of a run ended, what that was for the others, and the findings that it makes."""

from weft.endings.aftermath import consequences
from weft.endings.findings import find
from weft.endings.ranks import End, How, ends
from weft.endings.sentences import words
from weft.endings.terminal import lines, to_json

__all__ = ["End", "How", "consequences", "ends", "find", "lines", "to_json", "words"]
