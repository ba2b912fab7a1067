"""The program's source as it was when the run was recorded: kept in the run, so that every report says the same.

`keep` writes it at the end of a recording; `of(trace)` reads it again, anywhere and at any time.
"""

from __future__ import annotations

from weft.sources.kept import Sources, of
from weft.sources.layout import Excerpt, Frame, Statement

__all__ = ["Excerpt", "Frame", "Sources", "Statement", "of"]
