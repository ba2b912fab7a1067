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

    def mark_parallel_loop(self, directive: syntax.Parallel, statement: Node | None, text: str) -> None:
        """Insert a parallel loop's calls around and into it."""
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
                what = f"the loop over `{self.tree.source(name)}` is where `{shown}` has `{wanted}`"
                self.unit.fail(place, what)
        indices = [self.tree.source(name) for name in names if name is not None]
        at = self.tree.begin(statement)
        on = self.tree.resolve(directive.on.name, at) if directive.on is not None else None
        if on is not None and on.has("task"):
            self.mark_task_loop(directive, statement, indices[0], text)
            return
        number = self.unit.texted("parallel", directive, text, indices)
        calls = [render_call("loop_begin", number, directive.rank, 0), *self.render_clauses(directive, statement, at)]
        if not self.in_region(at):
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
            self.hooks.mark_body_variables(body)

    def render_clauses(self, directive: syntax.Parallel, loop: Node, at: int) -> list[str]:
        """Return the calls of a loop's clauses."""
        found: list[str] = []
        if directive.on is not None:
            on = directive.on
            target = self.unit.resolve_distributed(on, at, "on")
            found.append(
                render_call(
                    "loop_on",
                    self.unit.data_id(target),
                    data_address(target),
                    *c_calls.mapping_arguments(on.subscripts or ()),
                )
            )
        unmarked = self.hooks.unmarked
        indices = {v for v in self.unit.loop_variables(directive, loop) if v is not None}
        found.extend(self.render_control_variables(directive, loop, at))
        for clause in directive.clauses:
            found.extend(self.render_clause(clause, at, unmarked | indices))
        return found

    def render_control_variables(self, directive: syntax.Parallel, loop: Node, at: int) -> list[str]:
        """Return the calls that report a loop's own variables in memory: accesses to them are no work of the loop."""
        return [
            render_call("loop_index", data_address(variable), data_bytes(variable))
            for variable in self.unit.loop_variables(directive, loop)
            if variable is not None
            and not at <= variable.statement_begin < self.tree.end(loop)
            and (variable.outside or variable.static or variable in self.hooks.escaping)
        ]

    def render_clause(self, clause: syntax.Clause, at: int, unmarked: set[Variable]) -> list[str]:
        """Return the calls of one clause."""
        found: list[str] = []
        if isinstance(clause, syntax.Private):
            for item in clause.names:
                variable = self.unit.resolve_variable(item, at)
                if variable not in unmarked:
                    found.append(
                        render_call(
                            "loop_private", self.unit.data_id(variable), data_address(variable), data_bytes(variable)
                        )
                    )
        elif isinstance(clause, syntax.Reductions):
            for one in clause.items:
                found.append(self.render_reduction(one, at))
            group = self.groups.followed_number(self.unit, clause_group(clause), at)
            if group:
                found.append(render_call("loop_reduction_group", group))
        elif isinstance(clause, syntax.ShadowRenew):
            for renewal in clause.items:
                variable = self.require_array_with_edges(renewal.array, renewal.widths, at, "shadow_renew")
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
                variable = self.unit.resolve_variable(dependence.array, at)
                found.append(
                    render_call(
                        "loop_across",
                        self.unit.data_id(variable),
                        data_address(variable),
                        *c_calls.width_arguments(dependence.widths),
                    )
                )
        elif isinstance(clause, syntax.Remote):
            group = self.groups.followed_number(self.unit, clause_group(clause), at)
            found.append(
                self.render_remote_accesses(clause, at, "loop_remote_group" if group else "loop_remote", group)
            )
        elif isinstance(clause, syntax.Tie):
            for item in clause.items:
                variable = self.unit.resolve_variable(item, at)
                mapping = c_calls.mapping_arguments(item.subscripts or ())
                found.append(render_call("loop_tie", self.unit.data_id(variable), data_address(variable), *mapping))
        return found

    def require_array_with_edges(
        self, array: Reference, widths: Sequence[object] | None, at: int, where: str
    ) -> Variable:
        """Return the distributed array whose edges a clause names."""
        variable = self.unit.resolve_variable(array, at)
        if not variable.declare:
            self.unit.fail(array.place, f"`{array.name}` in `{where}` is not a distributed array")
        if widths is not None and len(widths) != self.unit.array_rank(variable) and not variable.named_type:
            has = plural(self.unit.array_rank(variable), "dimension")
            what = f"`{array.name}` has {has}; `{where}` gives {len(widths)} widths"
            self.unit.fail(array.place, what)
        return variable

    def render_reduction(self, one: syntax.Reduction, at: int) -> str:
        """Return the call of one reduction."""
        variable = self.unit.resolve_variable(one.variable, at)
        location = ["(void *)0", "0"]
        if one.location is not None:
            beside = self.unit.resolve_variable(one.location, at)
            bytes = data_bytes(beside)
            if one.size is not None and beside.has_data_behind_pointer:
                bytes = f"({one.size.text}) * sizeof(({beside.name})[0])"
            location = [data_address(beside), bytes]
        return render_call(
            "loop_reduction",
            self.unit.data_id(variable),
            data_address(variable),
            c_calls.OPERATIONS[one.operator],
            c_calls.reduction_type(variable),
            c_calls.element_count(variable),
            *location,
        )

    def render_host_fetches(self, remote: syntax.Remote, at: int, number: int) -> str:
        """Return the calls that bring what the host fetches from the regions: remote_access does that by itself."""
        found: list[str] = []
        for item in remote.items:
            variable = self.unit.resolve_distributed(item, at, "remote_access")
            ranges = [s if isinstance(s, syntax.Constant) else syntax.Whole() for s in item.subscripts or ()]
            part = Reference(item.name, tuple(ranges), item.place)
            bounds = c_calls.section_arguments(part, variable)
            found.append(
                render_call(
                    "get_actual",
                    number,
                    self.unit.data_id(variable),
                    data_address(variable),
                    data_bytes(variable),
                    *bounds,
                )
            )
        return " ".join(found) + " "

    def in_region(self, at: int) -> bool:
        """Return whether an offset lies in a region's statement."""
        return self.is_within_directive(syntax.Region, at)

    def is_within_directive(self, kind: type[Directive], at: int) -> bool:
        """Return whether an offset is in the statement after a directive of a kind."""
        nodes = [
            node
            for begin, _, directive, _ in self.source.directives
            if isinstance(directive, kind) and (node := self.unit.attached[begin]) is not None
        ]
        return any(self.tree.begin(node) <= at < self.tree.end(node) for node in nodes)

    def render_remote_accesses(self, remote: syntax.Remote, at: int, name: str, group: int = 0) -> str:
        """Return the calls of remote accesses."""
        found: list[str] = []
        for item in remote.items:
            variable = self.unit.resolve_distributed(item, at, "remote_access")
            mapping = c_calls.mapping_arguments(item.subscripts or ())
            first = [group] if group else []
            found.append(render_call(name, *first, self.unit.data_id(variable), data_address(variable), *mapping))
        return " ".join(found)

    def wrap_in_task_region(self, node: Node, number: int, tasks: Reference, clauses: Sequence[syntax.Clause]) -> None:
        """Put a task region around a statement."""
        at = self.tree.begin(node)
        known = self.unit.render_task_count(tasks, at)
        opening = [known, render_call("task_region_begin", number, self.unit.task_array_number(tasks, at))]
        for clause in clauses:
            opening.extend(self.render_clause(clause, at, self.hooks.unmarked))
        opening.append(render_call("task_region_start"))
        self.marks.around(at, self.tree.end(node), " ".join(opening), render_call("task_region_end", number))

    def wrap_in_task(self, node: Node, number: int, index: str) -> None:
        """Put a task around its statement."""
        begin, end = self.tree.begin(node), self.tree.end(node)
        self.marks.around(begin, end, render_call("task_begin", number, index), render_call("task_end", number))
        self.hooks.mark_body_variables(node)

    def mark_task_loop(self, directive: syntax.Parallel, loop: Node, index: str, text: str) -> None:
        """Mark a loop of which each iteration is a task; without a task region around it, the loop is one itself."""
        at = self.tree.begin(loop)
        body = loop.child_by_field_name("body")
        if directive.on is None or body is None:
            return
        number = self.unit.texted("on", directive, text, [index])
        if not self.in_tasks(at):
            region = self.unit.texted("task_region", directive, text)
            self.wrap_in_task_region(loop, region, directive.on, directive.clauses)
        self.marks.around(at, self.tree.end(loop), " ".join(self.render_control_variables(directive, loop, at)), "")
        place = next(iter(directive.on.subscripts or ()), None)
        if isinstance(place, syntax.Affine):
            index = f"({place.coefficient.text}) * {index} + ({place.offset.text})"
        self.wrap_in_task(body, number, index)

    def in_tasks(self, at: int) -> bool:
        """Return whether an offset lies in a task region's statement."""
        return self.is_within_directive(syntax.TaskRegion, at)


def clause_group(clause: syntax.Reductions | syntax.Remote) -> Reference | None:
    """Return the group that a clause of a loop fills; None without one."""
    if not clause.group:
        return None
    place = clause.items[0].variable.place if isinstance(clause, syntax.Reductions) else clause.items[0].place
    return Reference(clause.group, None, place)
