"""The array that `weft.part(x, halo=1)` returns under `weft run`: numpy's own, whose accesses are recorded.

An element of an expression remembers which elements of shared arrays it was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from weft.halo.expression_origins import (
    Origin,
    TracedArray,
    are_same_elements,
    broadcast_origins,
    find_origins,
    is_basic_key,
    log_of,
    read_operand,
    record_element_read,
    record_safely,
    record_sum,
    strip_key,
    strip_watched,
    view_of,
)
from weft.halo.log_writer import Array, find_call_site
from weft.halo.store_recording import Store, StoredValue, record_around_store, record_unknown_store

_LIKE: Final = frozenset((np.empty_like, np.zeros_like, np.ones_like, np.full_like, np.copy))


class WatchedPart(TracedArray):
    """An array of which this rank has a part with ghost cells, or what an expression made of one."""

    def __array_finalize__(self, made_of: Any) -> None:
        part = getattr(made_of, "_part", None)
        if part is not None:
            self._part = part

    def __getitem__(self, key: Any) -> Any:
        """Return an element, slice or copy as NumPy does. The read of a single element is recorded; an array remembers
        which shared elements its values come from.
        """
        got = super().__getitem__(strip_key(key))
        if not isinstance(got, np.ndarray):
            if self._part is not None:
                record_safely(self._part, lambda part: record_element_read(part, self, key, find_call_site()))
        elif self._from and isinstance(got, WatchedPart):
            if is_basic_key(key):
                got._from = tuple(one._replace(view=one.view[key]) for one in self._from)
            got._part, got._computed = None, self._computed
        return got

    def __setitem__(self, key: Any, value: Any) -> None:
        """Store a value as NumPy does, and record the store if this array is a shared part."""
        plain = self.view(np.ndarray)
        part = self._part
        if part is None or not part.log.is_recording():
            self._from, self._computed = (), True
            plain[strip_watched(key)] = strip_watched(value)
            return
        target = view_of(plain, key) if is_basic_key(key) else None
        if target is not None and isinstance(value, WatchedPart) and are_same_elements(target, value):
            return  # x[k] += y has stored it already
        record_around_store(
            part, Store(target, plain, key, value), lambda: plain.__setitem__(strip_key(key), strip_watched(value))
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Return the result of a ufunc on plain arrays, and record what it reads and stores. A new result remembers
        which shared elements it comes from.
        """
        log, watched, plain = None, [], []
        for one in inputs:
            if type(one) is WatchedPart:
                watched.append(one)
                plain.append(one.view(np.ndarray))
                log = log or log_of(one)
            elif _has_own_arithmetic(one):
                return NotImplemented
            else:
                plain.append(one)
        outs = options.pop("out", None) or ()
        outs = outs if isinstance(outs, tuple) else (outs,)
        if outs:
            options["out"] = tuple(strip_watched(one) for one in outs)
            log = log or next((log for log in map(log_of, outs) if log), None)
        call = ufunc if method == "__call__" else getattr(ufunc, method)
        if log is None or not log.is_recording():
            return _choose_ufunc_result(call(*plain, **strip_watched(options)), outs)
        if method == "__call__" and not outs and "where" not in options:
            origins = find_origins(ufunc, inputs, watched, find_call_site())
            return _remember_origins(call(*plain, **options), origins)
        return _call_storing_ufunc(_Call(ufunc, method, inputs, plain, outs, strip_watched(options), watched))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of a NumPy function that is called with plain arrays in place of recording ones. Stores of
        the function into recording arrays are recorded.
        """
        if function in _LIKE and args and isinstance(args[0], WatchedPart) and kwargs.get("subok", True):
            made = function(strip_watched(args[0]), *args[1:], **kwargs)
            return _watch_new_array(args[0], made, has_copied_values=False) if function is not np.copy else made
        if function is np.copyto and len(args) == 2 and not kwargs:
            if isinstance(args[0], WatchedPart):
                args[0][...] = args[1]
            else:
                np.copyto(args[0], strip_watched(args[1]))
            return None
        targets = [one for one in (*args[:1], kwargs.get("out")) if isinstance(one, WatchedPart)]
        for one in targets if function in _IN_PLACE or "out" in kwargs else ():
            record_unknown_store(one)
        return function(*strip_watched(args), **strip_watched(kwargs))

    def weft_shared(self) -> tuple[Array, str, list[int], list[int] | None] | None:
        """Return, for recording values, (the elements that this rank owns, the array's name, their first global index,
        the global shape). Return None if this array is not a whole part with a known place.
        """
        part = self._part
        if part is None or part.halo is None or not are_same_elements(part.array, self):
            return None
        if not part.facts["of"] or part.facts["lower"] is None:
            return None
        own = tuple(slice(low, n - high) for n, (low, high) in zip(part.shape, part.halo, strict=True))
        return part.array[own], part.facts["of"], part.facts["lower"], part.facts["whole"]

    def copy(self, order: Any = "C") -> Any:
        """Return a copy as numpy's; the copy of a whole part is watched, too."""
        return _watch_new_array(self, self.view(np.ndarray).copy(order), has_copied_values=True)

    def fill(self, value: Any) -> None:
        """As numpy's."""
        self[...] = value

    def sort(self, *args: Any, **kwargs: Any) -> None:
        """As numpy's."""
        record_unknown_store(self)
        self.view(np.ndarray).sort(*args, **kwargs)

    def put(self, *args: Any, **kwargs: Any) -> None:
        """As numpy's."""
        record_unknown_store(self)
        self.view(np.ndarray).put(*args, **kwargs)

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.view(np.ndarray).__reduce_ex__(protocol)

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __str__(self) -> str:
        return str(self.view(np.ndarray))

    def __format__(self, spec: str) -> str:
        return format(self.view(np.ndarray), spec)


_IN_PLACE: Final = frozenset(
    function
    for name in ("put", "place", "putmask", "fill_diagonal", "put_along_axis", "copyto")
    if (function := getattr(np, name, None))
)


def _has_own_arithmetic(value: Any) -> bool:
    """Return whether a value's type defines NumPy arithmetic of its own."""
    kind = type(value)
    if kind is np.ndarray or kind is float or kind is int:
        return False
    own = getattr(kind, "__array_ufunc__", _NUMPY)
    return own is not _NUMPY and not isinstance(value, WatchedPart)


_NUMPY: Final = np.ndarray.__array_ufunc__


class _Call(NamedTuple):
    """A ufunc with what it is given: as it came, and without watched arrays."""

    ufunc: np.ufunc
    method: str
    inputs: Sequence[Any]
    plain: Sequence[Any]
    outs: Sequence[Any]
    options: dict[str, Any]
    watched: Sequence[WatchedPart]


def _call_storing_ufunc(call: _Call) -> Any:
    """Call a ufunc that stores into an existing array, reduces or chooses elements; record its reads and stores, and
    return its result.
    """
    work = getattr(call.ufunc, call.method)
    results: list[Any] = []

    def store() -> None:
        results.append(work(*call.plain, **call.options))

    stored = next((one for one in call.outs if isinstance(one, WatchedPart) and one._part is not None), None)
    known = "where" not in call.options and call.method in ("__call__", "reduce")
    origins = find_origins(call.ufunc, call.inputs, call.watched, find_call_site()) if known else ()
    first = call.watched[0] if call.watched and call.watched[0] is call.inputs[0] else None
    if call.method == "at" and first is not None and first._part is not None:
        record_around_store(first._part, Store(None, call.plain[0], call.inputs[1], None), store)
    elif stored is not None and stored._part is not None:
        target = stored.view(np.ndarray)
        known = known and call.method == "__call__"
        made = StoredValue(broadcast_origins(origins, target.shape) if known else (), computed=known, plain=None)
        record_around_store(stored._part, Store(target, target, ..., made), store)
    else:
        store()
    if call.method == "reduce" and origins:
        record_safely(origins[0].part, lambda part: record_sum(part, origins, find_call_site()))
    return _choose_ufunc_result(results[0], call.outs)


def _remember_origins(result: Any, origins: tuple[Origin, ...]) -> Any:
    """Return a new result as an array that remembers its origins."""
    if isinstance(result, tuple):
        return tuple(_remember_origins(one, origins) for one in result)
    if not isinstance(result, np.ndarray):
        return result
    made = result.view(WatchedPart)
    made._from, made._computed = broadcast_origins(origins, result.shape), True
    return made


def _choose_ufunc_result(result: Any, out_arguments: Sequence[Any]) -> Any:
    """Return what a ufunc returns to the program: the program's own `out` arrays if some of them record accesses,
    otherwise the computed result.
    """
    if not out_arguments or not any(isinstance(one, WatchedPart) for one in out_arguments):
        return result
    return out_arguments[0] if len(out_arguments) == 1 else tuple(out_arguments)


def _watch_new_array(part_array: WatchedPart, new_array: Array, *, has_copied_values: bool) -> Array:
    """Return an array that the program made in the form of a shared part, watched as far as the check needs: as a
    further part, as an array that remembers where its values come from, or as it is."""
    part = part_array._part
    if part is None or new_array.shape != part.shape or not part.log.is_recording():
        result = new_array.view(WatchedPart)
        result._part, result._computed = None, True
        return result
    try:
        at = find_call_site()
        origins = read_operand(part_array, at)
        if not origins or not are_same_elements(origins[0].view, part.array):
            return new_array
        result = new_array.view(WatchedPart)
        if part.log.is_copy_followed(at):
            result._part = part.make_similar(new_array)
        else:
            result._from, result._computed = origins if has_copied_values else (), True
        return result
    except Exception as error:  # the program goes on, whatever is wrong here
        part.log.give_up(f"{type(error).__name__}: {error} (copies)")
        return new_array
