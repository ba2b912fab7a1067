"""What lies in a run's folder of values, by name. Read at every start of `weft run`: nothing here needs numpy."""

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
class Recorded:
    """What a run kept."""

    probes: int
    processes: int
    notes: list[str]
    """What the user should know."""
    unknown: list[str]
    """Entries of the configuration that name nothing of the program."""
