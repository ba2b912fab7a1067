"""The marks of a Fortran-DVM(H) program: calls of the runtime for its directives, declarations and statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Final

from weft.dvm import fortran_values, syntax
from weft.dvm.fortran_calls import (
    ARGUMENT,
    LOCAL,
    STATIC,
    collect_namelist_groups,
    find_clause_references,
    find_mentioned_names,
    find_output_items,
    find_possibly_assigned_names,
    guard_by_presence,
    long_array,
    named_group,
)
from weft.dvm.fortran_lines import FortranStatement, Sentinel
from weft.dvm.fortran_mappings import UnitMappings
from weft.dvm.fortran_model import DoLoop, FortranSymbol, ProgramUnit
from weft.dvm.fortran_names import ArrayMapping, InsertedText
from weft.dvm.fortran_text import NAME, split_assignment, split_condition, split_top, top_level_indices
from weft.dvm.syntax import Position

ITEM: Final = re.compile(r"([a-z]\w*)(\([^()]*\))?((?:%[a-z]\w*(?:\([^()]*\))?)*)")
"""A variable, an element or part of an array, a component of either."""
IMPLIED: Final = re.compile(r"\((.+),([a-z]\w*=[^=]+)\)")
"""An item of an output list that is a loop: what it repeats, and its index with the bounds."""


class UnitMarks(UnitMappings):
    """The marks of one unit that are not of its directives."""

    # --- the whole unit ---------------------------------------------------------------------------------------------

    def instrument_entry(self) -> None:
        """Insert calls before a unit's first executable statement. They register the unit's data with the runtime, and
        map its arrays to processors as the directives say.
        """
        unit = self.unit
        if unit.executable is None:
            return
        self.loose = [
            symbol
            for symbol in fortran_values.find_possibly_unset_variables(unit)
            if symbol.name not in self.named and not (symbol.array and self.needs_directive_calls)
        ]
        # Else the compiler may read them ahead of the branch that would, and that would be reported.
        attributes = [f"volatile :: {symbol.name}" for symbol in self.loose if not symbol.array]
        calls = [f"call weft_check_scalar({self.find_data_id(one.name, one.place)}, {one.name})" for one in self.loose]
        if self.needs_directive_calls:
            begin = ["call weft_check_program()"] if unit.kind == "program" else []
            calls[:0] = [*begin, *self.render_module_calls(), *self.render_entry_calls()]
        elif fortran_values.is_watchable(unit) and (known := list(self.render_module_calls())):
            attributes.append("logical, save :: weft_known = .false.")
            calls[:0] = ["if (.not. weft_known) then", *known, "weft_known = .true.", "end if"]
        if attributes or calls:
            first = unit.items[unit.executable]
            self.before(first.first, first.place, *attributes, *calls)

    @cached_property
    def needs_directive_calls(self) -> bool:
        """Return whether a unit needs the calls for directives. It does if it is a main program, has directives, or
        contains a procedure that has some.
        """
        if self.unit.kind == "program" or self.unit.directed:
            return True
        return any(one.directed and one.within(self.unit) for one in self.program.units)

    def instrument_statements(self) -> None:
        """Insert the calls for statements that need them without a directive: allocations, output, and assignments to
        distributed data outside parallel loops.
        """
        unit = self.unit
        for at, item in enumerate(unit.items):
            if isinstance(item, FortranStatement) and unit.executable is not None and at >= unit.executable:
                self.instrument_allocation(item)
                self.instrument_output(item, at)
                if not self.is_in_parallel_loop(at):
                    self.instrument_statement(item)
        for line, place, text in self.late:
            self.after(line, place, text)
        if self.used:
            self.insert_use_statements()

    def is_in_parallel_loop(self, at: int) -> bool:
        """Return whether an item of the unit lies in a parallel loop."""
        return any(first <= at <= last for first, last in self.parallel)

    def insert_use_statements(self) -> None:
        """Insert `use weft_check`, and USE statements for names of modules that the unit does not import itself."""
        unit = self.unit
        if unit.header is not None:
            held = self.marks.after.setdefault(unit.header.last, [])
            held[:0] = [InsertedText(text, unit.header.place) for text in ("use weft_check", *self.aliases.values())]
        else:
            first = next(item for item in unit.items if isinstance(item, FortranStatement))
            held = self.marks.before.setdefault(first.first, [])
            held[:0] = [InsertedText(text, first.place) for text in ("use weft_check", *self.aliases.values())]

    # --- at the entry -----------------------------------------------------------------------------------------------

    def render_entry_calls(self) -> Iterator[str]:
        """Yield the Fortran calls to make when the unit is entered: they register its arrays, scalars, task arrays and
        mappings.
        """
        unit = self.unit
        yield from self.render_array_calls()
        yield from self.render_scalar_calls()
        for name in self.mappings.find_task_arrays(unit):
            yield from self.render_task_array(name)
        yield from self.render_mappings(self.mappings.of(unit))

    def render_module_calls(self) -> Iterator[str]:
        """Yield the Fortran calls that register the data of the modules that the unit mentions, and map their
        arrays.
        """
        for module in self.find_visible_modules(self.unit):
            yield from self.render_module_array_calls(module)
        for module in self.find_visible_modules(self.unit):
            yield from self.render_mappings(self.find_needed_mappings(module))

    def find_needed_mappings(self, module: ProgramUnit) -> dict[str, ArrayMapping]:
        """Return how a module distributes and aligns the arrays that this unit mentions, by their name in this unit.
        Arrays that the mentioned ones are aligned with are included.
        """
        held = self.mappings.of(module)
        names = find_mentioned_names(self.unit)
        wanted = [name for name in held if self.program.find_name_in_unit(self.unit, module, name) in names]
        for name in wanted:  # an array needs what it is aligned with
            alignment = held[name].alignment
            if alignment and alignment.target and alignment.target.name in held and alignment.target.name not in wanted:
                wanted.append(alignment.target.name)
        found = [self.rename_mapping(held[name], module) for name in held if name in wanted]
        return {one.name: one for one in found if one is not None}

    def rename_mapping(self, mapping: ArrayMapping, module: ProgramUnit) -> ArrayMapping | None:
        """Return a copy of a module's mapping of an array, with this unit's names for the array and its align target.
        None if one of the two is not visible here.
        """
        name = self.find_local_name(module, mapping.name)
        alignment = mapping.alignment
        if name is None:
            return None
        if alignment is not None and alignment.target is not None:
            found = self.program.owner(module, alignment.target.name)
            target = self.find_local_name(*((found[0], found[1].name) if found else (module, alignment.target.name)))
            if target is None:
                return None
            alignment = replace(alignment, target=replace(alignment.target, name=target))
        return replace(mapping, name=name, alignment=alignment)

    def find_local_name(self, module: ProgramUnit, name: str) -> str | None:
        """Return the name that this unit can use for a module's name; None if there is no way. If USE statements leave
        the name out, an alias and a USE statement for it are added.
        """
        called = self.program.find_name_in_unit(self.unit, module, name)
        if called is not None or name not in module.symbols:
            return called or name
        if module.kind != "module" or module.is_private(name) or self.unit.within(module):
            return None
        alias = f"weft_{name}_{module.name}"[:63]
        self.unit.renamed[alias] = (module.name, name)
        if module.name not in self.unit.uses:
            self.unit.uses.append(module.name)
            self.unit.only[module.name] = set()
        self.aliases[alias] = f"use {module.name}, only: {alias} => {name}"
        return alias

    def find_visible_modules(self, unit: ProgramUnit) -> list[ProgramUnit]:
        """Return the modules whose names are visible in a unit: its hosts, and the modules that it or its hosts use,
        directly or through other modules.
        """
        found = [host for host in unit.hosts if host.kind == "module"]
        waiting = [name for one in (unit, *unit.hosts) for name in one.uses]
        while waiting:
            module = self.program.modules.get(waiting.pop())
            if module and module not in found:
                found.append(module)
                waiting.extend(module.uses)
        return found

    def render_array_calls(self) -> Iterator[str]:
        """Yield the Fortran calls that register the arrays which exist from the unit's entry on. New arrays are also
        marked as not yet assigned. Allocatable arrays, pointers and templates are left out.
        """
        unit = self.unit
        saved_all = "*save" in unit.symbols
        for symbol in list(unit.symbols.values()):
            if not symbol.array or symbol.constant or symbol.procedure or symbol.allocatable or symbol.pointer:
                continue
            if self.is_template(symbol.name):
                continue
            static = symbol.static or saved_all
            role = ARGUMENT if symbol.dummy else STATIC if static and unit.kind != "program" else LOCAL
            if symbol.common:
                role = STATIC
            yield self.render_array_declaration(symbol.name, role)
            if self.has_no_value_at_entry(symbol):
                yield f"call weft_check_clear({symbol.name})"

    def render_module_array_calls(self, module: ProgramUnit) -> Iterator[str]:
        """Yield the Fortran calls that register static arrays of a module: arrays that the unit mentions, and arrays
        with which these are aligned.
        """
        needed = {mapping.name for mapping in self.find_needed_mappings(module).values()}
        wanted = needed | find_mentioned_names(self.unit) if self.needs_directive_calls else needed
        for symbol in list(module.symbols.values()):
            name = self.program.find_name_in_unit(self.unit, module, symbol.name)
            given = symbol.constant or symbol.allocatable or symbol.pointer
            if symbol.array and name in wanted and name and not (given or self.is_template(name)):
                yield self.render_array_declaration(name, STATIC)

    def render_array_declaration(self, name: str, role: int) -> str:
        """Return the Fortran call that registers an array with its name and lower bounds. `role`: whether it is an
        argument, static or local, a number of the runtime.
        """
        _, symbol = self.resolve_symbol(name, self.unit.items[0].place)
        number = self.find_data_id(name, symbol.place)
        return f"call weft_check_array({number}, {role}, '{name}'//achar(0), int(lbound({name}), 8), {name})"

    def has_no_value_at_entry(self, symbol: FortranSymbol) -> bool:
        """Return whether a variable has no value when the unit is entered."""
        if symbol.dummy or symbol.initialised or symbol.shared or symbol.derived or symbol.procedure or symbol.module:
            return False
        if symbol.common:
            return self.unit.kind == "program" and not any(unit.kind == "block data" for unit in self.program.units)
        saved = symbol.saved or "*save" in self.unit.symbols
        return self.unit.kind == "program" or not saved

    def render_scalar_calls(self) -> Iterator[str]:
        """Yield the Fortran calls that register the scalars which a parallel construct writes or names. New scalars are
        also marked as not yet assigned.
        """
        for name, place in self.find_names_in_constructs().items():
            owner, symbol = self.resolve_symbol(name, place)
            if symbol.array or symbol.constant or symbol.procedure or symbol.allocatable or symbol.pointer:
                continue
            if self.is_template(name) or self.is_task_array(name):
                continue
            yield f"call weft_check_data({self.find_data_id(name, place)}, {name})"
            if owner is self.unit and self.has_no_value_at_entry(symbol):
                yield f"call weft_check_clear({name})"

    def find_names_in_constructs(self) -> dict[str, Position]:
        """Return the names that parallel constructs write or that their clauses name, each with the position of its
        first mention.
        """
        found: dict[str, Position] = {}
        for at, item in enumerate(self.unit.items):
            if not isinstance(item, Sentinel):
                continue
            directive = item.directive
            if isinstance(directive, syntax.Parallel | syntax.TaskRegion):
                for reference in find_clause_references(directive.clauses):
                    found.setdefault(reference.name, reference.place)
            if isinstance(directive, syntax.Region):
                for data in directive.data:
                    for reference in data.items:
                        found.setdefault(reference.name, reference.place)
            if isinstance(directive, syntax.Actual):
                for reference in directive.items or ():
                    found.setdefault(reference.name, reference.place)
            for first, last in self.find_covered_ranges(at, item):
                for statement in self.unit.statements(first, last):
                    for name in find_possibly_assigned_names(statement):
                        if not self.is_loop_variable(name, first, last):
                            found.setdefault(name, statement.place)
        return found

    def find_covered_ranges(self, item_index: int, sentinel: Sentinel) -> Iterator[tuple[int, int]]:
        """Yield (first item index, last item index) of the code that a directive covers: the loop after PARALLEL, or
        all from ON to its end. Nothing for other directives.
        """
        if isinstance(sentinel.directive, syntax.Parallel):
            loop = self.find_loop_after(item_index)
            if loop:
                yield loop.first, loop.last
        elif isinstance(sentinel.directive, syntax.On):
            end = self.find_end_directive(item_index, "on")
            yield item_index, end if end is not None else item_index

    def is_loop_variable(self, name: str, first: int, last: int) -> bool:
        """Return whether a name is the variable of a loop among the items `first` to `last`."""
        return any(loop.variable == name for loop in self.loops.values() if first <= loop.first and loop.last <= last)

    def find_loop_after(self, at: int) -> DoLoop | None:
        """Return the loop that follows an item, if no directive that matters comes first; else None."""
        following = self.find_next_statement(at)
        return self.loops.get(following) if following is not None else None

    def find_next_statement(self, item_index: int) -> int | None:
        """Return the item index of the next statement after an item. None if a directive that matters for the data
        comes first.
        """
        for later in range(item_index + 1, len(self.unit.items)):
            item = self.unit.items[later]
            if isinstance(item, FortranStatement):
                return later
            if not isinstance(item.directive, syntax.Note):
                return None
        return None

    def find_end_directive(self, item_index: int, construct_kind: str) -> int | None:
        """Return the item index of the END directive for a construct that begins at an item; None if there is none."""
        for later in range(item_index + 1, len(self.unit.items)):
            item = self.unit.items[later]
            if (
                isinstance(item, Sentinel)
                and isinstance(item.directive, syntax.End)
                and item.directive.kind == construct_kind
            ):
                return later
        return None

    # --- statements -------------------------------------------------------------------------------------------------

    def instrument_allocation(self, statement: FortranStatement) -> None:
        """Insert calls after an ALLOCATE that register and map the new arrays."""
        _, action = split_condition(statement.code)
        if not action.startswith("allocate("):
            return
        names = [found[0] for part in split_top(action[9:-1]) if (found := re.match(r"[a-z]\w*(?=\()", part))]
        calls: list[str] = []
        for name in names:
            owner, symbol = self.resolve_symbol(name, statement.place)
            mapping = self.mappings.of(owner).get(symbol.name)
            if not (symbol.allocatable or symbol.pointer) or not (mapping or self.needs_directive_calls):
                continue
            test = "associated" if symbol.pointer else "allocated"
            calls.append(f"if ({test}({name})) {self.render_array_declaration(name, LOCAL)}")
        for name in names:
            owner, symbol = self.resolve_symbol(name, statement.place)
            mapping = self.mappings.of(owner).get(symbol.name)
            if mapping and owner is not self.unit:
                mapping = self.rename_mapping(mapping, owner)
            if mapping:
                calls.extend(guard_by_presence(name, self.render_mapping(mapping, allocated=True), symbol.pointer))
        if calls:
            self.after(statement.last, statement.place, *calls)

    def instrument_statement(self, statement: FortranStatement) -> None:
        """Insert the calls around a statement outside parallel loops that assigns, reads or prints distributed data."""
        _, action = split_condition(statement.code)
        found = split_assignment(action)
        if found and self.is_distributed(found[0]):
            self.instrument_own_assignment(statement, found[0], found[1])
        elif (
            re.match(r"(print|read|write)[(*\d'\"]", action)
            and not re.search(r"\b(end|err|eor)=\d", action)  # the statement may be left by a jump
            and any(self.is_distributed(name) for name in set(NAME.findall(action)))
        ):
            self.before(statement.first, statement.place, "call weft_check_io_begin()")
            self.after(statement.last, statement.place, "call weft_check_io_end()")

    def instrument_output(self, statement: FortranStatement, item_index: int) -> None:
        """Insert calls before a PRINT or WRITE that check whether its items have values. The Fortran library reads the
        items, and its accesses are not checked.
        """
        condition, action = split_condition(statement.code)
        if re.search(r"['\"]|[a-z]\w*\(", condition):  # it would be evaluated twice
            return
        if statement.label and any(
            loop.last == item_index for loop in self.unit.find_loops().values()
        ):  # the label ends a loop
            return
        for part in (*find_output_items(action), *self.groups.get(named_group(action), ())):
            repeated = IMPLIED.fullmatch(part)
            items = split_top(repeated[1]) if repeated else [part]
            calls = [call for item in items for call in self.render_output_checks(statement, item)]
            if repeated and calls:  # the statement itself leaves its index as this loop does
                calls = [f"do {repeated[2]}", *calls, "end do"]
            if condition and calls:
                calls = (
                    [f"if {condition} {calls[0]}"] if len(calls) == 1 else [f"if {condition} then", *calls, "end if"]
                )
            if statement.label and calls:
                self.marks.relabelled[statement.first] = statement.label
            for one in calls:
                self.before(statement.first, statement.place, one)

    def render_output_checks(self, statement: FortranStatement, item: str) -> list[str]:
        """Return the Fortran calls that check whether one item of an output list has a value. Empty unless the item is
        a variable or a part of one.
        """
        found = ITEM.fullmatch(item)
        known = self.program.owner(self.unit, found[1]) if found else None
        if found is None or known is None:
            return []
        symbol = known[1]
        if symbol.procedure or symbol.constant or symbol.allocatable or symbol.pointer or symbol.optional:
            return []
        whole = symbol.derived and not found[3]
        if (whole and not self.program.is_printable_type(symbol.type)) or (found[2] and not symbol.array):
            return []
        place = statement.place
        number = self.texts.add_place(place.file, place.line, place.column, self.unit.name)
        call = f"call weft_check_printed({number}, {item})"
        if self.is_distributed(found[1]):  # the system brings its elements from everywhere
            return ["call weft_check_io_begin()", call, "call weft_check_io_end()"]
        return [call]

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """Return the NAMELIST groups that are known in this unit, with the names of their variables."""
        return collect_namelist_groups(self.unit)

    @cached_property
    def named(self) -> frozenset[str]:
        """Return the names that parallel constructs write or name. They live in memory, as the runtime gets their
        addresses.
        """
        return frozenset(self.find_names_in_constructs())

    def is_distributed(self, name: str) -> bool:
        """Return whether a name is an array that directives distribute or align."""
        mapping = self.find_mapping(name)
        return mapping is not None and mapping.template is None and not self.is_task_array(name)

    def instrument_own_assignment(self, statement: FortranStatement, name: str, subscripts: str) -> None:
        """Insert the calls around an assignment to distributed data outside parallel loops. An element is assigned by
        the processor that owns it; of an array or a section, each processor assigns its own part.
        """
        parts = split_top(subscripts[1:-1]) if subscripts.startswith("(") and subscripts.endswith(")") else []
        if not parts or any(True for part in parts for _ in top_level_indices(part, ":")):
            self.before(statement.first, statement.place, "call weft_check_io_begin()")
            self.after(statement.last, statement.place, "call weft_check_io_end()")
            return
        place = statement.place
        construct = self.texts.add_construct("own", place.file, place.line, place.column, statement.text)
        self.before(
            statement.first,
            place,
            f"call weft_check_own_begin({construct}, {self.find_data_id(name, place)}, {len(parts)}, "
            f"{long_array(parts)}, {name})",
        )
        self.after(statement.last, place, f"call weft_check_own_end({construct})")
