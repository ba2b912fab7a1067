"""The names of files in a run's folder of values. Read at every start of `weft run`: this module needs no numpy."""

from __future__ import annotations

from typing import Final

from weft.base.lazy import dataclass

FOLDER: Final = "values"
SUFFIX: Final = ".values"
LINES: Final = "lines.json"
PLAN: Final = "plan"
CONFIGURATION: Final = "probes.toml"
WATCHES: Final = "watches.json"
PROCESSORS: Final = "processors"
"""The grid of a run of `weft check --trace`, whose processors stand in the place of ranks."""


@dataclass(frozen=True, slots=True)
class RecordedValues:
    """How much a run kept, and what the user should know of it."""

    probes: int
    processes: int
    notes: list[str]
    """What the user should know."""
    unknown: list[str]
    """Entries of the configuration that name nothing of the program."""
