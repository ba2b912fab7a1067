"""The calls for the parallel loops of Fortran-DVM(H), and for their clauses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from weft.dvm import fortran_scattered, syntax
from weft.dvm.fortran_calls import (
    ACROSS,
    COMPUTE,
    CONSISTENT,
    ON,
    OPERATIONS,
    REMOTE,
    RENEW,
    TIE,
    find_possibly_assigned_names,
    int_array,
    long_array,
    mapping_arrays,
    render_only_subscript,
)
from weft.dvm.fortran_lines import FortranStatement, Sentinel
from weft.dvm.fortran_marks import UnitMarks
from weft.dvm.fortran_model import DoLoop
from weft.dvm.fortran_text import DO, split_condition
from weft.dvm.syntax import DirectiveError, Position, Reference
from weft.native.headers.check import ALL


class LoopDirectives:
    """Marks the loops of one unit."""

    def __init__(self, unit_marks: UnitMarks) -> None:
        self.marks = unit_marks
        self.unit = unit_marks.unit
        self.open: list[tuple[str, int, Sentinel]] = []
        self.named = unit_marks.named | {symbol.name for symbol in unit_marks.loose}

    def insert_at_directive(self, sentinel: Sentinel, *texts: str) -> None:
        """Insert calls after the line of a directive."""
        self.marks.after(sentinel.last, sentinel.place, *texts)

    def instrument_parallel_loop(self, item_index: int, sentinel: Sentinel, directive: syntax.Parallel) -> None:
        """Insert the calls for `parallel (i,j) on a(i,j), …`: before and after the loop, and at the beginning of each
        iteration.
        """
        nest = self.find_loop_nest(item_index, sentinel, directive)
        outer, innermost = nest[0], nest[-1]
        self.marks.parallel.append((outer.first, outer.last))
        if directive.on and self.marks.is_task_array(directive.on.name):
            self.instrument_task_loop(sentinel, directive, innermost)
            return
        self.reject_jumps_out(sentinel, nest)
        construct = self.marks.find_or_add_construct_id("parallel", sentinel, directive.indices)
        head = self.statement_at(outer.first)
        begin = list(self.render_loop_calls(construct, sentinel, directive, outer))
        self.insert_before(head, sentinel.place, *begin)
        indices = ", ".join(f"int({name}, 8)" for name in directive.indices)
        rank = directive.rank
        call = f"iteration{rank}({indices})" if rank <= 3 else f"iteration({rank}, [integer(8) :: {indices}])"
        inner_head = self.statement_at(innermost.first)
        self.marks.after(inner_head.last, inner_head.place, f"call weft_check_{call}")
        last = self.statement_at(outer.last)
        ends = [f"call weft_check_loop_end({construct})"]
        for clause in directive.clauses:
            if isinstance(clause, syntax.ShadowUse) and clause.kind == "start" and clause.group:
                group = self.marks.find_group_id(clause.group, sentinel.place)
                ends.append(f"call weft_check_shadow_start({construct}, {group})")
        self.marks.after(last.last, sentinel.place, *ends)

    def statement_at(self, item_index: int) -> FortranStatement:
        """Return the statement at an index of the unit's items. Raises an error if the item is a directive."""
        item = self.unit.items[item_index]
        assert isinstance(item, FortranStatement)
        return item

    def insert_before(self, statement: FortranStatement, position: Position, *calls: str) -> None:
        """Insert calls before a statement. A label of the statement moves to a CONTINUE before the calls, so that a
        jump to it makes them too.
        """
        if statement.label:
            self.marks.marks.relabelled[statement.first] = statement.label
        self.marks.before(statement.first, position, *calls)

    def find_loop_nest(self, item_index: int, sentinel: Sentinel, directive: syntax.Parallel) -> list[DoLoop]:
        """Return the DO loops that a parallel directive is for, outermost first. Raises DirectiveError if the loops
        after the directive do not fit it.
        """
        found: list[DoLoop] = []
        here = item_index
        for name in directive.indices:
            loop = self.marks.find_loop_after(here)
            following = self.marks.find_next_statement(here)
            if loop is None or not loop.variable:
                what = self.unit.items[following] if following is not None else None
                shown = f"line {what.place.line} begins none" if isinstance(what, FortranStatement) else "none follows"
                raise DirectiveError(
                    sentinel.place, f"PARALLEL needs a DO loop over `{name}` after it, and {shown}; put it before one"
                )
            if loop.variable != name:
                raise DirectiveError(
                    sentinel.place,
                    f"PARALLEL ({', '.join(directive.indices)}) is before a loop over `{loop.variable}` where one "
                    f"over `{name}` is expected; name the loops from the outer one to the inner one",
                )
            if found and loop.last > found[-1].last:
                raise DirectiveError(
                    sentinel.place,
                    f"the loop over `{name}` is not nested in the loop before it; nest it, or name fewer loops",
                )
            found.append(loop)
            here = loop.first
        return found

    def reject_jumps_out(self, sentinel: Sentinel, nest: Sequence[DoLoop]) -> None:
        """Raise DirectiveError if a statement in a parallel loop leaves the loop early: the other iterations would run
        nevertheless.
        """
        first, last = nest[0].first, nest[0].last
        labels = {one.label for one in self.unit.statements(nest[0].first, nest[0].last) if one.label}
        for at in range(first + 1, last + 1):
            statement = self.unit.items[at]
            if not isinstance(statement, FortranStatement):
                continue
            _, action = split_condition(statement.code)
            jump = re.match(r"goto(\d+)$", action)
            around = [loop for loop in self.marks.loops.values() if loop.first < at <= loop.last]
            exits = action == "exit" and max(around, key=lambda loop: loop.first).first in {one.first for one in nest}
            if action == "return" or exits or (jump and jump[1] not in labels):
                raise DirectiveError(
                    statement.place,
                    f"`{action}` leaves the loop that PARALLEL at line {sentinel.place.line} is for; "
                    "all its iterations must run: remove PARALLEL or the jump",
                )

    def render_loop_calls(
        self, construct_id: int, sentinel: Sentinel, directive: syntax.Parallel, loop: DoLoop
    ) -> Iterator[str]:
        """Yield the Fortran calls before a parallel loop: its begin, distribution, index variables and clauses."""
        for clause in directive.clauses:
            if isinstance(clause, syntax.ShadowUse) and clause.kind == "wait" and clause.group:
                group = self.marks.find_group_id(clause.group, sentinel.place)
                yield f"call weft_check_shadow_wait({construct_id}, {group})"
        yield f"call weft_check_loop_begin({construct_id}, {directive.rank}, 0)"
        if directive.on:
            self.require_mapped(directive.on)
            yield self.render_mapped_array(ON, 0, directive.on)
        for name in self.find_control_variables(loop):
            yield f"call weft_check_loop_index({name})"
        yield from self.render_clauses(construct_id, sentinel, directive.clauses)
        yield "call weft_check_loop_start()"

    def require_mapped(self, reference: Reference) -> None:
        """Raise DirectiveError if the array that ON names is not declared or has no distribution."""
        found = self.marks.program.owner(self.unit, reference.name)
        if found is None:
            raise DirectiveError(
                reference.place, f"`{reference.name}` in ON is declared nowhere; name a distributed array or a template"
            )
        if self.marks.find_mapping(reference.name) is None and not found[1].dummy:
            raise DirectiveError(
                reference.place,
                f"`{reference.name}` in ON has no distribution; add DISTRIBUTE or ALIGN for it, or name another array",
            )
        if reference.subscripts is not None:
            self.marks.require_rank(reference.name, len(reference.subscripts), reference.place)

    def find_control_variables(self, loop: DoLoop) -> list[str]:
        """Return the names of the index variables of a parallel loop and the loops within it, if they live in memory.
        The runtime does not count accesses to them as work of the loop.
        """
        names = {
            inner.variable
            for inner in self.marks.loops.values()
            if loop.first <= inner.first and inner.last <= loop.last and inner.variable
        }
        # What a clause or a construct of this unit names lives in memory, too: the runtime gets its address.
        return sorted(name for name in names if name in self.named or self.is_in_memory(name))

    def is_in_memory(self, name: str) -> bool:
        """Return whether a scalar must have an address. That is so if another unit shares it, if it is saved, or if a
        statement passes it to a procedure or to input and output.
        """
        found = self.marks.program.owner(self.unit, name)
        if found and (found[0] is not self.unit or found[1].static or found[1].dummy or found[1].shared):
            return True
        if "*save" in self.unit.symbols:
            return True
        word = re.compile(rf"[(,]{name}(?=[,)])|[(,]{name}$")
        for item in self.unit.items:
            if not isinstance(item, FortranStatement) or DO.match(item.code):
                continue
            _, action = split_condition(item.code)
            if re.match(r"(call|print|read|write)\W?", action):
                if re.search(rf"\b{name}\b", action) or (action.startswith("call") and word.search(action)):
                    return True
            elif any(self.is_call(called) for called in re.findall(rf"([a-z]\w*)\((?:[^()]*,)?{name}[,)]", action)):
                return True
        return False

    def is_call(self, name: str) -> bool:
        """Return whether `name(…)` may be a call of a function with arguments by address."""
        found = self.marks.program.owner(self.unit, name)
        return found is None or not (found[1].array or found[1].pointer)

    def render_mapped_array(self, call_kind: int, group_id: int, reference: Reference) -> str:
        """Return a Fortran call that reports how an array's subscripts depend on the loop's indices. `call_kind`: the
        purpose of the report, a number of the runtime.
        """
        if reference.subscripts is None:
            rank = self.marks.resolve_symbol(reference.name, reference.place)[1].rank or 1
            axis, coefficient, offset = [ALL] * rank, ["0"] * rank, ["0"] * rank
        else:
            axis, coefficient, offset = mapping_arrays(reference.subscripts)
        number = self.marks.find_data_id(reference.name, reference.place)
        return (
            f"call weft_check_mapped({call_kind}, {group_id}, {number}, {len(axis)}, {int_array(axis)}, "
            f"{long_array(coefficient)}, "
            f"{long_array(offset)}{self.marks.address_argument(reference.name)})"
        )

    def render_clauses(self, construct_id: int, sentinel: Sentinel, clauses: Sequence[syntax.Clause]) -> Iterator[str]:
        """Yield the Fortran calls that report the clauses of a loop or task region."""
        for clause in clauses:
            match clause:
                case syntax.Private():
                    for reference in clause.names:
                        number = self.marks.find_data_id(reference.name, reference.place)
                        yield f"call weft_check_loop_private({number}, {reference.name})"
                case syntax.Consistent():
                    group = self.marks.find_group_id(clause.group, sentinel.place) if clause.group else 0
                    for reference in clause.items:
                        yield self.render_mapped_array(CONSISTENT, group, reference)
                case syntax.Reductions():
                    yield from self.render_reductions(clause, sentinel.place)
                case syntax.ShadowRenew():
                    for item in clause.items:
                        yield self.render_edges(RENEW, construct_id, 0, item)
                        array = item.array
                        yield from fortran_scattered.render_edge_renewals(
                            self.marks, array.name, item.widths, array.place
                        )
                case syntax.ShadowUse(kind="compute"):
                    computed = [clause.array] if clause.array else self.find_computed_arrays(sentinel)
                    for item in computed:
                        yield self.render_edges(COMPUTE, construct_id, 0, item)
                case syntax.Across():
                    for dependence in clause.items:
                        yield self.render_edges(
                            ACROSS, construct_id, 0, syntax.Renewal(dependence.array, dependence.widths)
                        )
                case syntax.Remote():
                    group = self.marks.find_group_id(clause.group, sentinel.place) if clause.group else 0
                    for reference in clause.items:
                        yield self.render_mapped_array(REMOTE, group, reference)
                case syntax.Tie():
                    for reference in clause.items:
                        yield self.render_mapped_array(TIE, 0, reference)

    def find_computed_arrays(self, sentinel: Sentinel) -> list[syntax.Renewal]:
        """Return the distributed arrays that the loop after a directive writes, as renewals of their shadow edges. They
        are meant by a SHADOW_COMPUTE without a list: the loop also computes the edges of the arrays that it writes.
        """
        loop = self.marks.find_loop_after(self.unit.items.index(sentinel))
        if loop is None:
            return []
        names = {
            name for one in self.unit.statements(loop.first, loop.last) for name in find_possibly_assigned_names(one)
        }
        arrays = [name for name in sorted(names) if self.marks.is_distributed(name)]
        return [syntax.Renewal(Reference(name, None, sentinel.place), None) for name in arrays]

    def render_reductions(self, clause: syntax.Reductions, position: Position) -> Iterator[str]:
        """Yield the Fortran calls that report the clause `reduction(group: sum(s), maxloc(m, l))`."""
        for one in clause.items:
            name = one.variable.name
            location = f", location={one.location.name}" if one.location else ""
            number = self.marks.find_data_id(name, one.variable.place)
            yield f"call weft_check_loop_reduction({number}, {OPERATIONS[one.operator]}, {name}{location})"
        if clause.group:
            yield f"call weft_check_loop_reduction_group({self.marks.find_group_id(clause.group, position)})"

    def render_edges(self, call_kind: int, construct_id: int, group_id: int, renewal: syntax.Renewal) -> str:
        """Return a Fortran call about an array's shadow edges. It has the widths that the directive gives; without any,
        the declared widths apply. `call_kind`: the purpose of the call, a number of the runtime.
        """
        array = renewal.array
        widths = renewal.widths
        low, high = self.marks.render_widths(widths) if widths is not None else ([], [])
        if low:
            self.marks.require_rank(array.name, len(low), array.place)
        number = self.marks.find_data_id(array.name, array.place)
        return (
            f"call weft_check_edges({call_kind}, {construct_id}, {group_id}, {number}, "
            f"{int(renewal.corner)}, {len(low)}, "
            f"{long_array(low)}, {long_array(high)}{self.marks.address_argument(array.name)})"
        )

    def instrument_task_loop(self, sentinel: Sentinel, directive: syntax.Parallel, loop: DoLoop) -> None:
        """Insert the calls for `parallel (i) on mb(i)`, where each iteration is a task."""
        construct = self.marks.find_or_add_construct_id("on", sentinel, directive.indices)
        head, last = self.statement_at(loop.first), self.statement_at(loop.last)
        self.marks.parallel.pop()
        index = directive.indices[0]
        assert directive.on is not None
        calls = [f"call weft_check_task_begin({construct}, int({render_only_subscript(directive.on, index)}, 8))"]
        if index in self.named:
            calls.append(f"call weft_check_task_index({index})")
        self.marks.after(head.last, head.place, *calls)
        self.insert_before_end(last, sentinel.place, f"call weft_check_task_end({construct})")

    def insert_before_end(self, last_statement: FortranStatement, position: Position, call: str) -> None:
        """Insert a call before the last statement of a loop, so that it is made at the end of each iteration."""
        if last_statement.label and last_statement.code != "continue":
            raise DirectiveError(last_statement.place, "a loop over tasks must end with END DO or CONTINUE")
        self.marks.before(last_statement.first, position, call)
