"""Declare a shared array under `weft run`: the line `weft.part(x, halo=1)`, and the array to use from there on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from weft.halo.log_writer import Array, Log, Recorder, SharedPart
from weft.halo.watched_array import WatchedPart

INFERRED: Final = "inferred"
"""In place of widths: receives show them, by where they put data."""


class _Known:
    log: Log | None = None
    asked = False


def watch_array(run: Path, values: Array, facts: dict[str, Any], halo: Sequence[tuple[int, int]] | None) -> Array:
    """Return the array to use in place of `values` from here on: one that records accesses, or `values` itself if
    nothing is recorded.
    """
    if not _Known.asked:
        try:
            recorder = Recorder()
        except (AttributeError, OSError, ValueError):
            return values  # there is no recorder of MPI in this process
        if not recorder.records:
            return values  # not yet: MPI may be initialised later
        _Known.asked = True
        try:
            _Known.log = Log(run, recorder)
        except OSError:
            return values
    log = _Known.log
    if log is None or not log.is_recording():
        return values
    made = values.view(WatchedPart)
    made._part = SharedPart(log, values, facts, halo)
    return made


def declare_part(
    run: Path, values: Any, halo: Any, call_site: tuple[str, int, str], arguments: Mapping[str, Any]
) -> Any:
    """Do what `weft.part(values, halo=...)` does under `weft run`: return an array that records accesses, or `values`
    itself if nothing can be recorded. Raises ValueError if the widths cannot be right.
    """
    if not isinstance(values, np.ndarray) or isinstance(values, WatchedPart):
        return values
    width = None if halo == INFERRED else parse_widths(halo, values.shape)
    if values.dtype.kind not in "iufcb" or any(step <= 0 for step in values.strides):
        return values
    comm = arguments["comm"]
    grid = {
        "dims": list(getattr(comm, "dims", None) or ([comm.size] if comm is not None else [])),
        "coordinates": list(getattr(comm, "coords", None) or ([comm.rank] if comm is not None else [])),
        "periods": [bool(one) for one in getattr(comm, "periods", None) or []],
    }
    listed = {name: _listed(arguments[name], values.ndim) for name in ("lower", "whole", "periodic")}
    facts = {"of": arguments["of"] or "", **listed, "lag": arguments["lag"], "grid": grid, "at": call_site}
    return watch_array(run, values, facts, width)


def _listed(given: Any, dimensions: int) -> list[int] | None:
    if given is None:
        return None
    return [int(given)] * dimensions if np.ndim(given) == 0 else [int(one) for one in given]


def parse_widths(halo: Any, shape: Sequence[int]) -> list[tuple[int, int]]:
    """Return (ghost cells below, above) for each dimension, from one number for all, one for each, or pairs. Raises
    ValueError if they do not fit.
    """
    listed: Iterable[Any] = [halo] * len(shape) if np.ndim(halo) == 0 else halo
    found = [(int(one), int(one)) if np.ndim(one) == 0 else (int(one[0]), int(one[1])) for one in listed]
    if len(found) != len(shape):
        raise ValueError(f"halo has {len(found)} widths, and the array {len(shape)} dimensions")
    if any(low < 0 or high < 0 or low + high >= n for n, (low, high) in zip(shape, found, strict=True)):
        raise ValueError(f"halo {halo} leaves nothing of an array of shape {tuple(shape)}")
    return found
