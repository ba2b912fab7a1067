"""Keep the program's source as it was when the run was recorded, so that every report shows the same.

`keep_sources` writes it into the run at the end of a recording; `sources_of(trace)` reads it again, anywhere and at any
time.
"""

from __future__ import annotations

from weft.sources.kept_sources import Sources, sources_of
from weft.sources.layout import Excerpt, Frame, Statement

__all__ = ["Excerpt", "Frame", "Sources", "Statement", "sources_of"]
