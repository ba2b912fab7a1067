"""The front end for C-DVMH: insert the runtime's calls into a copy of a program, line for line.

What a directive says becomes calls beside its statement. Sizes and types are left to the compiler (`sizeof`,
`_Generic`), so that no header of the system has to be understood.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tree_sitter import Node

from weft.dataparallel.program import PLAIN, CompileOptions
from weft.dataparallel.source_map import MarkedSource, SourceMap
from weft.dvm import c_calls, c_groups, c_scattered, c_source, c_uses, syntax
from weft.dvm.c_arrays import ArrayMarker
from weft.dvm.c_calls import data_address, data_bytes, render_call
from weft.dvm.c_hooks import HookedVariables
from weft.dvm.c_loops import LoopConstructs
from weft.dvm.c_own import OwnComputations
from weft.dvm.c_tree import Variable
from weft.dvm.c_unit import ProgramNames, SourceUnit
from weft.dvm.c_unroll import LoopUnroller
from weft.dvm.syntax import Directive, Reference

INTENTS: Final = {name: f"WEFT_{name.upper()}" for name in ("in", "out", "inout", "local", "inlocal")}


def instrument_c_sources(
    paths: Sequence[Path], texts: SourceMap, options: CompileOptions = PLAIN
) -> list[MarkedSource]:
    """Return marked copies of the C sources of one program, with the calls of the runtime inserted.

    The program's own headers lie in folders that `options` name. Raises UsageError, with file:line:column, for a source
    that cannot be read or a directive in the wrong place.
    """
    shared = ProgramNames(texts)
    units = [SourceUnit(c_source.read_c_source(path, options.for_source(path).include), shared) for path in paths]
    arrays = [ArrayMarker(unit) for unit in units]
    for one in arrays:
        one.read_declarations()
    for one in arrays:
        one.apply_external_declarations()
    for one in arrays:
        one.instrument_declarations()
    groups = c_groups.DirectiveGroups(units)
    return [insert_runtime_calls(unit, groups) for unit in units]


def insert_runtime_calls(unit: SourceUnit, directive_groups: c_groups.DirectiveGroups) -> MarkedSource:
    """Return a copy of one C source with the calls of Weft's runtime inserted. The directives that declare the source's
    arrays must have been applied before.
    """
    hooks = HookedVariables(unit)
    DirectiveMarker(unit, hooks, directive_groups).instrument_directives()
    hooks.instrument_variables()
    OwnComputations(unit).guard_sequential_assignments()
    LoopUnroller(unit).insert_unroll_pragmas()
    prologue = c_calls.source_prologue(unit.source.text, unit.tree.cplusplus)
    return MarkedSource(unit.source.path, unit.marks.marked_text(prologue), ".cpp" if unit.tree.cplusplus else ".c")


class DirectiveMarker(LoopConstructs):
    """Inserts the runtime's calls for the directives of one source."""

    def instrument_directives(self) -> None:
        """Insert the runtime's calls for all directives of the source, except those that only declare arrays.

        In the old form of C-DVM, directives about arrays behind plain pointers get no calls; a parallel loop of this
        kind is listed as unchecked.
        """
        for begin, _, directive, text in self.source.directives:
            statement = self.unit.attached[begin]
            if isinstance(directive, syntax.Parallel):
                self.instrument_edge_group_use(directive, statement, begin, text)
            if not self.source.old or c_groups.are_arrays_followed(self.unit, directive, begin):
                self.instrument_directive(begin, directive, statement, text)
            elif isinstance(directive, syntax.Parallel):
                place = directive.place
                self.unit.shared.texts.unchecked.append(
                    f"the parallel loop at {place.file}:{place.line}, whose arrays lie behind plain pointers"
                )

    # --- constructs -----------------------------------------------------------------------------------------------

    def instrument_directive(
        self, offset: int, directive: Directive, statement: Node | None, directive_text: str
    ) -> None:
        """Insert the runtime's calls for one directive: before it, or around the statement that follows it. `offset`:
        where the directive begins in the source.
        """
        if isinstance(directive, syntax.Parallel):
            self.instrument_parallel_loop(directive, statement, directive_text)
        elif isinstance(directive, syntax.Region):
            self.instrument_region(directive, statement, directive_text)
        elif isinstance(directive, syntax.RemoteAccess):
            node = self.require_statement(directive, statement, "remote_access")
            number = self.unit.find_or_add_construct_id("remote_access", directive, directive_text)
            opening = self.render_host_fetches(directive.remote, offset, number)
            opening += render_call("remote_begin", number) + self.render_remote_accesses(
                directive.remote, offset, "remote"
            )
            self.marks.around(self.tree.begin(node), self.tree.end(node), opening, render_call("remote_end", number))
        elif isinstance(directive, syntax.Note) and directive.keyword == "host_section":
            node = self.require_statement(directive, statement, "host_section")
            number = self.unit.find_or_add_construct_id("host_section", directive, directive_text)
            opening, closing = render_call("host_section_begin", number), render_call("host_section_end", number)
            self.marks.around(self.tree.begin(node), self.tree.end(node), opening, closing)
        elif isinstance(directive, syntax.Note) and directive.keyword == "copy":
            node = self.require_statement(directive, statement, "COPY")
            self.marks.around(
                self.tree.begin(node), self.tree.end(node), render_call("io_begin"), render_call("io_end")
            )
        elif isinstance(directive, syntax.NewArray):
            number = self.unit.find_or_add_construct_id("create_template", directive, directive_text)
            self.marks.before(offset, self.arrays.render_template_creation(directive.items[0], offset, number))
        elif isinstance(directive, syntax.ShadowAdd):
            self.marks.before(offset, c_scattered.render_shadow_add(self.unit, directive, offset, directive_text))
        elif isinstance(directive, syntax.Localize):
            self.marks.before(offset, c_scattered.render_localize(self.unit, directive, offset, directive_text))
        elif isinstance(directive, syntax.UseGroup):
            name = f"{directive.kind}_{directive.step}"
            self.marks.before(offset, self.render_group_call(name, directive, directive.group, offset, directive_text))
        elif isinstance(directive, syntax.DefineGroup):
            self.marks.before(offset, self.render_shadow_group(directive, offset, directive_text))
        elif isinstance(directive, syntax.TaskRegion | syntax.On | syntax.Map):
            self.instrument_tasks(offset, directive, statement, directive_text)
        elif isinstance(directive, syntax.Redistribute | syntax.Realign):
            self.marks.before(offset, self.render_remapping(directive, offset, directive_text))
        elif isinstance(directive, syntax.Actual):
            number = self.unit.find_or_add_construct_id(
                "get_actual" if directive.get else "actual", directive, directive_text
            )
            name = "get_actual" if directive.get else "actual"
            items = [item for item in directive.items or () if not self.is_unseen_by_hooks(item, offset)]
            calls = [self.render_part_call(name, number, item, offset) for item in items]
            self.marks.before(offset, " ".join(calls))

    def render_group_call(self, name: str, directive: Directive, group: str, at: int, text: str) -> str:
        """Return a C call of the runtime that starts a group of transfers or waits for it. "" if the runtime does not
        know all arrays of the group.
        """
        number = self.groups.find_followed_group_id(self.unit, Reference(group, None, directive.place), at)
        return render_call(name, self.unit.find_or_add_construct_id(name, directive, text), number) if number else ""

    def render_shadow_group(self, directive: syntax.DefineGroup, offset: int, directive_text: str) -> str:
        """Return C code that adds the arrays which `create_shadow_group` lists to its group of shadow edges."""
        group = self.groups.find_followed_group_id(self.unit, Reference(directive.group, None, directive.place), offset)
        construct = self.unit.find_or_add_construct_id("shadow_group", directive, directive_text)
        found: list[str] = []
        for item in directive.renewals:
            if group and c_groups.is_followed(self.unit, item.array, offset):
                variable = self.require_array_with_edges(item.array, item.widths, offset, "create_shadow_group")
                edges = c_calls.width_arguments(item.widths)
                number = self.unit.data_id(variable)
                found.append(
                    render_call(
                        "shadow_group", construct, group, number, data_address(variable), *edges, int(item.corner)
                    )
                )
        return " ".join(found)

    def instrument_edge_group_use(
        self, directive: syntax.Parallel, statement: Node | None, offset: int, directive_text: str
    ) -> None:
        """Insert calls for the clauses `shadow_wait(group)` and `shadow_start(group)` of a parallel loop. Before the
        loop the program waits for a group of shadow edges; after it, the exchange of a group starts. This is done even
        if the loop itself cannot be checked.
        """
        calls = {
            clause.kind: self.render_group_call(
                f"shadow_{clause.kind}", directive, clause.group, offset, directive_text
            )
            for clause in directive.clauses
            if isinstance(clause, syntax.ShadowUse) and clause.group
        }
        if calls and statement is not None:
            begin, end = self.tree.begin(statement), self.tree.end(statement)
            self.marks.around(begin, end, calls.get("wait", ""), calls.get("start", ""))

    def require_statement(self, directive: Directive, statement: Node | None, directive_name: str) -> Node:
        """Return the statement that a directive stands before. Raises DirectiveError if there is none, or a
        declaration.
        """
        if statement is None or statement.type in ("declaration", "function_definition"):
            self.unit.fail(
                directive.place,
                f"`{directive_name}` is not before a statement; put it before the statement that it belongs to",
            )
        return statement

    def is_unseen_by_hooks(self, item: Reference, at: int) -> bool:
        """Return whether a variable needs no report to the runtime. Its accesses are not checked, and a report would
        take its address.
        """
        variable = self.unit.resolve_variable(item, at)
        return variable in self.hooks.harmless_scalars or variable.is_pointer_like

    def render_part_call(self, function_name: str, construct_id: int, reference: Reference, offset: int) -> str:
        """Return a C call of a runtime function about a variable. If the reference has subscripts, the call is about
        the part that they name.
        """
        variable = self.unit.resolve_variable(reference, offset)
        return render_call(
            function_name,
            construct_id,
            self.unit.data_id(variable),
            data_address(variable),
            data_bytes(variable),
            *c_calls.section_arguments(reference, variable),
        )

    def render_remapping(
        self, directive: syntax.Redistribute | syntax.Realign, offset: int, directive_text: str
    ) -> str:
        """Return C calls that report a `redistribute` or `realign` to the runtime, one call for each array of the
        directive.
        """
        found: list[str] = []
        for array in directive.arrays:
            variable = self.unit.resolve_variable(array, offset)
            if not variable.declare:
                what = f"`{array.name}` is not a distributed array; put `#pragma dvm array` before its declaration"
                self.unit.fail(array.place, what)
            number = self.unit.data_id(variable)
            if isinstance(directive, syntax.Redistribute):
                axes = directive.distribution.axes or ()
                construct = self.unit.find_or_add_construct_id("redistribute", directive, directive_text)
                found.append(c_calls.render_block_sizes(number, variable, axes))
                found.append(c_scattered.render_owner_calls(self.unit, number, variable, axes, offset))
                task = self.unit.resolve_task(directive.distribution.onto, offset)
                found.append(c_calls.render_distribution(construct, number, variable, axes, task))
            else:
                construct = self.unit.find_or_add_construct_id("realign", directive, directive_text)
                found.append(self.arrays.render_alignment(variable, number, construct, directive.alignment, offset))
                if directive.new_value and not variable.has_data_behind_pointer:
                    found.append(render_call("clear", data_address(variable), data_bytes(variable)))
        return " ".join(found)

    def instrument_region(self, directive: syntax.Region, statement: Node | None, directive_text: str) -> None:
        """Insert calls at the begin and end of the statement after a `region` directive. The first calls also report
        the data that the region uses: the variables in its clauses, then all other arrays and written variables.
        """
        node = self.require_statement(directive, statement, "region")
        number = self.unit.find_or_add_construct_id("region", directive, directive_text)
        at = self.tree.begin(node)
        calls = [render_call("region_begin", number)]
        named: set[Variable] = set()
        for data in directive.data:
            for item in data.items:
                variable = self.unit.resolve_variable(item, at)
                named.add(variable)
                if self.is_unseen_by_hooks(item, at):
                    continue
                calls.append(self._render_region_data_call(variable, item, INTENTS[data.intent]))
        written = c_uses.find_written_variables(self.tree, node) | c_uses.get_addressed_variables(self.tree, node)
        hidden = self.find_private_variables(node)
        for variable in dict.fromkeys(v for _, v in c_uses.iterate_uses(self.tree, node)):
            inside = variable.statement_begin >= at and not variable.outside
            pointer = variable.pointer and not variable.has_data_behind_pointer
            if variable in named or variable in hidden or inside or pointer or c_calls.is_template(variable):
                continue
            if variable not in written and not variable.is_array:
                continue
            intent = "WEFT_INOUT" if variable in written else "WEFT_IN"
            empty = Reference(variable.name, None, directive.place)
            calls.append(self._render_region_data_call(variable, empty, intent))
        calls.append(render_call("region_start"))
        # A reduction's result is put into the host's memory: it needs no get_actual.
        reduced = [
            self.render_part_call("get_actual", number, item, at) for item in self.find_reduction_variables(node)
        ]
        self.marks.around(
            at, self.tree.end(node), " ".join(calls), " ".join([render_call("region_end", number), *reduced])
        )

    def _render_region_data_call(self, variable: Variable, reference: Reference, intent: str) -> str:
        """Return a C call that reports how a region uses a variable, or the part of an array that `reference` names.
        `intent`: the use, as a constant of the runtime such as "WEFT_IN".
        """
        bounds = c_calls.section_arguments(reference, variable)
        data = (self.unit.data_id(variable), data_address(variable), data_bytes(variable))
        return render_call("region_data", *data, intent, *bounds)

    def find_reduction_variables(self, region: Node) -> list[Reference]:
        """Return the reduction variables of the parallel loops within a region's statement."""
        begin, end = self.tree.begin(region), self.tree.end(region)
        return [
            one
            for low, high, directive, _ in self.unit.parallels
            if begin <= low and high <= end
            for clause in directive.clauses
            if isinstance(clause, syntax.Reductions)
            for item in clause.items
            for one in (item.variable, item.location)
            if one is not None and self.tree.resolve(one.name, begin) is not None
        ]

    def find_private_variables(self, region: Node) -> set[Variable]:
        """Return the variables that are private to each iteration of a region's parallel loops, loop indices
        included.
        """
        begin, end = self.tree.begin(region), self.tree.end(region)
        found: set[Variable] = set()
        for low, high, directive, loop in self.unit.parallels:
            if begin <= low and high <= end:
                found |= self.unit.find_variables_of_private_clauses(directive, loop)
                found |= {v for v in self.unit.loop_variables(directive, loop) if v is not None}
        return found

    # --- tasks, in the old form -----------------------------------------------------------------------------------

    def instrument_tasks(
        self,
        offset: int,
        directive: syntax.TaskRegion | syntax.On | syntax.Map,
        statement: Node | None,
        directive_text: str,
    ) -> None:
        """Insert the calls for a directive about tasks. For a task region or one task they stand around its statement,
        for `map` before the directive.
        """
        if isinstance(directive, syntax.Map):
            task = self.resolve_task(directive.task, offset)
            mapped = render_call(
                "task_map", self.unit.find_or_add_construct_id("map", directive, directive_text), *task, 0, -1
            )
            self.marks.before(offset, self.unit.render_task_count(directive.task, offset) + mapped)
            return
        name = "TASK_REGION" if isinstance(directive, syntax.TaskRegion) else "ON"
        node = self.require_statement(directive, statement, name)
        number = self.unit.find_or_add_construct_id(name.lower(), directive, directive_text)
        if isinstance(directive, syntax.TaskRegion):
            tasks = Reference(directive.tasks, None, directive.place)
            self.wrap_in_task_region(node, number, tasks, directive.clauses)
        else:
            if not self.is_in_task_region(offset):
                self.unit.fail(directive.place, "ON is outside of a TASK_REGION; put TASK_REGION before it")
            task = self.resolve_task(directive.task, offset)
            self.wrap_in_task(node, number, task[1])

    def resolve_task(self, reference: Reference, at: int) -> tuple[int, str]:
        """Return (id of the task array, C text of the task's index) for a task that a directive names."""
        return self.unit.resolve_task(reference, at) or (self.unit.find_task_array_id(reference, at), "0")
