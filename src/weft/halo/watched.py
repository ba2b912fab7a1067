"""The array that `weft.part(x, halo=1)` returns under `weft run`: numpy's own, whose accesses are written down.

An element of an expression remembers which elements of shared arrays it was made of. What counts as a use of a ghost
cell is that a value made of it is stored at another element, or is summed up with others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from weft.halo.writing import Array, Log, Part, Place, Recorder, address, place, shown

_READ: Final = 1
_WRITE: Final = 2
_MOST_ORIGINS: Final = 48
_LIKE: Final = frozenset((np.empty_like, np.zeros_like, np.ones_like, np.full_like, np.copy))
_BASIC: Final = (int, np.integer, slice, type(Ellipsis), type(None))


class Origin(NamedTuple):
    """Elements that were read, as an array of the shape of what was made of them."""

    view: Array
    part: Part
    moment: int
    ghosts: int
    runs: int
    at: Place


class Watched(np.ndarray):
    """An array of which this rank has a part with ghost cells, or what an expression made of one."""

    _part: Part | None
    _from: tuple[Origin, ...]
    _computed: bool

    def __array_finalize__(self, made_of: Any) -> None:
        self._part = getattr(made_of, "_part", None)
        self._from = ()
        self._computed = False

    def __getitem__(self, key: Any) -> Any:
        got = super().__getitem__(_plain(key))
        if not isinstance(got, np.ndarray):
            if self._part is not None:
                _guarded(self._part, lambda part: _element(part, self, key, place()))
        elif self._from and isinstance(got, Watched):
            if _basic(key):
                got._from = tuple(one._replace(view=one.view[key]) for one in self._from)
            got._part, got._computed = None, self._computed
        return got

    def __setitem__(self, key: Any, value: Any) -> None:
        plain = self.view(np.ndarray)
        part = self._part
        if part is None or not part.log.here():
            self._from, self._computed = (), True
            plain[_plain(key)] = _plain(value)
            return
        target = _view(plain, key) if _basic(key) else None
        if target is not None and isinstance(value, Watched) and _same(target, value):
            return  # x[k] += y has stored it already
        _storing(part, _Stored(target, plain, key, value), lambda: plain.__setitem__(_plain(key), _plain(value)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        log, watched, plain = None, [], []
        for one in inputs:
            if type(one) is Watched:
                watched.append(one)
                plain.append(one.view(np.ndarray))
                log = log or _log(one)
            elif _foreign(one):
                return NotImplemented
            else:
                plain.append(one)
        outs = options.pop("out", None) or ()
        outs = outs if isinstance(outs, tuple) else (outs,)
        if outs:
            options["out"] = tuple(_plain(one) for one in outs)
            log = log or next((log for log in map(_log, outs) if log), None)
        call = ufunc if method == "__call__" else getattr(ufunc, method)
        if log is None or not log.here():
            return _returned(call(*plain, **_plain(options)), outs)
        if method == "__call__" and not outs and "where" not in options:
            origins = _origins(ufunc, inputs, watched, place())
            return _made_of(call(*plain, **options), origins)
        return _unusual(_Call(ufunc, method, inputs, plain, outs, _plain(options), watched))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in _LIKE and args and isinstance(args[0], Watched) and kwargs.get("subok", True):
            made = function(_plain(args[0]), *args[1:], **kwargs)
            return _alike(args[0], made, copied=False) if function is not np.copy else made
        if function is np.copyto and len(args) == 2 and not kwargs:
            if isinstance(args[0], Watched):
                args[0][...] = args[1]
            else:
                np.copyto(args[0], _plain(args[1]))
            return None
        targets = [one for one in (*args[:1], kwargs.get("out")) if isinstance(one, Watched)]
        for one in targets if function in _IN_PLACE or "out" in kwargs else ():
            _unknown(one)
        return function(*_plain(args), **_plain(kwargs))

    def weft_shared(self) -> tuple[Array, str, list[int], list[int] | None] | None:
        """What this rank owns of a whole part, its name and its place, for probes; None where it has none."""
        part = self._part
        if part is None or not _same(part.array, self) or not part.facts["of"] or part.facts["lower"] is None:
            return None
        own = tuple(slice(low, n - high) for n, (low, high) in zip(part.shape, part.halo, strict=True))
        return part.array[own], part.facts["of"], part.facts["lower"], part.facts["whole"]

    def copy(self, order: Any = "C") -> Any:
        """As numpy's; of a whole part it is one of the same form."""
        return _alike(self, self.view(np.ndarray).copy(order), copied=True)

    def fill(self, value: Any) -> None:
        """As numpy's."""
        self[...] = value

    def sort(self, *args: Any, **kwargs: Any) -> None:
        """As numpy's."""
        _unknown(self)
        self.view(np.ndarray).sort(*args, **kwargs)

    def put(self, *args: Any, **kwargs: Any) -> None:
        """As numpy's."""
        _unknown(self)
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


class _Made(NamedTuple):
    """What is stored, where it is known already."""

    origins: tuple[Origin, ...]
    computed: bool
    plain: Array | None


class _Known:
    log: Log | None = None
    asked = False


def watch(run: Path, values: Array, facts: dict[str, Any], halo: Sequence[tuple[int, int]]) -> Array:
    """The array to use in place of `values`: itself where nothing is recorded."""
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
    if log is None or not log.here():
        return values
    made = values.view(Watched)
    made._part = Part(log, values, facts, halo)
    return made


def _plain(value: Any) -> Any:
    """The same without watched arrays, in tuples, lists and dictionaries too."""
    if isinstance(value, Watched):
        return value.view(np.ndarray)
    if type(value) in (tuple, list):
        return type(value)(_plain(one) for one in value)
    if type(value) is dict:
        return {name: _plain(one) for name, one in value.items()}
    return value


def _foreign(value: Any) -> bool:
    """Whether a value has arithmetic of its own."""
    kind = type(value)
    if kind is np.ndarray or kind is float or kind is int:
        return False
    own = getattr(kind, "__array_ufunc__", _NUMPY)
    return own is not _NUMPY and not isinstance(value, Watched)


_NUMPY: Final = np.ndarray.__array_ufunc__


def _basic(key: Any) -> bool:
    """Whether a key chooses a view: numbers and slices."""
    return all(isinstance(one, _BASIC) for one in key) if type(key) is tuple else isinstance(key, _BASIC)


def _view(plain: Array, key: Any) -> Array:
    """The elements of a basic key as an array, of one element too."""
    keys = key if type(key) is tuple else (key,)
    return plain[keys if any(one is ... for one in keys) else (*keys, ...)]


def _same(one: Array, other: Array) -> bool:
    """Whether two arrays are the same elements."""
    return one.shape == other.shape and one.strides == other.strides and address(one) == address(other)


def _log(value: Any) -> Log | None:
    if not isinstance(value, Watched):
        return None
    return value._part.log if value._part is not None else value._from[0].part.log if value._from else None


def _guarded(part: Part, work: Callable[[Part], object]) -> None:
    """Do what writes down, and give up writing where it fails."""
    if part.log.here():
        try:
            work(part)
        except Exception as error:  # the program goes on, whatever is wrong here
            part.log.fail(f"{type(error).__name__}: {error} (an array)")


def _read(view: Watched, at: Place) -> tuple[Origin, ...]:
    """What an operand was made of: itself, where it lies in a part."""
    if view._from or view._part is None:
        return view._from
    part, plain = view._part, view.view(np.ndarray)
    cells = part.cells(plain)
    if cells is None:
        return ()
    part.accessed(cells, _READ)
    moment = part.log.moment()
    ghosts = part.look_at_ghosts(moment) if part.reaches(cells, ghosts=True) else part.ghosts_seen
    return (Origin(plain, part, moment, ghosts, part.log.runs, at),)


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
    """A ufunc that stores in what is there, reduces, or chooses."""
    work = getattr(call.ufunc, call.method)
    results: list[Any] = []

    def store() -> None:
        results.append(work(*call.plain, **call.options))

    stored = next((one for one in call.outs if isinstance(one, Watched) and one._part is not None), None)
    known = "where" not in call.options and call.method in ("__call__", "reduce")
    origins = _origins(call.ufunc, call.inputs, call.watched, place()) if known else ()
    first = call.watched[0] if call.watched and call.watched[0] is call.inputs[0] else None
    if call.method == "at" and first is not None and first._part is not None:
        _storing(first._part, _Stored(None, call.plain[0], call.inputs[1], None), store)
    elif stored is not None and stored._part is not None:
        target = stored.view(np.ndarray)
        known = known and call.method == "__call__"
        made = _Made(_spread(origins, target.shape) if known else (), computed=known, plain=None)
        _storing(stored._part, _Stored(target, target, ..., made), store)
    else:
        store()
    if call.method == "reduce" and origins:
        _guarded(origins[0].part, lambda part: _summed(part, origins, place()))
    return _returned(results[0], call.outs)


def _made_of(result: Any, origins: tuple[Origin, ...]) -> Any:
    """A new result as what remembers its origins."""
    if isinstance(result, tuple):
        return tuple(_made_of(one, origins) for one in result)
    if not isinstance(result, np.ndarray):
        return result
    made = result.view(Watched)
    made._part, made._from, made._computed = None, _spread(origins, result.shape), True
    return made


def _spread(origins: tuple[Origin, ...], shape: tuple[int, ...]) -> tuple[Origin, ...]:
    """Origins in the shape of what was made of them."""
    if all(one.view.shape == shape for one in origins):
        return origins
    return tuple(one._replace(view=np.broadcast_to(one.view, shape)) for one in origins)


def _origins(ufunc: np.ufunc, inputs: Sequence[Any], watched: Sequence[Watched], at: Place) -> tuple[Origin, ...]:
    """What a result is made of, element by element; nothing where that is not known."""
    log = next(log for log in map(_log, watched) if log) if watched else None
    try:
        found: tuple[Origin, ...] = ()
        for one in watched:
            found += _read(one, at)
        if ufunc is np.multiply and any(_masks(one) for one in inputs):
            return ()  # what is multiplied by nothing is not used
        return found if len(found) <= _MOST_ORIGINS and ufunc.signature is None else ()
    except Exception as error:  # the program goes on, whatever is wrong here
        if log:
            log.fail(f"{type(error).__name__}: {error} (origins)")
        return ()


def _masks(value: Any) -> bool:
    """Whether a factor is 0 somewhere, and no array that ranks share."""
    if isinstance(value, (int, float)):
        return value == 0
    if isinstance(value, Watched) and (value._from or value._part is not None):
        return False
    return not np.all(value)


def _returned(result: Any, outs: Sequence[Any]) -> Any:
    """What a ufunc gives back: the arrays that it was given to store in."""
    if not outs or not any(isinstance(one, Watched) for one in outs):
        return result
    return outs[0] if len(outs) == 1 else tuple(outs)


def _alike(old: Watched, made: Array, *, copied: bool) -> Array:
    """A new array of the form of a whole part is one, too; what is stored in it counts."""
    part = old._part
    if part is None or made.shape != part.shape or not part.log.here():
        result = made.view(Watched)
        result._part, result._computed = None, True
        return result
    try:
        at = place()
        origins = _read(old, at)
        if not origins or not _same(origins[0].view, part.array):
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


def _element(part: Part, array: Watched, key: Any, at: Place) -> None:
    """A single element is read."""
    plain = array.view(np.ndarray)
    view = _view(plain, key)
    cells = part.cells(view)
    if cells is None:
        return
    part.accessed(cells, _READ)
    if part.reaches(cells, ghosts=True):
        moment = part.log.moment()
        origin = Origin(view, part, moment, part.look_at_ghosts(moment), part.log.runs, at)
        _told(part, ("element", at, cells), [origin], at, {"what": "element"})


def _summed(part: Part, origins: Sequence[Origin], at: Place) -> None:
    """Elements are summed up, or the like, that were made of several."""
    if len({(o.part.number, address(o.view), o.view.strides) for o in origins}) > 1:
        _told(part, ("sum", at), origins, at, {"what": "sum"})


def _told(part: Part, key: tuple[Any, ...], origins: Sequence[Origin], at: Place, fields: dict[str, Any]) -> None:
    """Write a use down, with the ghosts among what it was made of."""
    reads = [(o, cells) for o in origins if (cells := o.part.cells(o.view)) and o.part.reaches(cells, ghosts=True)]
    if not reads and fields["what"] != "store":
        return
    use = part.log.use(
        (part.number, key, tuple((o.part.number, cells, o.at) for o, cells in reads)),
        lambda: {
            "part": part.number, "at": shown(at), **fields,
            "reads": [{"part": o.part.number, "cells": cells, "at": shown(o.at)} for o, cells in reads],
        },
    )  # fmt: skip
    part.log.run(use, [(o.moment, o.ghosts, o.runs) for o, _ in reads])


class _Stored(NamedTuple):
    """What is stored where: the elements, None if a list of indices chooses them; the array and the key; the value."""

    target: Array | None
    whole: Array
    key: Any
    value: Any


def _storing(part: Part, what: _Stored, store: Callable[[], object]) -> None:
    """Store, and write down where, and what was stored."""
    ready: list[Any] = []

    def before(of: Part) -> None:
        at = place()
        cells = of.cells(what.target) if what.target is not None else _chosen(of, what.whole, what.key)
        made = what.value if isinstance(what.value, _Made) else _value(what.value, at)
        of.look_for_unseen(of.log.moment())
        ready.extend((at, cells, made))

    def after(of: Part) -> None:
        at, cells, made = ready
        if cells is None:
            return
        if isinstance(cells, tuple):
            of.accessed(cells, _WRITE)
        origins = [o for o in made.origins if not _pointwise(o, of, cells)]
        from_memory = made.plain is not None
        fields = {"what": "store", "cells": cells, "computed": made.computed and not from_memory}
        shown = cells if isinstance(cells, tuple) else tuple(cells["places"])
        _told(of, ("store", at, shown, fields["computed"]), origins, at, fields)
        of.stored(cells if isinstance(cells, tuple) else None)

    _guarded(part, before)
    store()
    if ready:
        _guarded(part, after)


def _pointwise(origin: Origin, part: Part, cells: Any) -> bool:
    """Whether elements come from the same places that they are stored at."""
    other = origin.part
    same = other.shape == part.shape and other.strides == part.strides
    return same and isinstance(cells, tuple) and other.cells(origin.view) == cells


def _value(value: Any, at: Place) -> _Made:
    """What is known of a value that is stored."""
    if isinstance(value, Watched):
        origins = _read(value, at)
        return _Made(origins, bool(origins) or value._computed, None)
    if isinstance(value, np.ndarray):
        return _Made((), False, value)
    return _Made((), isinstance(value, (bool, int, float, complex, np.number, np.bool_)), None)


def _chosen(part: Part, view: Array, key: Any) -> dict[str, Any] | None:
    """The elements that lists of indices or truth values choose."""
    cells = part.cells(view)
    if cells is None:
        return None
    mask = np.zeros(view.shape, bool)
    mask[_plain(key)] = True
    return {"places": part.places(cells)[mask].tolist()}


def _unknown(array: Watched) -> None:
    """Something is stored somewhere in an array."""
    part = array._part
    if part is not None:
        _guarded(part, lambda of: setattr(of, "changes", of.changes + 1))


def declared(run: Path, values: Any, halo: Any, at: tuple[str, int, str], said: Mapping[str, Any]) -> Any:
    """What `weft.part(values, halo=...)` gives under `weft run`. ValueError where the widths cannot be right."""
    if not isinstance(values, np.ndarray) or isinstance(values, Watched):
        return values
    width = widths(halo, values.shape)
    if values.dtype.kind not in "iufcb" or any(step <= 0 for step in values.strides):
        return values
    comm = said["comm"]
    grid = {
        "dims": list(getattr(comm, "dims", None) or ([comm.size] if comm is not None else [])),
        "coordinates": list(getattr(comm, "coords", None) or ([comm.rank] if comm is not None else [])),
        "periods": [bool(one) for one in getattr(comm, "periods", None) or []],
    }
    listed = {name: _listed(said[name], values.ndim) for name in ("lower", "whole", "periodic")}
    facts = {"of": said["of"] or "", **listed, "lag": said["lag"], "grid": grid, "at": at}
    return watch(run, values, facts, width)


def _listed(given: Any, dimensions: int) -> list[int] | None:
    if given is None:
        return None
    return [int(given)] * dimensions if np.ndim(given) == 0 else [int(one) for one in given]


def widths(halo: Any, shape: Sequence[int]) -> list[tuple[int, int]]:
    """Ghost cells below and above, by dimension: a number for all, one for each, or pairs."""
    listed: Iterable[Any] = [halo] * len(shape) if np.ndim(halo) == 0 else halo
    found = [(int(one), int(one)) if np.ndim(one) == 0 else (int(one[0]), int(one[1])) for one in listed]
    if len(found) != len(shape):
        raise ValueError(f"halo has {len(found)} widths, and the array {len(shape)} dimensions")
    if any(low < 0 or high < 0 or low + high >= n for n, (low, high) in zip(shape, found, strict=True)):
        raise ValueError(f"halo {halo} leaves nothing of an array of shape {tuple(shape)}")
    return found
