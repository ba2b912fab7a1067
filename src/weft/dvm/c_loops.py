"""Render the calls for the parallel loops of C-DVMH and their clauses."""

from __future__ import annotations

from collections.abc import Sequence

from tree_sitter import Node

from weft.base.words import plural
from weft.dvm import c_calls, c_groups, c_scattered, c_uses, syntax
from weft.dvm.c_arrays import ArrayMarker
from weft.dvm.c_calls import data_address, data_bytes, long_array, render_call
from weft.dvm.c_hooks import HookedVariables
from weft.dvm.c_tree import Variable
from weft.dvm.c_unit import SourceUnit
from weft.dvm.syntax import Directive, Reference


class LoopConstructs:
    """Marks the loops of one source."""

    def __init__(self, unit: SourceUnit, hooks: HookedVariables, groups: c_groups.DirectiveGroups) -> None:
        self.unit = unit
        self.hooks = hooks
        self.groups = groups
        self.arrays = ArrayMarker(unit)
        self.source, self.tree, self.marks = unit.source, unit.tree, unit.marks

    def instrument_parallel_loop(self, directive: syntax.Parallel, statement: Node | None, directive_text: str) -> None:
        """Insert the calls for a parallel loop: before and after it, and at the beginning of each iteration. Raises
        DirectiveError if the loops after the directive do not fit it.
        """
        shown = f"parallel({''.join(f'[{name}]' for name in directive.indices) or directive.rank})"
        if statement is None or statement.type != "for_statement":
            self.unit.fail(directive.place, f"`{shown}` is not before a `for`; put it right before the outer loop")
        loops = c_uses.loop_nest(statement, directive.rank)
        if len(loops) < directive.rank:
            what = f"`{shown}` needs {directive.rank} loops, one directly in the other; here are {len(loops)}"
            self.unit.fail(directive.place, what)
        names = [c_uses.loop_variable_node(self.tree, loop) for loop in loops]
        for loop, name, wanted in zip(loops, names, directive.indices or [""] * len(loops), strict=True):
            place = self.source.position_of(self.tree.begin(loop))
            if name is None:
                self.unit.fail(place, f"the loop of `{shown}` does not begin by setting its variable: for (i = …")
            if wanted and self.tree.source(name) != wanted:
                what = (
                    f"the loop over `{self.tree.source(name)}` stands where `{shown}` names `{wanted}`; name the "
                    f"loops from the outer one to the inner one"
                )
                self.unit.fail(place, what)
        indices = [self.tree.source(name) for name in names if name is not None]
        at = self.tree.begin(statement)
        on = self.tree.resolve(directive.on.name, at) if directive.on is not None else None
        if on is not None and on.has("task"):
            self.instrument_task_loop(directive, statement, indices[0], directive_text)
            return
        number = self.unit.find_or_add_construct_id("parallel", directive, directive_text, indices)
        calls = [render_call("loop_begin", number, directive.rank, 0), *self.render_clauses(directive, statement, at)]
        if not self.is_in_region(at):
            remote = [clause for clause in directive.clauses if isinstance(clause, syntax.Remote)]
            calls[:0] = [self.render_host_fetches(clause, at, number) for clause in remote]
        calls.append(render_call("loop_start"))
        self.marks.around(at, self.tree.end(statement), " ".join(calls), render_call("loop_end", number))
        body = loops[-1].child_by_field_name("body")
        if body is not None:
            if len(indices) <= 3:
                step = render_call(f"iteration{len(indices)}", *indices)
            else:
                step = render_call("iteration", len(indices), long_array(indices))
            self.marks.around(self.tree.begin(body), self.tree.end(body), step, "")
            self.hooks.instrument_body_variables(body)

    def render_clauses(self, directive: syntax.Parallel, loop: Node, offset: int) -> list[str]:
        """Return the C calls that report a parallel loop's distribution, index variables and clauses before
        it starts.
        """
        found: list[str] = []
        if directive.on is not None:
            on = directive.on
            target = self.unit.resolve_distributed(on, offset, "on")
            found.append(
                render_call(
                    "loop_on",
                    self.unit.data_id(target),
                    data_address(target),
                    *c_calls.mapping_arguments(on.subscripts or ()),
                )
            )
        harmless_scalars = self.hooks.harmless_scalars
        indices = {v for v in self.unit.loop_variables(directive, loop) if v is not None}
        found.extend(self.render_control_variables(directive, loop, offset))
        for clause in directive.clauses:
            found.extend(self.render_clause(clause, offset, harmless_scalars | indices))
        return found

    def render_control_variables(self, directive: syntax.Parallel, loop: Node, offset: int) -> list[str]:
        """Return C calls that report a loop's index variables to the runtime, if they live in memory. Accesses to them
        are then not counted as work of the loop.
        """
        return [
            render_call("loop_index", data_address(variable), data_bytes(variable))
            for variable in self.unit.loop_variables(directive, loop)
            if variable is not None
            and not offset <= variable.statement_begin < self.tree.end(loop)
            and (variable.outside or variable.static or variable in self.hooks.variables_with_address_taken)
        ]

    def render_clause(self, clause: syntax.Clause, offset: int, harmless_scalars: set[Variable]) -> list[str]:
        """Return the C calls that report one clause of a loop or task region to the runtime."""
        found: list[str] = []
        if isinstance(clause, syntax.Private):
            for item in clause.names:
                variable = self.unit.resolve_variable(item, offset)
                if variable not in harmless_scalars:
                    found.append(
                        render_call(
                            "loop_private", self.unit.data_id(variable), data_address(variable), data_bytes(variable)
                        )
                    )
        elif isinstance(clause, syntax.Reductions):
            for one in clause.items:
                found.append(self.render_reduction(one, offset))
            group = self.groups.find_followed_group_id(self.unit, find_filled_group(clause), offset)
            if group:
                found.append(render_call("loop_reduction_group", group))
        elif isinstance(clause, syntax.ShadowRenew):
            for renewal in clause.items:
                variable = self.require_array_with_edges(renewal.array, renewal.widths, offset, "shadow_renew")
                edges = c_calls.width_arguments(renewal.widths)
                found.append(
                    render_call(
                        "loop_shadow_renew",
                        self.unit.data_id(variable),
                        data_address(variable),
                        *edges,
                        int(renewal.corner),
                    )
                )
                found.extend(
                    c_scattered.render_edge_renewals(self.unit, 0, variable, renewal.widths, renewal.array.place)
                )
        elif isinstance(clause, syntax.Across):
            for dependence in clause.items:
                # An array without distribution may be named too: `tie` loops of one processor.
                variable = self.unit.resolve_variable(dependence.array, offset)
                found.append(
                    render_call(
                        "loop_across",
                        self.unit.data_id(variable),
                        data_address(variable),
                        *c_calls.width_arguments(dependence.widths),
                    )
                )
        elif isinstance(clause, syntax.Remote):
            group = self.groups.find_followed_group_id(self.unit, find_filled_group(clause), offset)
            found.append(
                self.render_remote_accesses(clause, offset, "loop_remote_group" if group else "loop_remote", group)
            )
        elif isinstance(clause, syntax.Tie):
            for item in clause.items:
                variable = self.unit.resolve_variable(item, offset)
                mapping = c_calls.mapping_arguments(item.subscripts or ())
                found.append(render_call("loop_tie", self.unit.data_id(variable), data_address(variable), *mapping))
        return found

    def require_array_with_edges(
        self, array: Reference, widths: Sequence[object] | None, offset: int, clause_name: str
    ) -> Variable:
        """Return the distributed array that a clause about shadow edges names. Raises DirectiveError if the name is not
        a distributed array, or if `widths` has another number of dimensions.
        """
        variable = self.unit.resolve_variable(array, offset)
        if not variable.declare:
            self.unit.fail(array.place, f"`{array.name}` in `{clause_name}` is not a distributed array")
        if widths is not None and len(widths) != self.unit.array_rank(variable) and not variable.named_type:
            has = plural(self.unit.array_rank(variable), "dimension")
            what = f"`{array.name}` has {has}; `{clause_name}` gives {len(widths)} widths"
            self.unit.fail(array.place, what)
        return variable

    def render_reduction(self, reduction: syntax.Reduction, offset: int) -> str:
        """Return a C call that reports one reduction: its operation, its variable, and the location of a maxloc or
        minloc.
        """
        variable = self.unit.resolve_variable(reduction.variable, offset)
        location = ["(void *)0", "0"]
        if reduction.location is not None:
            beside = self.unit.resolve_variable(reduction.location, offset)
            bytes = data_bytes(beside)
            if reduction.size is not None and beside.has_data_behind_pointer:
                bytes = f"({reduction.size.text}) * sizeof(({beside.name})[0])"
            location = [data_address(beside), bytes]
        return render_call(
            "loop_reduction",
            self.unit.data_id(variable),
            data_address(variable),
            c_calls.OPERATIONS[reduction.operator],
            c_calls.reduction_type(variable),
            c_calls.render_element_count(variable),
            *location,
        )

    def render_host_fetches(self, remote: syntax.Remote, offset: int, construct_id: int) -> str:
        """Return C calls that fetch remote data from the devices to the host, as `remote_access` does by itself."""
        found: list[str] = []
        for item in remote.items:
            variable = self.unit.resolve_distributed(item, offset, "remote_access")
            ranges = [s if isinstance(s, syntax.Constant) else syntax.Whole() for s in item.subscripts or ()]
            part = Reference(item.name, tuple(ranges), item.place)
            bounds = c_calls.section_arguments(part, variable)
            found.append(
                render_call(
                    "get_actual",
                    construct_id,
                    self.unit.data_id(variable),
                    data_address(variable),
                    data_bytes(variable),
                    *bounds,
                )
            )
        return " ".join(found) + " "

    def is_in_region(self, at: int) -> bool:
        """Return whether an offset lies in a region's statement."""
        return self.is_within_directive(syntax.Region, at)

    def is_within_directive(self, directive_type: type[Directive], offset: int) -> bool:
        """Return whether an offset is within the statement of a directive of a given type."""
        nodes = [
            node
            for begin, _, directive, _ in self.source.directives
            if isinstance(directive, directive_type) and (node := self.unit.attached[begin]) is not None
        ]
        return any(self.tree.begin(node) <= offset < self.tree.end(node) for node in nodes)

    def render_remote_accesses(self, remote: syntax.Remote, offset: int, function_name: str, group_id: int = 0) -> str:
        """Return one C call for each array of a remote access. Each call reports how the array's subscripts depend on
        the loop's indices. `function_name`: the function of the runtime to call.
        """
        found: list[str] = []
        for item in remote.items:
            variable = self.unit.resolve_distributed(item, offset, "remote_access")
            mapping = c_calls.mapping_arguments(item.subscripts or ())
            first = [group_id] if group_id else []
            found.append(
                render_call(function_name, *first, self.unit.data_id(variable), data_address(variable), *mapping)
            )
        return " ".join(found)

    def wrap_in_task_region(
        self, statement: Node, construct_id: int, task_array: Reference, clauses: Sequence[syntax.Clause]
    ) -> None:
        """Insert calls around a statement: one before it begins a task region over a task array, one after it ends the
        region.
        """
        at = self.tree.begin(statement)
        known = self.unit.render_task_count(task_array, at)
        opening = [known, render_call("task_region_begin", construct_id, self.unit.find_task_array_id(task_array, at))]
        for clause in clauses:
            opening.extend(self.render_clause(clause, at, self.hooks.harmless_scalars))
        opening.append(render_call("task_region_start"))
        self.marks.around(at, self.tree.end(statement), " ".join(opening), render_call("task_region_end", construct_id))

    def wrap_in_task(self, statement: Node, construct_id: int, task_index: str) -> None:
        """Insert calls around a statement: one before it begins one task, one after it ends the task. `task_index`: C
        text.
        """
        begin, end = self.tree.begin(statement), self.tree.end(statement)
        self.marks.around(
            begin, end, render_call("task_begin", construct_id, task_index), render_call("task_end", construct_id)
        )
        self.hooks.instrument_body_variables(statement)

    def instrument_task_loop(
        self, directive: syntax.Parallel, loop: Node, index_name: str, directive_text: str
    ) -> None:
        """Insert the calls for a loop whose iterations are tasks. If the loop is outside a task region, calls that
        begin and end a task region are inserted around it, too.
        """
        at = self.tree.begin(loop)
        body = loop.child_by_field_name("body")
        if directive.on is None or body is None:
            return
        number = self.unit.find_or_add_construct_id("on", directive, directive_text, [index_name])
        if not self.is_in_task_region(at):
            region = self.unit.find_or_add_construct_id("task_region", directive, directive_text)
            self.wrap_in_task_region(loop, region, directive.on, directive.clauses)
        self.marks.around(at, self.tree.end(loop), " ".join(self.render_control_variables(directive, loop, at)), "")
        place = next(iter(directive.on.subscripts or ()), None)
        if isinstance(place, syntax.Affine):
            index_name = f"({place.coefficient.text}) * {index_name} + ({place.offset.text})"
        self.wrap_in_task(body, number, index_name)

    def is_in_task_region(self, at: int) -> bool:
        """Return whether an offset lies in a task region's statement."""
        return self.is_within_directive(syntax.TaskRegion, at)


def find_filled_group(clause: syntax.Reductions | syntax.Remote) -> Reference | None:
    """Return the group to which a reduction or remote-access clause adds its arrays; None if the clause names
    no group.
    """
    if not clause.group:
        return None
    place = clause.items[0].variable.place if isinstance(clause, syntax.Reductions) else clause.items[0].place
    return Reference(clause.group, None, place)
