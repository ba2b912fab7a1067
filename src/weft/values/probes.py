"""Probes, which a Python program calls to keep its values. Without `weft run` each one reads a variable only."""

from __future__ import annotations

import os
import sys

from weft.values.array_part import ArrayPart

TYPE_CHECKING = False  # a program imports this: no module that it may not need
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any, Final, Self

    from weft.values.capture import Capture

LIBRARY: Final = "WEFT_INTERNAL_VALUES_LIBRARY"
"""The variable by which `weft run` offers to keep values."""


class _CaptureState:
    """The capture of this process, which its first probe begins."""

    known: Capture | None = None
    asked = False


def _find_capture() -> Capture | None:
    """Return the Capture by which this process records values; None if `weft run` did not start the program."""
    if not _CaptureState.asked:
        _CaptureState.asked = True
        if os.environ.get(LIBRARY):
            # It needs numpy, which a program without `weft run` does not wait for.
            from weft.values.capture import begin_capture

            _CaptureState.known = begin_capture(os.environ[LIBRARY])
    return _CaptureState.known


def probe(name: str, value: object, *, terms: object = None) -> None:
    """Keep a number, an array or a `part` of one under a name, as the configuration of the run says.

    `terms`: the numbers of this rank whose sum is `value`. Two runs that add them in another order can then be
    distinguished from two that add other numbers.
    """
    capture = _find_capture()
    if capture is not None:
        capture.probe(name, value, terms, sys._getframe(1))


def part(
    values: Any,
    *,
    of: str | None = None,
    lower: Sequence[int] | int | None = None,
    whole: Sequence[int] | int | None = None,
    comm: Any = None,
    halo: int | Sequence[int | tuple[int, int]] | str | None = None,
    periodic: bool | Sequence[bool] | None = None,
    lag: int = 0,
) -> Any:
    """Return `values` as a part of the array `of`, which is distributed over the ranks. `lower`: the index in that
    array, from 0 on, of the first element of `values`.

    In place of `lower`, `comm` and `whole` say how the array is cut into blocks. `comm` is an MPI Cartesian
    communicator, or any communicator for an array cut along its first dimension; `whole` is the shape of the global
    array. If the blocks cannot be equal, the first ones are larger by one.

    `halo`: the width of the ghost cells around what this rank owns (a number, one for each dimension, or pairs of below
    and above). `values` then has the ghost cells too, and the program is to use the result in place of `values`: under
    `weft run` the accesses to it are recorded, otherwise it is `values` itself. `comm` is then enough without `whole`.
    With `halo="inferred"`, or with `comm` alone, the widths follow from where receives put data into the array.

    `periodic`: whether the array is periodic in each dimension, if the communicator does not say it. `lag`: by how many
    changes a ghost cell may by design be older than its owner's cell.
    """
    if halo is None and comm is not None and lower is None and whole is None:
        halo = "inferred"
    if halo is not None:
        if lower is None and comm is not None and whole is not None:
            lower = _Blocks(values, comm, whole).block_start()
        said = {"of": of, "lower": lower, "whole": whole, "comm": comm, "periodic": periodic, "lag": lag}
        return _declare_halo_array(values, halo, said)
    if lower is None and comm is not None and whole is not None:
        lower = _Blocks(values, comm, whole).start_if_shape_fits()
    return ArrayPart(values, "" if of is None else of, 0 if lower is None else lower, whole)


def _declare_halo_array(values: Any, halo: Any, part_arguments: dict[str, Any]) -> Any:
    """Return an array like `values` whose accesses are recorded; `values` itself without `weft run`. `part_arguments`:
    the other arguments of `part`.
    """
    if _find_capture() is None or not os.environ.get("WEFT_INTERNAL_VALUES"):
        return values
    # It needs numpy, which a program without `weft run` does not wait for.
    from pathlib import Path

    from weft.halo.declaring import declare_part

    frame = sys._getframe(2)
    at = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname
    run = Path(os.environ["WEFT_INTERNAL_VALUES"]).parent
    return declare_part(run, values, halo, at, part_arguments)


class _Blocks:
    """Compute where the block of a rank begins. Blocks that contradict the rule are reported by the capture."""

    def __init__(self, values: object, comm: Any, whole: Sequence[int] | int) -> None:
        self.shape = [whole] if isinstance(whole, int) else list(whole)
        dims, coordinates = getattr(comm, "dims", None), getattr(comm, "coords", None)
        self.parts = list(dims) if dims is not None else [comm.size]
        self.at = list(coordinates) if coordinates is not None else [comm.rank]
        self.own: Sequence[int] = getattr(values, "shape", ())

    def start_if_shape_fits(self) -> list[int]:
        """Return the index of the block's first element; [-1] if the block has another shape than the rule says."""
        rule = self._block_bounds()
        if [last - first for first, last in rule] != list(self.own):
            return [-1]
        return [first for first, _ in rule]

    def block_start(self) -> list[int]:
        """Return the index of the block's first element by the rule, whatever its shape."""
        return [first for first, _ in self._block_bounds()]

    def _block_bounds(self) -> list[tuple[int, int]]:
        rule = [block(n, p, k) for n, p, k in zip(self.shape, self.parts, self.at, strict=False)]
        return rule + [(0, n) for n in self.shape[len(rule) :]]


def block(elements: int, parts: int, number: int) -> tuple[int, int]:
    """Return (first index, end) of block `number`, if `elements` are divided into `parts` blocks. The first blocks are
    larger by one if they cannot be equal.
    """
    size, more = divmod(elements, parts)
    first = number * size + min(number, more)
    return first, first + size + (number < more)


class loop:  # noqa: N801 - used as a word of the language: with weft.loop("sweep", i):
    """An iteration of a loop: `with weft.loop("sweep", i):` around its body."""

    __slots__ = ("_index", "_name", "_place")

    def __init__(self, name: str, index: int) -> None:
        self._name, self._index, self._place = name, index, 0

    def __enter__(self) -> Self:
        capture = _find_capture()
        if capture is not None:
            self._place = capture.enter(self._name, self._index, sys._getframe(1))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        capture = _find_capture()
        if capture is not None and self._place:
            capture.leave(self._place)


class region(loop):  # noqa: N801 - as above
    """A part of the program that is not a loop: `with weft.region("assembly"):` around it."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(name, 0)

    def __enter__(self) -> Self:
        capture = _find_capture()
        if capture is not None:
            self._place = capture.enter(self._name, None, sys._getframe(1))
        return self
