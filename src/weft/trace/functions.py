"""The functions of a run: names, parameters and where the record keeps each argument (RUN/functions.json)."""

# ruff: noqa: A002 - the domain's words id, type and open
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.mpi.meaning import Act, Trait, base_name, functions_with
from weft.systems import System, system
from weft.trace.layout import Flag

PLACES = frozenset(
    ["buffer", "count", "datatype", "peer", "tag", "comm", "object", "flag", "status", "tail", "none"]
)  # fmt: skip
CODES = frozenset(["int", "address", "string", "status", "double"])
MAX_ID = 65535
_PROBES: Final = functions_with(Act.PROBE, Act.MATCHED_PROBE)
_FOLDED: Final = functions_with(Act.LOCAL, where=lambda m: Trait.FOLDED in m.traits)
_POLLS: Final = functions_with(
    Act.PROBE, Act.MATCHED_PROBE, Act.COMPLETE, Act.ASK, Act.EPOCH, where=lambda m: m.polls
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: `type` is how a value is encoded, `place` a slot's field, "tail" or "none".

    `part` says when a tail gets the value: entry, exit, both, or None where the place is not the tail.
    """

    name: str
    kind: str
    direction: str
    array: bool
    type: str
    place: str
    part: str | None = None

    @property
    def handle(self) -> str | None:
        """Return the class of object that the parameter names, or None."""
        return self.type.removeprefix("handle:") if self.type.startswith("handle:") else None


@dataclass(frozen=True)
class Function:
    """One MPI procedure as the run knows it."""

    id: int
    name: str
    parameters: tuple[Parameter, ...] = ()
    known: bool = field(default=True, compare=False)

    @cached_property
    def base(self) -> str:
        """Return the name without the large-count ending `_c`."""
        return self.name.removesuffix("_c")

    @property
    def called(self) -> str:
        """Return the function's name as the program calls it. A record may split one function of PVM into several."""
        return self.name.partition(".")[0]

    @property
    def within(self) -> bool:
        """Return whether the library makes this call to do its own work, such as a message of a barrier."""
        return self.called != self.name and self.name.rpartition(".")[2] in ("send", "recv")

    @cached_property
    def slot(self) -> dict[str, Parameter]:
        """Return the parameters that the fixed part of a call's record holds, by their field in it."""
        return {p.place: p for p in self.parameters if p.place not in ("tail", "none")}

    @cached_property
    def tail_in(self) -> tuple[Parameter, ...]:
        """Return the parameters that are stored after the fixed part of a call's record when the call begins."""
        return tuple(p for p in self.parameters if p.part in ("entry", "both"))

    @cached_property
    def tail_out(self) -> tuple[Parameter, ...]:
        """Return the parameters that are stored after the fixed part of a call's record when the call returns."""
        return tuple(p for p in self.parameters if p.part in ("exit", "both"))

    @cached_property
    def is_poll(self) -> bool:
        """Return whether programs poll with this function. Its failed calls in a row are one event, counted in
        `count`.
        """
        return base_name(self.name) in _POLLS

    @cached_property
    def is_folded(self) -> bool:
        """Return whether equal calls of this function in a row, from one place, are one event. Their number is in
        `count`.
        """
        return base_name(self.name) in _FOLDED

    @cached_property
    def probes(self) -> bool:
        """Return whether the function looks for a message without receiving it."""
        return base_name(self.name) in _PROBES

    @cached_property
    def parameters_by_name(self) -> dict[str, Parameter]:
        """Return the parameters by name."""
        return {p.name: p for p in self.parameters}


class FunctionTable:
    """Functions by id and by name, predefined objects, and sizes of basic types."""

    def __init__(self, data: Any = None) -> None:
        self.problems: list[str] = []
        data = data if isinstance(data, dict) else {}
        self._by_id: dict[int, Function] = {}
        self._by_name: dict[str, Function] = {}
        for entry in _as_list(data.get("functions")):
            function = self._read_function(entry)
            if function is not None:
                self._by_id[function.id] = function
                self._by_name[function.name] = function
        self.objects = {
            str(cls): {int(i): str(n) for i, n in names.items() if str(i).isdecimal() and len(str(i)) < 10}
            for cls, names in _as_dict(data.get("objects")).items()
            if isinstance(names, dict)
        }
        self.datatype_sizes = {
            int(i): size
            for i, size in _as_dict(data.get("datatype_sizes")).items()
            if str(i).isdecimal() and len(str(i)) < 10 and isinstance(size, int)
        }
        self.combiners = [str(c) for c in _as_list(data.get("combiners"))]
        self.mpi: dict[str, Any] = _as_dict(data.get("mpi"))
        self.system: System = system(data.get("system"))
        self._ids: dict[str, dict[str, int]] = {}
        self._masks: dict[frozenset[str], NDArray[np.bool_]] = {}

    def _read_function(self, entry: Any) -> Function | None:
        """Return the function that an entry of functions.json describes. If the entry is damaged, a problem is noted
        and the result is None.
        """
        try:
            parameters = tuple(_read_parameter(p) for p in _as_list(entry["parameters"]))
            function = Function(int(entry["id"]), str(entry["name"]), parameters)
            if not 0 <= function.id <= MAX_ID:
                raise ValueError(f"id {function.id}")
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            if len(self.problems) < 5:
                name = entry.get("name") if isinstance(entry, dict) else entry
                self.problems.append(f"functions.json: the entry {str(name)[:60]!r} is damaged ({error}); left out")
            return None
        return function

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Function]:
        return iter(self._by_id.values())

    def __getitem__(self, key: int | str) -> Function:
        """The function of an id or name. KeyError for an unknown name, a nameless Function for an unknown id."""
        if isinstance(key, str):
            return self._by_name[key]
        known = self._by_id.get(key)
        return known or Function(key, f"function {key}", known=False)

    def __contains__(self, key: object) -> bool:
        return key in self._by_id or key in self._by_name

    def ids(self, *names: str) -> list[int]:
        """Return the ids of functions by name, with the forms for large counts. Names that the run's MPI lacks are left
        out.
        """
        wanted = set(names)
        return [f.id for f in self if f.name in wanted or f.base in wanted]

    def failed_polls(self, events: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the events that record failed polls in a row, such as MPI_Test without success."""
        polls: NDArray[np.bool_] = self.mask(f.name for f in self if f.is_poll)[events["function"]]
        polls &= events["flags"] & (Flag.TRUE | Flag.CLOSED) == Flag.CLOSED
        polls &= events["count"] > 0
        return polls

    def mask(self, names: Iterable[str]) -> NDArray[np.bool_]:
        """Return a table to look functions up by id: `mask[events["function"]]` is true for the named functions and
        their `_c` forms.
        """
        wanted = frozenset(names)
        if wanted not in self._masks:
            table = np.zeros(MAX_ID + 1, np.bool_)
            table[self.ids(*wanted)] = True
            table.flags.writeable = False
            self._masks[wanted] = table
        return self._masks[wanted]

    def object_name(self, cls: str, id: int) -> str | None:
        """Return the name of a predefined object."""
        return self.objects.get(cls, {}).get(id)

    def object_id(self, object_class: str, name: str) -> int:
        """Return the id of a predefined object. KeyError if none has this name."""
        if object_class not in self._ids:
            self._ids[object_class] = {n: i for i, n in self.objects.get(object_class, {}).items()}
        return self._ids[object_class][name]


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _as_dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _read_parameter(entry: Any) -> Parameter:
    return _make_parameter(tuple(entry.items()))


@lru_cache(maxsize=20_000)
def _make_parameter(items: tuple[tuple[str, Any], ...]) -> Parameter:
    """Return the parameter that an entry of functions.json describes. Functions with an equal parameter share the
    object.
    """
    entry = dict(items)
    names = entry["name"], entry.get("kind", ""), entry.get("direction", "in"), entry["type"], entry["place"]
    name, kind, direction, type, place = map(str, names)
    parameter = Parameter(name, kind, direction, bool(entry.get("array")), type, place, entry.get("part"))
    if parameter.place not in PLACES:
        raise ValueError(f"unknown place {parameter.place!r}")
    if parameter.type not in CODES and not parameter.type.startswith("handle:"):
        raise ValueError(f"unknown type {parameter.type!r}")
    if (parameter.part not in ("entry", "exit", "both")) == (parameter.place == "tail"):
        raise ValueError(f"part {parameter.part!r} with place {parameter.place!r}")
    return parameter
