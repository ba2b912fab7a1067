"""The array that `weft.part(x, halo=1)` returns under `weft run`: numpy's own, whose accesses are recorded.

An element of an expression remembers which elements of shared arrays it was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from weft.halo.expression_origins import (
    Origin,
    Remembering,
    bare,
    basic,
    element,
    guarded,
    log_of,
    origins_of,
    plain_of,
    read,
    same,
    spread,
    summed,
    view_of,
)
from weft.halo.log_writer import Array, place
from weft.halo.store_recording import Made, Stored, storing, unknown

_LIKE: Final = frozenset((np.empty_like, np.zeros_like, np.ones_like, np.full_like, np.copy))


class Watched(Remembering):
    """An array of which this rank has a part with ghost cells, or what an expression made of one."""

    def __array_finalize__(self, made_of: Any) -> None:
        part = getattr(made_of, "_part", None)
        if part is not None:
            self._part = part

    def __getitem__(self, key: Any) -> Any:
        got = super().__getitem__(bare(key))
        if not isinstance(got, np.ndarray):
            if self._part is not None:
                guarded(self._part, lambda part: element(part, self, key, place()))
        elif self._from and isinstance(got, Watched):
            if basic(key):
                got._from = tuple(one._replace(view=one.view[key]) for one in self._from)
            got._part, got._computed = None, self._computed
        return got

    def __setitem__(self, key: Any, value: Any) -> None:
        plain = self.view(np.ndarray)
        part = self._part
        if part is None or not part.log.here():
            self._from, self._computed = (), True
            plain[plain_of(key)] = plain_of(value)
            return
        target = view_of(plain, key) if basic(key) else None
        if target is not None and isinstance(value, Watched) and same(target, value):
            return  # x[k] += y has stored it already
        storing(part, Stored(target, plain, key, value), lambda: plain.__setitem__(bare(key), plain_of(value)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        log, watched, plain = None, [], []
        for one in inputs:
            if type(one) is Watched:
                watched.append(one)
                plain.append(one.view(np.ndarray))
                log = log or log_of(one)
            elif _foreign(one):
                return NotImplemented
            else:
                plain.append(one)
        outs = options.pop("out", None) or ()
        outs = outs if isinstance(outs, tuple) else (outs,)
        if outs:
            options["out"] = tuple(plain_of(one) for one in outs)
            log = log or next((log for log in map(log_of, outs) if log), None)
        call = ufunc if method == "__call__" else getattr(ufunc, method)
        if log is None or not log.here():
            return _returned(call(*plain, **plain_of(options)), outs)
        if method == "__call__" and not outs and "where" not in options:
            origins = origins_of(ufunc, inputs, watched, place())
            return _made_of(call(*plain, **options), origins)
        return _unusual(_Call(ufunc, method, inputs, plain, outs, plain_of(options), watched))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in _LIKE and args and isinstance(args[0], Watched) and kwargs.get("subok", True):
            made = function(plain_of(args[0]), *args[1:], **kwargs)
            return _alike(args[0], made, copied=False) if function is not np.copy else made
        if function is np.copyto and len(args) == 2 and not kwargs:
            if isinstance(args[0], Watched):
                args[0][...] = args[1]
            else:
                np.copyto(args[0], plain_of(args[1]))
            return None
        targets = [one for one in (*args[:1], kwargs.get("out")) if isinstance(one, Watched)]
        for one in targets if function in _IN_PLACE or "out" in kwargs else ():
            unknown(one)
        return function(*plain_of(args), **plain_of(kwargs))

    def weft_shared(self) -> tuple[Array, str, list[int], list[int] | None] | None:
        """Return what this rank owns of a whole part, its name and its place, for probes; None where it has none."""
        part = self._part
        if part is None or part.halo is None or not same(part.array, self):
            return None
        if not part.facts["of"] or part.facts["lower"] is None:
            return None
        own = tuple(slice(low, n - high) for n, (low, high) in zip(part.shape, part.halo, strict=True))
        return part.array[own], part.facts["of"], part.facts["lower"], part.facts["whole"]

    def copy(self, order: Any = "C") -> Any:
        """Return as numpy's; of a whole part it is one of the same form."""
        return _alike(self, self.view(np.ndarray).copy(order), copied=True)

    def fill(self, value: Any) -> None:
        """As numpy's."""
        self[...] = value

    def sort(self, *args: Any, **kwargs: Any) -> None:
        """As numpy's."""
        unknown(self)
        self.view(np.ndarray).sort(*args, **kwargs)

    def put(self, *args: Any, **kwargs: Any) -> None:
        """As numpy's."""
        unknown(self)
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


def _foreign(value: Any) -> bool:
    """Return whether a value has arithmetic of its own."""
    kind = type(value)
    if kind is np.ndarray or kind is float or kind is int:
        return False
    own = getattr(kind, "__array_ufunc__", _NUMPY)
    return own is not _NUMPY and not isinstance(value, Watched)


_NUMPY: Final = np.ndarray.__array_ufunc__


class _Call(NamedTuple):
    """A ufunc with what it is given: as it came, and without watched arrays."""

    ufunc: np.ufunc
    method: str
    inputs: Sequence[Any]
    plain: Sequence[Any]
    outs: Sequence[Any]
    options: dict[str, Any]
    watched: Sequence[Watched]


def _unusual(call: _Call) -> Any:
    """Return a ufunc that stores in what is there, reduces, or chooses."""
    work = getattr(call.ufunc, call.method)
    results: list[Any] = []

    def store() -> None:
        results.append(work(*call.plain, **call.options))

    stored = next((one for one in call.outs if isinstance(one, Watched) and one._part is not None), None)
    known = "where" not in call.options and call.method in ("__call__", "reduce")
    origins = origins_of(call.ufunc, call.inputs, call.watched, place()) if known else ()
    first = call.watched[0] if call.watched and call.watched[0] is call.inputs[0] else None
    if call.method == "at" and first is not None and first._part is not None:
        storing(first._part, Stored(None, call.plain[0], call.inputs[1], None), store)
    elif stored is not None and stored._part is not None:
        target = stored.view(np.ndarray)
        known = known and call.method == "__call__"
        made = Made(spread(origins, target.shape) if known else (), computed=known, plain=None)
        storing(stored._part, Stored(target, target, ..., made), store)
    else:
        store()
    if call.method == "reduce" and origins:
        guarded(origins[0].part, lambda part: summed(part, origins, place()))
    return _returned(results[0], call.outs)


def _made_of(result: Any, origins: tuple[Origin, ...]) -> Any:
    """Return a new result as what remembers its origins."""
    if isinstance(result, tuple):
        return tuple(_made_of(one, origins) for one in result)
    if not isinstance(result, np.ndarray):
        return result
    made = result.view(Watched)
    made._from, made._computed = spread(origins, result.shape), True
    return made


def _returned(result: Any, outs: Sequence[Any]) -> Any:
    """Return what a ufunc gives back: the arrays that it was given to store in."""
    if not outs or not any(isinstance(one, Watched) for one in outs):
        return result
    return outs[0] if len(outs) == 1 else tuple(outs)


def _alike(old: Watched, made: Array, *, copied: bool) -> Array:
    """Return a new array of the form of a whole part is one, too; what is stored in it counts."""
    part = old._part
    if part is None or made.shape != part.shape or not part.log.here():
        result = made.view(Watched)
        result._part, result._computed = None, True
        return result
    try:
        at = place()
        origins = read(old, at)
        if not origins or not same(origins[0].view, part.array):
            return made
        result = made.view(Watched)
        if part.log.another(at):
            result._part = part.like(made)
        else:
            result._from, result._computed = origins if copied else (), True
        return result
    except Exception as error:  # the program goes on, whatever is wrong here
        part.log.fail(f"{type(error).__name__}: {error} (copies)")
        return made
