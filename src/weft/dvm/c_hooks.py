"""Find the variables of a C source that the compiler's hooks must see: their address is taken, others stay fast."""

from __future__ import annotations

from functools import cached_property

from tree_sitter import Node

from weft.dvm import c_calls, c_tree, c_uses, syntax
from weft.dvm.c_calls import data_address, data_bytes, long_array, render_call
from weft.dvm.c_tree import Variable
from weft.dvm.c_unit import FIRST, SourceUnit
from weft.dvm.syntax import Reference


class HookedVariables:
    """Marks the variables of one source that the hooks must see."""

    def __init__(self, unit: SourceUnit) -> None:
        self.unit = unit
        self.source, self.tree, self.marks = unit.source, unit.tree, unit.marks

    def instrument_body_variables(self, loop_body: Node) -> None:
        """Insert calls that mark variables as not yet assigned in each iteration of a parallel loop. They concern the
        variables that the loop's body declares without a value.
        """
        begin, end = self.tree.begin(loop_body), self.tree.end(loop_body)
        for many in self.tree.variables.values():
            for variable in many:
                if not begin <= variable.statement_begin < end or variable.static or variable.external:
                    continue
                if variable.initialised or variable.pointer or variable.parameter:
                    continue
                scope = self.tree.resolve(variable.name, variable.begin)
                if scope is None or (not variable.sizes and self.is_surely_written_first(variable, loop_body)):
                    continue
                self.marks.before(
                    variable.statement_end, " " + render_call("clear", data_address(variable), data_bytes(variable))
                )

    def is_surely_written_first(self, variable: Variable, body: Node) -> bool:
        """Return whether a scalar declared in a loop's body is always written before it is read. False if a pointer to
        it is made.
        """
        holder = next(
            (n for n in c_tree.walk_nodes(body) if n.type == "compound_statement" and self.tree.end(n) == variable.end),
            body,
        )
        return c_uses.is_written_first(self.tree, variable, holder) and variable not in c_uses.get_addressed_variables(
            self.tree, holder
        )

    def find_construct_statements(self) -> list[Node]:
        """Return the statements that follow a `parallel`, `region` or `task_region` directive."""
        kinds = (syntax.Parallel, syntax.Region, syntax.TaskRegion)
        return [
            node
            for begin, _, directive, _ in self.source.directives
            if isinstance(directive, kinds) and (node := self.unit.attached[begin]) is not None
        ]

    def find_clause_variables(self) -> set[Variable]:
        """Return the variables that appear in clauses of the source's parallel loops, regions and task regions, or in
        `actual` and `get_actual`.
        """
        found: set[Variable] = set()
        for begin, end, directive, _ in self.source.directives:
            references: list[Reference] = []
            if isinstance(directive, syntax.Parallel | syntax.TaskRegion):
                for clause in directive.clauses:
                    if isinstance(clause, syntax.Private):
                        references += clause.names
                    elif isinstance(clause, syntax.Reductions):
                        references += [one.variable for one in clause.items]
                        references += [one.location for one in clause.items if one.location is not None]
                    elif isinstance(clause, syntax.Tie):
                        references += clause.items
                    elif isinstance(clause, syntax.Across):
                        references += [one.array for one in clause.items]
            elif isinstance(directive, syntax.Region):
                references = [item for data in directive.data for item in data.items]
            elif isinstance(directive, syntax.Actual):
                references = list(directive.items or ())
            at = end if self.unit.attached[begin] is None else begin
            found |= {v for r in references if (v := self.tree.resolve(r.name, at)) is not None}
        return found

    @cached_property
    def wanted(self) -> set[Variable]:
        """Return the variables whose accesses the runtime must see."""
        return self.variables_written_or_named - self.harmless_scalars

    @cached_property
    def variables_written_or_named(self) -> set[Variable]:
        """Return the variables that the statements of parallel loops, regions and task regions write, and the variables
        in their clauses. Variables that such a statement declares itself are left out.
        """
        found = self.find_clause_variables()
        for node in self.find_construct_statements():
            begin, end = self.tree.begin(node), self.tree.end(node)
            found |= {v for v in c_uses.find_written_variables(self.tree, node) if not begin <= v.statement_begin < end}
        return found

    @cached_property
    def variables_used_by_regions(self) -> set[Variable]:
        """Return the variables that a region uses and that are declared outside of it. The device may hold a copy of
        them for as long as they exist.
        """
        regions = [
            node
            for begin, _, directive, _ in self.source.directives
            if isinstance(directive, syntax.Region) and (node := self.unit.attached[begin]) is not None
        ]
        return {
            variable
            for node in regions
            for _, variable in c_uses.iterate_uses(self.tree, node)
            if not self.tree.begin(node) <= variable.statement_begin < self.tree.end(node)
        }

    @cached_property
    def variables_with_address_taken(self) -> set[Variable]:
        """Return the variables whose address some function takes. The variables whose accesses the runtime must see for
        another reason (`wanted`) are added.
        """
        found = set(self.wanted)
        for function in self.tree.functions:
            found |= c_uses.get_addressed_variables(self.tree, function)
        return found

    @cached_property
    def harmless_scalars(self) -> set[Variable]:
        """Return the local scalars whose accesses need no check. No use of them can be wrong: they are loop indices, or
        each iteration has its own and writes it first.
        """
        plain = {v for v in self.variables_written_or_named if not v.outside and not v.static and not v.is_array}
        return {v for v in plain if self.is_harmless(v)}

    def is_harmless(self, variable: Variable) -> bool:
        """Return whether no use of a scalar can be wrong. In parallel loops, each iteration must have its own and write
        it before it reads it. Elsewhere the scalar may only control a loop.
        """
        function = next((f for f in self.tree.functions if self.tree.begin(f) == variable.function), None)
        if function is None or variable in c_uses.get_addressed_variables(self.tree, function):
            return False
        around = [(self.tree.begin(n), self.tree.end(n), d, n) for _, _, d, n in self.unit.parallels]
        for node, found in c_uses.iterate_uses(self.tree, function):
            if found is not variable:
                continue
            at = self.tree.begin(node)
            if at == variable.at:
                continue
            loops = [(d, n) for begin, end, d, n in around if begin <= at < end]
            if not loops:
                if c_uses.find_loop_over(self.tree, variable, node) is None:
                    return False
                continue
            directive, loop = loops[0]
            if variable in self.unit.loop_variables(directive, loop):
                continue
            body = c_uses.loop_nest(loop, directive.rank)[-1].child_by_field_name("body")
            if (
                variable not in c_uses.find_written_variables(self.tree, loop)
                and c_uses.find_loop_over(self.tree, variable, node) is not None
            ):
                continue
            if variable not in self.unit.find_variables_of_private_clauses(directive, loop) or body is None:
                return False
            if not c_uses.is_written_first(self.tree, variable, body):
                return False
        return True

    def instrument_variables(self) -> None:
        """Insert calls that register variables where they are declared. They are registered if a construct writes or
        names them, or if they may be read without a value. File-scope variables are registered before main.
        """
        for variable in sorted(self.wanted, key=lambda v: v.at):
            if variable.declare or (variable.pointer and not variable.parameter):
                continue
            if variable.reference and not variable.is_array:
                continue
            text = self.render_naming_call(variable)
            if variable.outside:
                continue
            if variable in self.variables_used_by_regions and not variable.parameter and not variable.static:
                text += " " + render_call("begin_variable", data_address(variable))
            if variable.parameter:
                function = next(f for f in self.tree.functions if self.tree.begin(f) == variable.function)
                body = function.child_by_field_name("body")
                opaque = (
                    variable.has_data_behind_pointer
                    and not variable.sizes
                    and variable not in self.find_clause_variables()
                )
                if body is not None and not opaque:
                    self.marks.before(self.tree.begin(body) + 1, " " + text)
                continue
            if not variable.initialised and not variable.static and not variable.external:
                text += " " + render_call("clear", data_address(variable), data_bytes(variable))
            if self.is_in_loop_header(variable):
                continue
            self.marks.before(variable.statement_end, " " + text)
        for variable in sorted(self.variables_read_before_written - self.wanted, key=lambda v: v.at):
            self.insert_unset_mark(variable)
        for variable in sorted(
            self.variables_used_by_regions - self.variables_read_before_written - self.wanted, key=lambda v: v.at
        ):
            if variable.is_array and not (variable.outside or variable.is_pointer_like or variable.declare):
                self.marks.before(variable.statement_end, " " + self.render_naming_call(variable))
        for many in self.tree.variables.values():
            for variable in many:
                plain = variable.outside and not variable.external and not variable.declare
                if not variable.static and variable.name in self.unit.shared.spread:
                    continue
                if plain and not variable.is_pointer_like and not (variable.sizes and not variable.sizes[0]):
                    self.unit.add_constructor(variable.statement_end, FIRST, self.render_naming_call(variable))

    @cached_property
    def variables_read_before_written(self) -> set[Variable]:
        """Return the local variables, declared outside parallel loops, that may be read before they have a value."""
        bodies = [(begin, end) for begin, end, _, _ in self.unit.parallels]
        found: set[Variable] = set()
        for many in self.tree.variables.values():
            for variable in many:
                known = variable.outside or variable.static or variable.external or variable.initialised
                if known or variable.parameter or variable.pointer or variable.declare or variable.function < 0:
                    continue
                if self.tree.cplusplus and not variable.sizes:  # overloads would part on `volatile`
                    continue
                inside = any(begin <= variable.at < end for begin, end in bodies)
                if (
                    not inside
                    and not self.is_in_loop_header(variable)
                    and (variable.sizes or not self.is_always_written_first(variable))
                ):
                    found.add(variable)
        return found

    def is_always_written_first(self, variable: Variable) -> bool:
        """Return whether a local scalar is always written before it is read, each time its block is entered."""
        function = next((f for f in self.tree.functions if self.tree.begin(f) == variable.function), None)
        body = function.child_by_field_name("body") if function is not None else None
        return body is None or self.is_surely_written_first(variable, body)

    def insert_unset_mark(self, variable: Variable) -> None:
        """Insert, after a variable's declaration, a call that marks it as not yet assigned. It has an effect only on a
        number or an array of numbers.
        """
        kind = c_calls.reduction_type(variable)
        clear = render_call("clear", data_address(variable), data_bytes(variable))
        if variable in self.variables_used_by_regions:
            begins = render_call("begin_variable", data_address(variable))
            text = f"{self.render_naming_call(variable)} {begins} if ({kind}) {clear}"
        else:
            text = f"if ({kind}) {{ {self.render_naming_call(variable)} {clear} }}"
        self.marks.before(variable.statement_end, " " + text)
        if not variable.sizes:
            # Else the compiler may read it ahead of the branch that would, and that would be reported.
            self.marks.before(variable.statement_begin, "volatile ")

    def render_naming_call(self, variable: Variable) -> str:
        """Return a C call that gives the runtime a variable's name and memory, and the dimensions if it is an array."""
        number = self.unit.data_id(variable)
        if not variable.is_array:
            return render_call("data", number, data_address(variable), data_bytes(variable))
        rank = variable.rank
        element, extents = c_calls.element_at(variable, rank), c_calls.array_extents(variable, rank)
        name = "argument" if variable.has_data_behind_pointer or variable.reference else "array"
        return render_call(
            name, number, data_address(variable), f"sizeof({element})", rank, long_array([0] * rank), extents, 0
        )

    def is_in_loop_header(self, variable: Variable) -> bool:
        """Return whether a variable is declared in the header of a `for` loop. No statement can be inserted after such
        a declaration.
        """
        statement = self.tree.statements.get(variable.statement_begin)
        above = statement.parent if statement is not None else None
        return above is not None and above.type == "for_statement"
