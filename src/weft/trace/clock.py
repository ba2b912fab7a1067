"""The common time axis: ticks of every rank's clock as nanoseconds since the run's first event.

Two anchors (ticks, CLOCK_MONOTONIC and CLOCK_REALTIME read together) give the length of a tick. The ranks of a host
share CLOCK_MONOTONIC, so within a host the axis is as good as that clock; hosts are laid side by side by
CLOCK_REALTIME, as good as the machines' synchronisation (NTP: about a millisecond).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.trace.layout import Clock
from weft.trace.rankfile import Header

MOST_NS = 2**62
_MIN_BASE_NS = 1000
_AGREE_NS = 100_000


@dataclass(frozen=True)
class Axis:
    """ns = origin + (ticks - start) * length, for one rank."""

    start: int
    origin: int
    length: float

    def ns(self, ticks: int) -> int:
        """Return the time of one tick count in ns."""
        return int(min(max(self.origin + round(_wrap_to_signed(ticks - self.start) * self.length), -MOST_NS), MOST_NS))

    def ns_array(self, ticks: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return tick counts of the recorder's clock as times in ns."""
        delta = (ticks - np.uint64(self.start)).view(np.int64)
        if self.length == 1.0:
            return delta + np.int64(self.origin)
        ns: NDArray[np.int64] = np.clip(np.rint(delta * self.length), -MOST_NS, MOST_NS).astype(np.int64)
        return ns + np.int64(self.origin)

    def ticks(self, ns: float) -> int:
        """Return the tick count at a time in ns, at least 0 and at most 2^64 - 1."""
        return int(min(max(self.start + (ns - self.origin) / self.length, 0), 2**64 - 1))

    def moved(self, shift_ns: int) -> Axis:
        """Return the same axis, `shift_ns` later."""
        return Axis(self.start, self.origin + shift_ns, self.length)


def _wrap_to_signed(delta: int) -> int:
    return (delta + 2**63) % 2**64 - 2**63


def _measure_tick(header: Header) -> tuple[float, int] | None:
    """Return the length of a clock tick in ns, and the time in ns over which it was measured. None if the times in the
    header are impossible.
    """
    ticks = header.end.ticks - header.start.ticks
    ns = header.end.monotonic_ns - header.start.monotonic_ns
    if ticks <= 0 or ns <= 0 or not 1e-3 < ns / ticks < 1e6:
        return None
    return ns / ticks, ns


def _median(values: list[int]) -> int:
    """Return the median of integers, rounded down. `statistics` would cost every start the import of `decimal`."""
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) // 2


def _host_axes(headers: Sequence[Header]) -> list[Axis]:
    """Return, for each rank of one host, the axis that converts its clock ticks to ns of CLOCK_MONOTONIC.

    The tick length of the rank that ran longest is used for all ranks that it fits.
    """
    lengths = [_measure_tick(h) for h in headers]
    best = max((x for x in lengths if x), key=lambda x: x[1], default=(1.0, 0))[0]
    axes = []
    for header, own in zip(headers, lengths, strict=True):
        length = 1.0 if header.clock == Clock.MONOTONIC_NS else best
        if own and own[1] >= _MIN_BASE_NS and abs(own[0] - length) * own[1] / own[0] > _AGREE_NS:
            length = own[0]
        origin = min(header.start.monotonic_ns, MOST_NS)
        axes.append(Axis(header.start.ticks, origin, length))
    return axes


def align_clocks(headers: Sequence[Header]) -> list[Axis]:
    """Return, for each rank, the axis that converts its clock ticks to ns. All times are on the clock of the first
    host.
    """
    hosts: dict[str, list[int]] = defaultdict(list)
    for i, header in enumerate(headers):
        hosts[header.host].append(i)
    axes: list[Axis] = [Axis(0, 0, 1.0)] * len(headers)
    reference: int | None = None
    for indices in hosts.values():
        local = [headers[i] for i in indices]
        offset = _median([h.start.realtime_ns - h.start.monotonic_ns for h in local])
        reference = offset if reference is None else reference
        shift = offset - reference
        for i, axis in zip(indices, _host_axes(local), strict=True):
            axes[i] = axis.moved(shift if abs(shift) < MOST_NS else 0)
    return axes
