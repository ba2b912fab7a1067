"""What the names of a Fortran-DVM(H) unit are: their ids, symbols, mappings, and the marks put in for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from weft.dataparallel.source_map import SourceMap
from weft.dvm import syntax
from weft.dvm.fortran_lines import Sentinel
from weft.dvm.fortran_model import FortranSymbol, ProgramUnit
from weft.dvm.fortran_units import FortranProgram
from weft.dvm.syntax import Position


@dataclass(frozen=True, slots=True)
class InsertedText:
    """One statement to be put in, and the place that it belongs to."""

    text: str
    place: Position


@dataclass(slots=True)
class Insertions:
    """What stands before and after the lines of a source (by index), and the lines whose labels move to a CONTINUE."""

    before: dict[int, list[InsertedText]] = field(default_factory=dict)
    after: dict[int, list[InsertedText]] = field(default_factory=dict)
    relabelled: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class ArrayMapping:
    """What the directives of a unit declare of a name."""

    name: str
    place: Position
    distribution: syntax.Distribution | None = None
    alignment: syntax.Alignment | None = None
    shadow: syntax.Shadow | None = None
    template: tuple[syntax.Section, ...] | None = None
    construct: int = 0


class VariableNumbers:
    """The numbers of variables, groups and task arrays in the source map; one for each declaration."""

    def __init__(self, texts: SourceMap) -> None:
        self.texts = texts
        self.held: dict[tuple[int, str], int] = {}
        self.edges: dict[str, int] = {}

    def find_or_add_id(self, unit: ProgramUnit, name: str, position: Position, kind: str = "variable") -> int:
        """Return the number by which the runtime knows a name that a unit declares. A name that is new is added to the
        source map, with its position.
        """
        key = (id(unit), name)
        if key not in self.held:
            self.held[key] = self.texts.add_variable(name, position.file, position.line, kind)  # type: ignore[arg-type]
        return self.held[key]

    def find_or_add_group_id(self, unit: ProgramUnit, name: str, position: Position) -> int:
        """Return the number by which the runtime knows a group. A group that is new is added to the source map; a
        variable with the same name has another number.
        """
        key = (id(unit), "group " + name)
        if key not in self.held:
            self.held[key] = self.texts.add_variable(name, position.file, position.line)
        return self.held[key]


class ArrayMappings:
    """What the directives declare of arrays, unit by unit."""

    def __init__(self, program: FortranProgram, texts: SourceMap) -> None:
        self.held: dict[int, dict[str, ArrayMapping]] = {}
        self.task_arrays: dict[int, dict[str, syntax.Entity]] = {}
        for unit in program.units:
            self.held[id(unit)] = {}
            self.task_arrays[id(unit)] = {}
            for item in unit.items:
                if isinstance(item, Sentinel) and isinstance(item.directive, syntax.Declare):
                    self._add_declaration(unit, item, item.directive, texts)
        for unit in program.units:
            for item in unit.items:
                if isinstance(item, Sentinel) and isinstance(item.directive, syntax.Redistribute | syntax.Realign):
                    for array in item.directive.arrays:
                        owner, symbol = program.owner(unit, array.name) or (
                            unit,
                            FortranSymbol(array.name, array.place),
                        )
                        self.held[id(owner)].setdefault(symbol.name, ArrayMapping(symbol.name, array.place))

    def of(self, unit: ProgramUnit) -> dict[str, ArrayMapping]:
        """Return how a unit's directives map its arrays (distribution, alignment, shadow edges), by name."""
        return self.held[id(unit)]

    def find_task_arrays(self, unit: ProgramUnit) -> dict[str, syntax.Entity]:
        """Return the task arrays that a unit declares."""
        return self.task_arrays[id(unit)]

    def _add_declaration(
        self, unit: ProgramUnit, sentinel: Sentinel, directive: syntax.Declare, texts: SourceMap
    ) -> None:
        """Add the templates, distributions, alignments, shadow edges and task arrays of a declaring directive to the
        mappings of its unit.
        """
        traits = {
            attribute.kind: attribute for attribute in directive.attributes if isinstance(attribute, syntax.Trait)
        }
        place = sentinel.place
        for entity in directive.entities:
            if "task" in traits:
                self.task_arrays[id(unit)][entity.name] = entity
                continue
            if traits.keys() & OTHER_TRAITS:
                continue
            mapping = self.held[id(unit)].setdefault(entity.name, ArrayMapping(entity.name, entity.place))
            if "template" in traits:
                dimension = traits.get("dimension")
                mapping.template = entity.sizes or (dimension.sizes if dimension else ())
                unit.symbols.setdefault(
                    entity.name, FortranSymbol(entity.name, entity.place, module=unit.kind == "module")
                )
            for attribute in directive.attributes:
                if isinstance(attribute, syntax.Distribution):
                    mapping.distribution = attribute
                elif isinstance(attribute, syntax.Alignment):
                    mapping.alignment = attribute
                elif isinstance(attribute, syntax.Shadow):
                    mapping.shadow = attribute
                if isinstance(attribute, syntax.Distribution | syntax.Alignment):
                    kind = "distribute" if isinstance(attribute, syntax.Distribution) else "align"
                    mapping.construct = texts.add_construct(kind, place.file, place.line, place.column, sentinel.said)


OTHER_TRAITS: Final = frozenset(
    (
        "processors",
        "heap",
        "pointer",
        "asyncid",
        "consistent",
        "shadow_group",
        "reduction_group",
        "remote_group",
        "indirect_group",
        "consistent_group",
    )
)


class UnitNames:
    """What the names of one unit stand for."""

    def __init__(
        self,
        program: FortranProgram,
        unit: ProgramUnit,
        numbers: VariableNumbers,
        marks: Insertions,
        mappings: ArrayMappings,
    ) -> None:
        self.program = program
        self.unit = unit
        self.numbers = numbers
        self.texts = numbers.texts
        self.marks = marks
        self.mappings = mappings
        self.used = False
        self.loose: list[FortranSymbol] = []
        """Scalars that may be read without a value."""
        self.aliases: dict[str, str] = {}
        """USE statements that bring in what a module's mappings are about."""
        self.loops = unit.find_loops()
        self.parallel: list[tuple[int, int]] = []
        """The items of parallel loops, first to last."""
        self.late: list[tuple[int, Position, str]] = []
        """Calls that come after all others of their line."""

    def before(self, line: int, place: Position, *texts: str) -> None:
        """Insert calls before a line of the source. `place`: the position to report for them."""
        self.used = True
        self.marks.before.setdefault(line, []).extend(InsertedText(text, place) for text in texts)

    def after(self, line: int, place: Position, *texts: str) -> None:
        """Insert calls after a line of the source. `place`: the position to report for them."""
        self.used = True
        self.marks.after.setdefault(line, []).extend(InsertedText(text, place) for text in texts)

    def resolve_symbol(self, name: str, position: Position) -> tuple[ProgramUnit, FortranSymbol]:
        """Return (the unit that declares a name, the name's symbol). If no unit declares it, it is added to this unit
        as a scalar.
        """
        found = self.program.owner(self.unit, name)
        if found:
            return found
        self.unit.symbols[name] = FortranSymbol(name, position)
        return self.unit, self.unit.symbols[name]

    def find_data_id(self, name: str, position: Position) -> int:
        """Return the id in the source map of a variable, array or template."""
        owner, symbol = self.resolve_symbol(name, position)
        mapping = self.mappings.of(owner).get(symbol.name)
        template = mapping is not None and mapping.template is not None
        what = "template" if template else "array" if symbol.array else "variable"
        return self.numbers.find_or_add_id(owner, symbol.name, symbol.place, what)

    def find_mapping(self, name: str) -> ArrayMapping | None:
        """Return how directives map an array visible in this unit to processors (distribution, alignment, shadow
        edges); None if no directive does.
        """
        own = self.mappings.of(self.unit).get(name)
        if own:
            return own
        found = self.program.owner(self.unit, name)
        return self.mappings.of(found[0]).get(found[1].name) if found else None

    def is_template(self, name: str) -> bool:
        """Return whether a name is a template, which has no memory."""
        mapping = self.find_mapping(name)
        return mapping is not None and mapping.template is not None

    def address_argument(self, name: str, word: str = "base") -> str:
        """Return Fortran text of the argument that passes a variable's address, such as `, base=a`; "" for a
        template.
        """
        return "" if self.is_template(name) else f", {word}={name}"

    def find_group_id(self, name: str, place: Position) -> int:
        """Return the id of a group."""
        return self.numbers.find_or_add_group_id(self.unit, name, place)

    def find_task_array_id(self, name: str, place: Position) -> int:
        """Return the id of a task array."""
        return self.numbers.find_or_add_id(self.unit, name, place, "tasks")

    def is_task_array(self, name: str) -> bool:
        """Return whether a name is a task array."""
        return name in self.mappings.find_task_arrays(self.unit)

    def find_or_add_construct_id(self, kind: str, sentinel: Sentinel, indices: Sequence[str] = ()) -> int:
        """Return the id of a directive in the source map, which is added if it is new. `kind`: such as "region"."""
        place = sentinel.place
        return self.texts.add_construct(kind, place.file, place.line, place.column, sentinel.said, indices)
