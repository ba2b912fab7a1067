"""Open the values of a run: processes, places, and what each probe kept. All numbers in the files are checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from weft.base.lazy import dataclass
from weft.errors import TraceError
from weft.native.headers.value_format import (
    PlaceKind,
)  # fmt: skip
from weft.safety.folders import read_regular
from weft.values.folder import FOLDER, LINES, PROCESSORS, SUFFIX
from weft.values.process import ProcessValues


@dataclass
class ValueTrace:
    """The values that the probes of a run kept, by process."""

    path: Path
    processes: list[ProcessValues] = field(default_factory=list)

    @classmethod
    def open(cls, run: Path) -> ValueTrace:
        """Open the values of a run directory. TraceError if it has none, or holds a file that is no file of values."""
        files = sorted((run / FOLDER).glob(f"*{SUFFIX}"))
        if not files:
            raise TraceError(
                f"{run} has no values: the program has no probes (`weft probes --help` shows how to add them), or was "
                "not recorded by `weft run`"
            )
        lines = _read_lines(run / FOLDER / LINES)
        processes = [ProcessValues(path, lines.get(path.name, {})) for path in files]
        processes.sort(key=lambda one: (one.rank, one.path.name))
        return cls(run, processes)

    @property
    def problems(self) -> list[str]:
        """Sentences on what could not be kept or cannot be read."""
        return [f"rank {one.rank}: {text}" for one in self.processes for text in one.problems]

    @cached_property
    def has_processors(self) -> bool:
        """Whether the values are those of the processors of `weft check --trace` instead of ranks."""
        return (self.path / FOLDER / PROCESSORS).exists()

    def names_by_scope(self) -> dict[str, set[str]]:
        """Return scope -> the program's names of that kind; the scopes are file, procedure, loop, region and probe."""
        known: dict[str, set[str]] = {"file": set(), "procedure": set(), "loop": set(), "region": set(), "probe": set()}
        kinds = {PlaceKind.PROBE: "probe", PlaceKind.LOOP: "loop", PlaceKind.REGION: "region"}
        for place in (place for one in self.processes for place in one.places if place.kind in kinds):
            known[kinds[PlaceKind(place.kind)]].add(place.name)
            known["file"].add(place.file)
            known["procedure"].add(place.function)
        return known


def _read_lines(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the object that a JSON file of the run holds; {} if the file is missing or damaged."""
    try:
        found = json.loads(read_regular(path, path.parents[1]))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
