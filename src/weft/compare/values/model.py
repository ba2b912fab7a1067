"""The result of a comparison of values: the values that differ, and what the runs have in common."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from weft.base.lazy import dataclass
from weft.compare.values.judgement import Judgement
from weft.compare.values.moments import Moments
from weft.compare.values.structure import StructureDifference
from weft.values.process import Box, KeptValue
from weft.values.trace import ValueTrace

Sort = Literal["value", "shape", "missing", "surplus", "hash"]


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """A value of a rank of the run that differs from the reference.

    `value`: an element, `judged.first` of the box; `shape`: other sizes; `missing`: elements of the reference that no
    rank of the run has; `surplus`: elements of the run that no rank of the reference has; `hash`: elements of `box` of
    which only hashes were kept.
    """

    sort: Sort
    before: KeptValue
    after: KeptValue
    box: Box
    judged: Judgement

    @property
    def element(self) -> tuple[int, ...] | None:
        """Return the index (from 0) of the first differing element in the global array; None if it is unknown."""
        if self.sort in ("missing", "surplus"):
            return tuple(first for first, _ in self.box)
        if self.judged.first is None:
            return None
        return tuple(first + k for (first, _), k in zip(self.box, self.judged.first, strict=False))


@dataclass(slots=True)
class ValueComparison:
    """What the values of two runs have in common; `found` are those that differ, in the order of the reference."""

    before: ValueTrace
    after: ValueTrace
    compared: int = 0
    """Values of the run that were compared with the reference."""
    elements: int = 0
    aligned: Moments | None = None
    found: list[list[ValueDifference]] = field(default_factory=list)
    """By moment, the first one first."""
    keys: list[int] = field(default_factory=list)
    """Of `found` the moments' places in `aligned.keys`."""
    more: int = 0
    """Moments that may differ and were not looked at, beyond MOST."""
    rounded: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By probe: elements that only rounding keeps apart, and by how many units in the last place at most."""
    rounded_at: set[int] = field(default_factory=set)
    """Moments, as in `keys`, at which rounding keeps something apart."""
    parting: StructureDifference | None = None
    """The first place where the structures differ."""
    unplaced: set[str] = field(default_factory=set)
    """Probes that hold other values on each rank, in runs of other numbers of ranks."""
    unjudged: set[str] = field(default_factory=set)
    """Probes that two runs kept in forms that cannot be compared."""

    @property
    def alike(self) -> bool:
        """Return whether nothing differs beyond its tolerance."""
        return not self.found and self.parting is None
