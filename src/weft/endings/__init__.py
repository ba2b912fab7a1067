"""How each rank of a run ended, what that was for the others, and the findings that it makes."""

from weft.endings.consequent_findings import consequences
from weft.endings.end_causes import End, How, ends
from weft.endings.end_summary import lines, to_json
from weft.endings.findings import find
from weft.endings.wording import words

__all__ = ["End", "How", "consequences", "ends", "find", "lines", "to_json", "words"]
