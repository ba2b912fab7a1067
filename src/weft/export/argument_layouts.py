"""Describe how the arguments of each function are written: the parts that native/kernel/rows.c goes through."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np

from weft.base.words import escaped
from weft.match.functions import CODE_ARRAY, CODES, Code
from weft.native.bridge import as_c_array
from weft.native.headers import rows
from weft.native.headers.rows import MAX_STEPS, Names, PartPlace, Texts
from weft.native.headers.rows import Function as How
from weft.terms.call_text import has_named_values, object_text
from weft.trace import Function, FunctionTable, Parameter, Rank
from weft.trace.functions import MAX_ID
from weft.trace.layout import ObjectClass

_TEXT_SKIPS: Final = ("flag", "status", "buffer")
_RARE: Final = (Code.STRING, Code.DOUBLE)


class TextTable:
    """Texts in the form that C copies them from (`structure`)."""

    def __init__(self, texts: Sequence[str]) -> None:
        # A record may hold what UTF-8 cannot say.
        encoded = [text.encode("utf-8", "backslashreplace") for text in texts]
        ends = np.cumsum([len(text) for text in encoded], dtype=np.uint64)
        self.structure = Texts(
            bytes=np.frombuffer(b"".join(encoded) or b"\0", np.uint8),
            at=np.concatenate([np.zeros(1, np.uint64), ends]).astype(np.uint64),
        )


class TextNumbers:
    """Number texts; equal texts have the same number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text, which is added if it is new."""
        return self._numbers.setdefault(text, len(self._numbers))

    def table(self) -> TextTable:
        """Return all texts by their numbers."""
        return TextTable(list(self._numbers))


class ArgumentLayouts:
    """The parts of the arguments of all functions of a run, for text or for JSON."""

    def __init__(self, functions: FunctionTable, as_json: bool) -> None:
        self.words, self._json = TextNumbers(), as_json
        found = sorted(functions, key=lambda function: function.id)
        self.classes = sorted({p.handle for f in found for p in f.parameters if p.handle})
        self.function_of = np.full(MAX_ID + 1, -1, np.int32)
        self.function_of[[f.id for f in found]] = np.arange(len(found))
        self.functions = np.zeros(len(found) + 1, rows.ROW_FUNCTION)
        steps: list[int] = []
        parts: list[tuple[int, ...]] = []
        for row, function in zip(self.functions, found, strict=False):
            mine = [*function.tail_in, *function.tail_out]
            row["name"] = self.words.number(json.dumps(function.name) if as_json else escaped(function.name))
            row["first_step"], row["first_part"] = len(steps), len(parts)
            row["entry_steps"], row["steps"] = min(len(function.tail_in), 255), min(len(mine), 255)
            steps += [_type_code(p) for p in mine]
            made = [self._make_argument_layout(function, p) for p in function.parameters if self._is_shown(p)]
            parts += made
            row["parts"], row["bits"] = min(len(made), 255), _make_function_bits(function, len(mine), len(made))
        self.step_codes = np.array([*steps, 0], np.uint8)
        self.parts = np.array([*parts, (0,) * len(rows.PART.names or ())], rows.PART)

    def _is_shown(self, parameter: Parameter) -> bool:
        return parameter.place != "none" and (self._json or parameter.place not in _TEXT_SKIPS)

    def _make_argument_layout(self, function: Function, parameter: Parameter) -> tuple[int, ...]:
        """Return where the record stores an argument, and how it is written, as the row of numbers that the C kernel
        reads.
        """
        names = [q.name for q in function.tail_in], [q.name for q in function.tail_out]
        entry = names[0].index(parameter.name) if parameter.name in names[0] else -1
        leave = names[1].index(parameter.name) + len(names[0]) if parameter.name in names[1] else -1
        late = parameter.direction == "out" and parameter.place in ("object", "flag", "status")
        bits = rows.Part.SKIP_OPEN * late | rows.Part.WILD * has_named_values(parameter)
        handle = self.classes.index(parameter.handle) if parameter.handle else 0
        place, code = (
            PartPlace[parameter.place.upper()].value,
            _type_code(parameter) if parameter.place == "tail" else _type_code(parameter) & ~CODE_ARRAY,
        )
        return (
            place,
            code,
            handle,
            bits,
            entry,
            leave,
            self._label_number(parameter.name),
            self._label_number(f"{parameter.name}:out"),
        )

    def _label_number(self, name: str) -> int:
        return self.words.number(f"{json.dumps(name)}: " if self._json else f"{escaped(name)} ")

    def object_prefix(self, cls: str) -> int:
        """Return the number of the text that stands before an object's number if the object has no name. `cls`: its
        class.
        """
        return self.words.number(f'"{cls.lower()} ' if self._json else "#")


def _type_code(parameter: Parameter) -> int:
    return int(CODES.get(parameter.type, Code.HANDLE)) | (CODE_ARRAY if parameter.array else 0)


def _make_function_bits(function: Function, steps: int, parts: int) -> int:
    """Return facts about a function for the C kernel, as a mask of `How`. UNUSUAL means that Python writes its
    calls.
    """
    slots = [p for p in function.parameters if p.place not in ("none", "tail")]
    odd = any(p.place == "status" and p.type != "status" for p in slots)
    odd |= any(p.place not in ("status",) and p.type == "status" for p in slots)
    odd |= any(_type_code(p) & ~CODE_ARRAY in _RARE for p in function.parameters if p.place != "none")
    # Two parameters of one name, or of one place, are in no MPI: what a damaged table says, Python reads.
    odd |= len(function.parameters_by_name) < len(function.parameters) or len({p.place for p in slots}) < len(slots)
    odd |= steps > MAX_STEPS or parts > 255
    bits = (How.UNUSUAL * odd) | (How.POLL * function.is_poll) | (How.FLAG * ("flag" in function.slot))
    return (
        bits
        | (How.STATUS * ("status" in function.slot))
        | (How.PROBE * function.probes)
        | (How.FOLDED * function.is_folded)
    )


class RankNames:
    """The names of a rank's objects that are more than their class and number."""

    def __init__(self, rank: Rank, programs: ArgumentLayouts, as_json: bool) -> None:
        made = []
        for cls in programs.classes:
            ids = np.array(sorted(_find_named_objects(rank, cls)), np.int64)
            texts = TextTable([_object_name(rank, cls, int(id), as_json) for id in ids])
            made.append(Names(ids=ids, count=len(ids), own=texts.structure, prefix=programs.object_prefix(cls)))
        self.structures = as_c_array(made, Names)


def _object_name(rank: Rank, cls: str, id: int, as_json: bool) -> str:  # noqa: A002 - the domain's word
    return json.dumps(rank.object_name(cls, id)) if as_json else escaped(object_text(rank, cls, id))


def _find_named_objects(rank: Rank, object_class: str) -> set[int]:
    """Return the ids of a rank's objects of one class (such as `COMM`) that have a name of their own. Other objects are
    shown by class and number.
    """
    ids = {0, *rank.trace.functions.objects.get(object_class, {})}
    if object_class == "COMM":
        ids |= rank.comm_ids()
    if object_class in ObjectClass.__members__:
        number = int(ObjectClass[object_class])
        ids |= {id for of, id in rank.definitions.names if of == number}
    return ids
