"""How each rank of a run ended, what that was for the others, and the findings that it makes."""

from weft.endings.consequent_findings import find_consequences
from weft.endings.end_causes import End, How, find_ends
from weft.endings.end_summary import describe_ends, to_json
from weft.endings.findings import find
from weft.endings.wording import describe_end

__all__ = ["End", "How", "describe_end", "describe_ends", "find", "find_consequences", "find_ends", "to_json"]
