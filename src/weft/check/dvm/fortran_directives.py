"""The marks of executable directives of Fortran-DVM(H): parallel loops with their clauses, regions, tasks, groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from weft.check.dvm import fortran_scattered, syntax
from weft.check.dvm.fortran_calls import (
    ACROSS,
    ACTUAL,
    BEFORE_STATEMENT,
    COMPUTE,
    CONSISTENT,
    DIRECTIONS,
    GET_ACTUAL,
    GROUP,
    ON,
    OPERATIONS,
    REGION_DATA,
    REMOTE,
    RENEW,
    TIE,
    block_end,
    ints,
    longs,
    only_index,
    triples,
    written,
)
from weft.check.dvm.fortran_lines import Sentinel, Statement
from weft.check.dvm.fortran_marks import UnitMarks
from weft.check.dvm.fortran_units import DO, Loop, assignment, inner
from weft.check.dvm.syntax import DirectiveError, Position, Reference
from weft.native.headers.check import ALL

ENDS: Final = {
    "region": "weft_check_region_end",
    "task_region": "weft_check_task_region_end",
    "on": "weft_check_task_end",
    "host_section": "weft_check_host_section_end",
    "asynchronous": "",
}


class Directives:
    """The executable directives of one unit."""

    def __init__(self, unit_marks: UnitMarks) -> None:
        self.marks = unit_marks
        self.unit = unit_marks.unit
        self.open: list[tuple[str, int, Sentinel]] = []
        self.named = unit_marks.named | {symbol.name for symbol in unit_marks.loose}

    def mark(self) -> None:
        """Put in the marks of all of them."""
        for at, item in enumerate(self.unit.items):
            if isinstance(item, Sentinel) and item.directive is not None:
                self.one(at, item, item.directive)
        if self.open:
            kind, _, sentinel = self.open[-1]
            raise DirectiveError(sentinel.place, f"this {kind.upper()} has no END {kind.upper()}; add it")

    def here(self, sentinel: Sentinel, *texts: str) -> None:
        """Put calls where a directive stands."""
        self.marks.after(sentinel.last, sentinel.place, *texts)

    def one(self, at: int, sentinel: Sentinel, directive: syntax.Directive) -> None:
        """The marks of one directive."""
        match directive:
            case syntax.Parallel():
                self.parallel(at, sentinel, directive)
            case syntax.Region():
                self.region(sentinel, directive)
            case syntax.End():
                self.end(sentinel, directive)
            case syntax.Actual():
                self.actual(sentinel, directive)
            case syntax.Redistribute() | syntax.Realign():
                self.remap(sentinel, directive)
            case syntax.RemoteAccess():
                self.remote_access(at, sentinel, directive)
            case syntax.DefineGroup():
                self.shadow_group(sentinel, directive)
            case syntax.UseGroup():
                self.use_group(sentinel, directive)
            case syntax.TaskRegion():
                self.task_region(sentinel, directive)
            case syntax.On():
                self.on(sentinel, directive)
            case syntax.Map():
                self.map(sentinel, directive)
            case syntax.NewArray():
                self.template_create(sentinel, directive)
            case syntax.ShadowAdd():
                self.here(sentinel, *fortran_scattered.shadow_add(self.marks, sentinel, directive))
            case syntax.Localize():
                self.here(sentinel, fortran_scattered.localize(self.marks, sentinel, directive))
            case syntax.ArrayCopy():
                self.array_copy(at, sentinel)
            case syntax.Note(keyword="hostsection" | "host_section"):
                construct = self.marks.construct("host_section", sentinel)
                self.open.append(("host_section", construct, sentinel))
                self.here(sentinel, f"call weft_check_host_section_begin({construct})")

    # --- loops ----------------------------------------------------------------------------------------------------

    def parallel(self, at: int, sentinel: Sentinel, directive: syntax.Parallel) -> None:
        """`parallel (i,j) on a(i,j), …` and the loop behind it."""
        nest = self.nest(at, sentinel, directive)
        outer, innermost = nest[0], nest[-1]
        self.marks.parallel.append((outer.first, outer.last))
        if directive.on and self.marks.is_tasks(directive.on.name):
            self.task_loop(sentinel, directive, innermost)
            return
        self.must_be_left_at_its_end(sentinel, nest)
        construct = self.marks.construct("parallel", sentinel, directive.indices)
        head = self.statement_at(outer.first)
        begin = list(self.loop_calls(construct, sentinel, directive, outer))
        self.before_statement(head, sentinel.place, *begin)
        indices = ", ".join(f"int({name}, 8)" for name in directive.indices)
        rank = directive.rank
        call = f"iteration{rank}({indices})" if rank <= 3 else f"iteration({rank}, [integer(8) :: {indices}])"
        inner_head = self.statement_at(innermost.first)
        self.marks.after(inner_head.last, inner_head.place, f"call weft_check_{call}")
        last = self.statement_at(outer.last)
        ends = [f"call weft_check_loop_end({construct})"]
        for clause in directive.clauses:
            if isinstance(clause, syntax.ShadowUse) and clause.kind == "start" and clause.group:
                group = self.marks.group(clause.group, sentinel.place)
                ends.append(f"call weft_check_shadow_start({construct}, {group})")
        self.marks.after(last.last, sentinel.place, *ends)

    def statement_at(self, at: int) -> Statement:
        """The statement with this index, which must have its lines for itself."""
        item = self.unit.items[at]
        assert isinstance(item, Statement)
        if not item.alone:
            raise DirectiveError(item.place, "a parallel loop shares its line with another statement; give it its own")
        return item

    def before_statement(self, statement: Statement, place: Position, *texts: str) -> None:
        """Put calls before a statement; its label goes to a CONTINUE before them, so that jumps meet them."""
        if statement.label:
            self.marks.marks.relabelled[statement.first] = statement.label
        self.marks.before(statement.first, place, *texts)

    def nest(self, at: int, sentinel: Sentinel, directive: syntax.Parallel) -> list[Loop]:
        """The loops of a parallel directive, outermost first."""
        found: list[Loop] = []
        here = at
        for name in directive.indices:
            loop = self.marks.loop_behind(here)
            following = self.marks.next_statement(here)
            if loop is None or not loop.variable:
                what = self.unit.items[following] if following is not None else None
                shown = f"line {what.place.line} begins none" if isinstance(what, Statement) else "none follows"
                raise DirectiveError(
                    sentinel.place, f"PARALLEL needs a DO loop over `{name}` behind it, and {shown}; put it before one"
                )
            if loop.variable != name:
                raise DirectiveError(
                    sentinel.place,
                    f"PARALLEL ({', '.join(directive.indices)}) stands before a loop over `{loop.variable}` where one "
                    f"over `{name}` is expected; name the loops from the outer one to the inner one",
                )
            if found and loop.last > found[-1].last:
                raise DirectiveError(sentinel.place, f"the loop over `{name}` is not inside of the one before it")
            found.append(loop)
            here = loop.first
        return found

    def must_be_left_at_its_end(self, sentinel: Sentinel, nest: Sequence[Loop]) -> None:
        """Complain about a statement that leaves a parallel loop, which no other iteration would know of."""
        first, last = nest[0].first, nest[0].last
        labels = {one.label for one in self.unit.statements(nest[0].first, nest[0].last) if one.label}
        for at in range(first + 1, last + 1):
            statement = self.unit.items[at]
            if not isinstance(statement, Statement):
                continue
            _, action = inner(statement.code)
            jump = re.match(r"goto(\d+)$", action)
            around = [loop for loop in self.marks.loops.values() if loop.first < at <= loop.last]
            exits = action == "exit" and max(around, key=lambda loop: loop.first).first in {one.first for one in nest}
            if action == "return" or exits or (jump and jump[1] not in labels):
                raise DirectiveError(
                    statement.place,
                    f"`{action}` leaves the loop that PARALLEL at line {sentinel.place.line} is for; "
                    "all its iterations must run: take PARALLEL or the jump out",
                )

    def loop_calls(self, construct: int, sentinel: Sentinel, directive: syntax.Parallel, loop: Loop) -> Iterator[str]:
        """What is said before a parallel loop."""
        for clause in directive.clauses:
            if isinstance(clause, syntax.ShadowUse) and clause.kind == "wait" and clause.group:
                yield f"call weft_check_shadow_wait({construct}, {self.marks.group(clause.group, sentinel.place)})"
        yield f"call weft_check_loop_begin({construct}, {directive.rank}, 0)"
        if directive.on:
            self.must_be_mapped(directive.on)
            yield self.mapped(ON, 0, directive.on)
        for name in self.loop_variables(loop):
            yield f"call weft_check_loop_index({name})"
        yield from self.clauses(construct, sentinel, directive.clauses)
        yield "call weft_check_loop_start()"

    def must_be_mapped(self, reference: Reference) -> None:
        """Complain where an array of ON has no distribution."""
        found = self.marks.program.owner(self.unit, reference.name)
        if found is None:
            raise DirectiveError(
                reference.place, f"`{reference.name}` in ON is declared nowhere; name a distributed array or a template"
            )
        if self.marks.mapping(reference.name) is None and not found[1].dummy:
            raise DirectiveError(
                reference.place,
                f"`{reference.name}` in ON has no distribution; add DISTRIBUTE or ALIGN for it, or name another array",
            )
        if reference.subscripts is not None:
            self.marks.fits(reference.name, len(reference.subscripts), reference.place)

    def loop_variables(self, loop: Loop) -> list[str]:
        """The variables of loops in a parallel loop that live in memory: their accesses are control, not work."""
        names = {
            inner.variable
            for inner in self.marks.loops.values()
            if loop.first <= inner.first and inner.last <= loop.last and inner.variable
        }
        # What a clause or a construct of this unit names lives in memory, too: the runtime is told its address.
        return sorted(name for name in names if name in self.named or self.escapes(name))

    def escapes(self, name: str) -> bool:
        """Whether a scalar lives in memory: it is shared, or passed to something."""
        found = self.marks.program.owner(self.unit, name)
        if found and (found[0] is not self.unit or found[1].static or found[1].dummy or found[1].shared):
            return True
        if "*save" in self.unit.symbols:
            return True
        word = re.compile(rf"[(,]{name}(?=[,)])|[(,]{name}$")
        for item in self.unit.items:
            if not isinstance(item, Statement) or DO.match(item.code):
                continue
            _, action = inner(item.code)
            if re.match(r"(call|print|read|write)\W?", action):
                if re.search(rf"\b{name}\b", action) or (action.startswith("call") and word.search(action)):
                    return True
            elif any(self.is_call(called) for called in re.findall(rf"([a-z]\w*)\((?:[^()]*,)?{name}[,)]", action)):
                return True
        return False

    def is_call(self, name: str) -> bool:
        """Whether `name(…)` may be a call of a function with arguments by address."""
        found = self.marks.program.owner(self.unit, name)
        return found is None or not (found[1].array or found[1].pointer)

    def mapped(self, what: int, group: int, reference: Reference) -> str:
        """An array with a map of the loop's indices."""
        if reference.subscripts is None:
            rank = self.marks.symbol(reference.name, reference.place)[1].rank or 1
            axis, coefficient, offset = [ALL] * rank, ["0"] * rank, ["0"] * rank
        else:
            axis, coefficient, offset = triples(reference.subscripts)
        number = self.marks.data(reference.name, reference.place)
        return (
            f"call weft_check_mapped({what}, {group}, {number}, {len(axis)}, {ints(axis)}, {longs(coefficient)}, "
            f"{longs(offset)}{self.marks.base(reference.name)})"
        )

    def clauses(self, construct: int, sentinel: Sentinel, clauses: Sequence[syntax.Clause]) -> Iterator[str]:
        """What the clauses of a loop or task region say."""
        for clause in clauses:
            match clause:
                case syntax.Private():
                    for reference in clause.names:
                        number = self.marks.data(reference.name, reference.place)
                        yield f"call weft_check_loop_private({number}, {reference.name})"
                case syntax.Consistent():
                    group = self.marks.group(clause.group, sentinel.place) if clause.group else 0
                    for reference in clause.items:
                        yield self.mapped(CONSISTENT, group, reference)
                case syntax.Reductions():
                    yield from self.reductions(clause, sentinel.place)
                case syntax.ShadowRenew():
                    for item in clause.items:
                        yield self.edges(RENEW, construct, 0, item)
                        array = item.array
                        yield from fortran_scattered.renewed(self.marks, array.name, item.widths, array.place)
                case syntax.ShadowUse(kind="compute"):
                    computed = [clause.array] if clause.array else self.computed(sentinel)
                    for item in computed:
                        yield self.edges(COMPUTE, construct, 0, item)
                case syntax.Across():
                    for dependence in clause.items:
                        yield self.edges(ACROSS, construct, 0, syntax.Renewal(dependence.array, dependence.widths))
                case syntax.Remote():
                    group = self.marks.group(clause.group, sentinel.place) if clause.group else 0
                    for reference in clause.items:
                        yield self.mapped(REMOTE, group, reference)
                case syntax.Tie():
                    for reference in clause.items:
                        yield self.mapped(TIE, 0, reference)

    def computed(self, sentinel: Sentinel) -> list[syntax.Renewal]:
        """The distributed arrays that the loop behind a directive writes: SHADOW_COMPUTE computes their edges too."""
        loop = self.marks.loop_behind(self.unit.items.index(sentinel))
        if loop is None:
            return []
        names = {name for one in self.unit.statements(loop.first, loop.last) for name in written(one)}
        arrays = [name for name in sorted(names) if self.marks.distributed(name)]
        return [syntax.Renewal(Reference(name, None, sentinel.place), None) for name in arrays]

    def reductions(self, clause: syntax.Reductions, place: Position) -> Iterator[str]:
        """`reduction(group: sum(s), maxloc(m, l))`."""
        for one in clause.items:
            name = one.variable.name
            location = f", location={one.location.name}" if one.location else ""
            number = self.marks.data(name, one.variable.place)
            yield f"call weft_check_loop_reduction({number}, {OPERATIONS[one.operator]}, {name}{location})"
        if clause.group:
            yield f"call weft_check_loop_reduction_group({self.marks.group(clause.group, place)})"

    def edges(self, what: int, construct: int, group: int, item: syntax.Renewal) -> str:
        """An array with widths for each dimension; none: the declared ones."""
        array = item.array
        widths = item.widths
        low, high = self.marks.widths(widths) if widths is not None else ([], [])
        if low:
            self.marks.fits(array.name, len(low), array.place)
        number = self.marks.data(array.name, array.place)
        return (
            f"call weft_check_edges({what}, {construct}, {group}, {number}, {int(item.corner)}, {len(low)}, "
            f"{longs(low)}, {longs(high)}{self.marks.base(array.name)})"
        )

    # --- regions --------------------------------------------------------------------------------------------------

    def region(self, sentinel: Sentinel, directive: syntax.Region) -> None:
        """`region in(a), out(b)` up to its end."""
        construct = self.marks.construct("region", sentinel)
        self.open.append(("region", construct, sentinel))
        calls = [f"call weft_check_region_begin({construct})"]
        for data in directive.data:
            for reference in data.items:
                calls.append(self.copies(REGION_DATA + DIRECTIONS[data.intent], construct, reference))
        self.here(sentinel, *calls, "call weft_check_region_start()")

    def copies(self, what: int, construct: int, reference: Reference) -> str:
        """A variable or a section of it, for copies between host and devices."""
        low: list[str] = []
        high: list[str] = []
        for d, subscript in enumerate(reference.subscripts or (), 1):
            first = f"lbound({reference.name}, {d})"
            last = f"ubound({reference.name}, {d})"
            if isinstance(subscript, syntax.Section):
                first = subscript.low.text if subscript.low else first
                last = subscript.high.text if subscript.high else last
            elif isinstance(subscript, syntax.Constant):
                first = last = subscript.value.text
            low.append(first)
            high.append(last)
        number = self.marks.data(reference.name, reference.place)
        return (
            f"call weft_check_copies({what}, {construct}, {number}, {len(low)}, {longs(low)}, {longs(high)}"
            f"{self.marks.base(reference.name)})"
        )

    def actual(self, sentinel: Sentinel, directive: syntax.Actual) -> None:
        """`actual(a)`, `get_actual(a)`."""
        what = GET_ACTUAL if directive.get else ACTUAL
        construct = self.marks.construct("get_actual" if directive.get else "actual", sentinel)
        if directive.items is None:
            self.here(sentinel, f"call weft_check_copies({what}, {construct}, 0, 0, [0_8], [0_8])")
        for reference in directive.items or ():
            self.here(sentinel, self.copies(what, construct, reference))

    def end(self, sentinel: Sentinel, directive: syntax.End) -> None:
        """The end of a region, a task region or a task."""
        if directive.kind not in ENDS:
            return
        if not self.open or self.open[-1][0] != directive.kind:
            name = directive.kind.upper()
            raise DirectiveError(sentinel.place, f"END {name} without a {name} before it; take it out")
        kind, construct, _ = self.open.pop()
        if ENDS[kind]:
            self.here(sentinel, f"call {ENDS[kind]}({construct})")

    # --- mappings at run time -------------------------------------------------------------------------------------

    def remap(self, sentinel: Sentinel, directive: syntax.Redistribute | syntax.Realign) -> None:
        """`redistribute`, `realign`."""
        kind = "redistribute" if isinstance(directive, syntax.Redistribute) else "realign"
        construct = self.marks.construct(kind, sentinel)
        for array in directive.arrays:
            if isinstance(directive, syntax.Redistribute):
                axes = directive.distribution.axes or ()
                self.here(sentinel, *fortran_scattered.owners(self.marks, array.name, axes, array.place))
                calls = self.marks.distribute(construct, array.name, directive.distribution, array.place, 0)
            else:
                calls = self.marks.align(construct, array.name, directive.alignment, array.place, 0)
            self.here(sentinel, *calls)

    def template_create(self, sentinel: Sentinel, directive: syntax.NewArray) -> None:
        """`template_create (t(n,m))`."""
        if directive.delete:
            return
        for entity in directive.items:
            mapping = self.marks.mapping(entity.name)
            if mapping is None or mapping.template is None:
                raise DirectiveError(entity.place, f"`{entity.name}` is not a template; declare it with TEMPLATE")
            self.here(sentinel, self.marks.template(entity.name, entity.sizes, entity.place))
            self.here(sentinel, *self.marks.mapping_calls(mapping))

    # --- groups ---------------------------------------------------------------------------------------------------

    def shadow_group(self, sentinel: Sentinel, directive: syntax.DefineGroup) -> None:
        """`shadow_group sa(a, b(corner))`."""
        construct = self.marks.construct("shadow_group", sentinel)
        group = self.marks.group(directive.group, sentinel.place)
        for item in directive.renewals:
            self.here(sentinel, self.edges(GROUP, construct, group, item))

    def use_group(self, sentinel: Sentinel, directive: syntax.UseGroup) -> None:
        """`shadow_start`, `reduction_wait`, `prefetch` and their like."""
        construct = self.marks.construct(f"{directive.kind}_{directive.step}", sentinel)
        group = self.marks.group(directive.group, sentinel.place)
        self.here(sentinel, f"call weft_check_{directive.kind}_{directive.step}({construct}, {group})")
        if (directive.kind, directive.step) == ("copy", "start"):
            self.open.append(("asynchronous", construct, sentinel))

    # --- single statements ----------------------------------------------------------------------------------------

    def remote_access(self, at: int, sentinel: Sentinel, directive: syntax.RemoteAccess) -> None:
        """`remote_access (a(1,:))` before a statement."""
        following = self.marks.next_statement(at)
        if following is None:
            raise DirectiveError(sentinel.place, "REMOTE_ACCESS has no statement behind it; put it before one")
        construct = self.marks.construct("remote_access", sentinel)
        calls = [f"call weft_check_remote_begin({construct})"]
        calls.extend(self.mapped(BEFORE_STATEMENT, 0, reference) for reference in directive.remote.items)
        self.here(sentinel, *calls)
        last = self.unit.items[block_end(self.unit, self.marks.loops, following)]
        self.marks.late.append((last.last, sentinel.place, f"call weft_check_remote_end({construct})"))

    def array_copy(self, at: int, sentinel: Sentinel) -> None:
        """`f90 a(:) = b(:)`: the copy behind it is done by the system."""
        following = self.marks.next_statement(at)
        if following is not None:
            statement = self.statement_at(following)
            self.here(sentinel, "call weft_check_io_begin()")
            for call in ("call weft_check_io_end()", *self.under_way(statement)):
                self.marks.late.append((statement.last, sentinel.place, call))

    def under_way(self, statement: Statement) -> Iterator[str]:
        """What a copy within ASYNCHRONOUS reads and writes until its ASYNCWAIT."""
        kind, construct, sentinel = self.open[-1] if self.open else ("", 0, None)
        found = assignment(statement.code)
        if kind != "asynchronous" or sentinel is None or found is None:
            return
        assert isinstance(sentinel.directive, syntax.UseGroup)
        group = self.marks.group(sentinel.directive.group, sentinel.place)
        name, rest, at = found
        for target, part in ((1, name + rest), (0, statement.code[at + 1 :])):
            if re.fullmatch(r"[a-z]\w*(?:\(.*\))?", part):
                yield f"call weft_check_copied({construct}, {group}, {target}, {part})"

    # --- tasks ----------------------------------------------------------------------------------------------------

    def task_region(self, sentinel: Sentinel, directive: syntax.TaskRegion) -> None:
        """`task_region mb, reduction(…)`."""
        self.must_be_tasks(directive.tasks, sentinel.place)
        construct = self.marks.construct("task_region", sentinel)
        self.open.append(("task_region", construct, sentinel))
        tasks = self.marks.tasks(directive.tasks, sentinel.place)
        self.here(
            sentinel,
            f"call weft_check_task_region_begin({construct}, {tasks})",
            *self.clauses(construct, sentinel, directive.clauses),
            "call weft_check_task_region_start()",
        )

    def must_be_tasks(self, name: str, place: Position) -> None:
        """Complain about a task array that is none."""
        if not self.marks.is_tasks(name):
            raise DirectiveError(place, f"`{name}` is not a task array; declare it with TASK {name.upper()}(n)")

    def on(self, sentinel: Sentinel, directive: syntax.On) -> None:
        """`on mb(1)` up to `end on`."""
        self.must_be_tasks(directive.task.name, directive.task.place)
        if not any(kind == "task_region" for kind, _, _ in self.open):
            raise DirectiveError(sentinel.place, "ON stands outside of a TASK_REGION; put TASK_REGION before it")
        construct = self.marks.construct("on", sentinel)
        self.open.append(("on", construct, sentinel))
        self.here(sentinel, f"call weft_check_task_begin({construct}, int({only_index(directive.task)}, 8))")

    def task_loop(self, sentinel: Sentinel, directive: syntax.Parallel, loop: Loop) -> None:
        """`parallel (i) on mb(i)`: each iteration is a task."""
        construct = self.marks.construct("on", sentinel, directive.indices)
        head, last = self.statement_at(loop.first), self.statement_at(loop.last)
        self.marks.parallel.pop()
        self.marks.after(
            head.last, head.place, f"call weft_check_task_begin({construct}, int({directive.indices[0]}, 8))"
        )
        self.before_end(last, sentinel.place, f"call weft_check_task_end({construct})")

    def before_end(self, last: Statement, place: Position, text: str) -> None:
        """Put a call at the end of a loop's body."""
        if last.label and last.code != "continue":
            raise DirectiveError(last.place, "a loop over tasks must end with END DO or CONTINUE")
        self.marks.before(last.first, place, text)

    def map(self, sentinel: Sentinel, directive: syntax.Map) -> None:
        """`map mb(1) onto p(1:2)`."""
        self.must_be_tasks(directive.task.name, directive.task.place)
        construct = self.marks.construct("map", sentinel)
        low, high = "0", "-1"
        subscripts = directive.onto.subscripts or ()
        if len(subscripts) == 1:
            one = subscripts[0]
            if isinstance(one, syntax.Section) and one.low and one.high:
                low, high = one.low.text, one.high.text
            elif isinstance(one, syntax.Constant):
                low = high = one.value.text
        tasks = self.marks.tasks(directive.task.name, directive.task.place)
        self.here(
            sentinel,
            f"call weft_check_task_map({construct}, {tasks}, int({only_index(directive.task)}, 8), "
            f"int({low}, 8), int({high}, 8))",
        )
