"""The marks of executable directives of Fortran-DVM(H): parallel loops with their clauses, regions, tasks, groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from weft.dvm import fortran_scattered, syntax
from weft.dvm.fortran_calls import (
    ACTUAL,
    BEFORE_STATEMENT,
    DIRECTIONS,
    GET_ACTUAL,
    GROUP,
    REGION_DATA,
    find_block_end,
    long_array,
    render_only_subscript,
)
from weft.dvm.fortran_lines import FortranStatement, Sentinel
from weft.dvm.fortran_loops import LoopDirectives
from weft.dvm.fortran_text import split_assignment
from weft.dvm.syntax import DirectiveError, Position, Reference

ENDS: Final = {
    "region": "weft_check_region_end",
    "task_region": "weft_check_task_region_end",
    "on": "weft_check_task_end",
    "host_section": "weft_check_host_section_end",
    "asynchronous": "",
}


class DirectiveCalls(LoopDirectives):
    """The executable directives of one unit."""

    def instrument_directives(self) -> None:
        """Insert the runtime's calls for all directives of the unit. Raises DirectiveError for a region or task without
        an end.
        """
        for at, item in enumerate(self.unit.items):
            if isinstance(item, Sentinel) and item.directive is not None:
                self.instrument_directive(at, item, item.directive)
        if self.open:
            kind, _, sentinel = self.open[-1]
            raise DirectiveError(sentinel.place, f"this {kind.upper()} has no END {kind.upper()}; add it")

    def instrument_directive(self, item_index: int, sentinel: Sentinel, directive: syntax.Directive) -> None:
        """Insert the runtime's calls for one directive, which is the unit's item `item_index`."""
        match directive:
            case syntax.Parallel():
                self.instrument_parallel_loop(item_index, sentinel, directive)
            case syntax.Region():
                self.instrument_region(sentinel, directive)
            case syntax.End():
                self.instrument_end(sentinel, directive)
            case syntax.Actual():
                self.instrument_actual(sentinel, directive)
            case syntax.Redistribute() | syntax.Realign():
                self.instrument_remapping(sentinel, directive)
            case syntax.RemoteAccess():
                self.instrument_remote_access(item_index, sentinel, directive)
            case syntax.DefineGroup():
                self.instrument_shadow_group(sentinel, directive)
            case syntax.UseGroup():
                self.instrument_group_use(item_index, sentinel, directive)
            case syntax.TaskRegion():
                self.instrument_task_region(sentinel, directive)
            case syntax.On():
                self.instrument_task(sentinel, directive)
            case syntax.Map():
                self.instrument_task_mapping(sentinel, directive)
            case syntax.NewArray():
                self.instrument_template_creation(sentinel, directive)
            case syntax.ShadowAdd():
                self.insert_at_directive(
                    sentinel, *fortran_scattered.render_shadow_add(self.marks, sentinel, directive)
                )
            case syntax.Localize():
                self.insert_at_directive(sentinel, fortran_scattered.render_localize(self.marks, sentinel, directive))
            case syntax.ArrayCopy():
                self.instrument_array_copy(item_index, sentinel)
            case syntax.Note(keyword="hostsection" | "host_section"):
                construct = self.marks.find_or_add_construct_id("host_section", sentinel)
                self.open.append(("host_section", construct, sentinel))
                self.insert_at_directive(sentinel, f"call weft_check_host_section_begin({construct})")

    # --- regions ----------------------------------------------------------------------------------------------------

    def instrument_region(self, sentinel: Sentinel, directive: syntax.Region) -> None:
        """Insert the calls that begin `region in(a), out(b)` and name its data; its END is marked later."""
        construct = self.marks.find_or_add_construct_id("region", sentinel)
        self.open.append(("region", construct, sentinel))
        calls = [f"call weft_check_region_begin({construct})"]
        for data in directive.data:
            for reference in data.items:
                calls.append(self.render_transfer_report(REGION_DATA + DIRECTIONS[data.intent], construct, reference))
        self.insert_at_directive(sentinel, *calls, "call weft_check_region_start()")

    def render_transfer_report(self, call_kind: int, construct_id: int, reference: Reference) -> str:
        """Return a Fortran call that reports a copy of a variable, or of a section of it, between host and devices.
        `call_kind`: the kind of copy, a number of the runtime.
        """
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
        number = self.marks.find_data_id(reference.name, reference.place)
        return (
            f"call weft_check_copies({call_kind}, {construct_id}, {number}, {len(low)}, "
            f"{long_array(low)}, {long_array(high)}"
            f"{self.marks.address_argument(reference.name)})"
        )

    def instrument_actual(self, sentinel: Sentinel, directive: syntax.Actual) -> None:
        """Insert the calls for `actual(a)` and `get_actual(a)`."""
        what = GET_ACTUAL if directive.get else ACTUAL
        construct = self.marks.find_or_add_construct_id("get_actual" if directive.get else "actual", sentinel)
        if directive.items is None:
            self.insert_at_directive(sentinel, f"call weft_check_copies({what}, {construct}, 0, 0, [0_8], [0_8])")
        for reference in directive.items or ():
            self.insert_at_directive(sentinel, self.render_transfer_report(what, construct, reference))

    def instrument_end(self, sentinel: Sentinel, directive: syntax.End) -> None:
        """Insert the call that ends a region, a task region or a task. Raises DirectiveError if none is open."""
        if directive.kind not in ENDS:
            return
        if not self.open or self.open[-1][0] != directive.kind:
            name = directive.kind.upper()
            raise DirectiveError(sentinel.place, f"this END {name} has no {name} before it; remove it")
        kind, construct, _ = self.open.pop()
        if ENDS[kind]:
            self.insert_at_directive(sentinel, f"call {ENDS[kind]}({construct})")

    # --- mappings at run time ---------------------------------------------------------------------------------------

    def instrument_remapping(self, sentinel: Sentinel, directive: syntax.Redistribute | syntax.Realign) -> None:
        """Insert the calls for `redistribute` and `realign`."""
        kind = "redistribute" if isinstance(directive, syntax.Redistribute) else "realign"
        construct = self.marks.find_or_add_construct_id(kind, sentinel)
        for array in directive.arrays:
            if isinstance(directive, syntax.Redistribute):
                axes = directive.distribution.axes or ()
                self.insert_at_directive(
                    sentinel, *fortran_scattered.render_owner_calls(self.marks, array.name, axes, array.place)
                )
                calls = self.marks.render_distribution(construct, array.name, directive.distribution, array.place, 0)
            else:
                calls = self.marks.render_alignment(construct, array.name, directive.alignment, array.place, 0)
            self.insert_at_directive(sentinel, *calls)

    def instrument_template_creation(self, sentinel: Sentinel, directive: syntax.NewArray) -> None:
        """Insert the calls for `template_create (t(n,m))`."""
        if directive.delete:
            return
        for entity in directive.items:
            mapping = self.marks.find_mapping(entity.name)
            if mapping is None or mapping.template is None:
                raise DirectiveError(entity.place, f"`{entity.name}` is not a template; declare it with TEMPLATE")
            self.insert_at_directive(sentinel, self.marks.render_template(entity.name, entity.sizes, entity.place))
            self.insert_at_directive(sentinel, *self.marks.render_mapping(mapping))

    # --- groups -----------------------------------------------------------------------------------------------------

    def instrument_shadow_group(self, sentinel: Sentinel, directive: syntax.DefineGroup) -> None:
        """Insert the calls for `shadow_group sa(a, b(corner))`."""
        construct = self.marks.find_or_add_construct_id("shadow_group", sentinel)
        group = self.marks.find_group_id(directive.group, sentinel.place)
        for item in directive.renewals:
            self.insert_at_directive(sentinel, self.render_edges(GROUP, construct, group, item))

    def instrument_group_use(self, item_index: int, sentinel: Sentinel, directive: syntax.UseGroup) -> None:
        """Insert the calls for `shadow_start`, `reduction_wait`, `prefetch` and similar directives."""
        construct = self.marks.find_or_add_construct_id(f"{directive.kind}_{directive.step}", sentinel)
        group = self.marks.find_group_id(directive.group, sentinel.place)
        self.insert_at_directive(sentinel, f"call weft_check_{directive.kind}_{directive.step}({construct}, {group})")
        if (directive.kind, directive.step) == ("copy", "start"):
            self.open.append(("asynchronous", construct, sentinel))
            self.instrument_plain_copies(item_index)

    # --- single statements ------------------------------------------------------------------------------------------

    def instrument_remote_access(self, item_index: int, sentinel: Sentinel, directive: syntax.RemoteAccess) -> None:
        """Insert the calls for `remote_access (a(1,:))` before a statement."""
        following = self.marks.find_next_statement(item_index)
        if following is None:
            raise DirectiveError(sentinel.place, "REMOTE_ACCESS has no statement after it; put it before one")
        construct = self.marks.find_or_add_construct_id("remote_access", sentinel)
        # What the host is to read is fetched from the regions: REMOTE_ACCESS does that by itself.
        calls = [self.render_transfer_report(GET_ACTUAL, construct, reference) for reference in directive.remote.items]
        calls.append(f"call weft_check_remote_begin({construct})")
        calls.extend(self.render_mapped_array(BEFORE_STATEMENT, 0, reference) for reference in directive.remote.items)
        self.insert_at_directive(sentinel, *calls)
        last = self.unit.items[find_block_end(self.unit, self.marks.loops, following)]
        self.marks.late.append((last.last, sentinel.place, f"call weft_check_remote_end({construct})"))

    def instrument_plain_copies(self, item_index: int) -> None:
        """Insert calls around the assignments between ASYNCHRONOUS and its end that no F90 directive precedes. The DVM
        system carries these out as copies, too.
        """
        before: syntax.Directive | None = None
        for item in self.unit.items[item_index + 1 :]:
            if isinstance(item, Sentinel):
                before = item.directive
                if isinstance(before, syntax.End | syntax.UseGroup):
                    return
            elif not isinstance(before, syntax.ArrayCopy):
                self.instrument_copy(item, item.place)
            else:
                before = None

    def instrument_array_copy(self, item_index: int, sentinel: Sentinel) -> None:
        """Insert the calls around the assignment after a directive `f90 a(:) = b(:)`. The DVM system carries it out as
        a copy.
        """
        following = self.marks.find_next_statement(item_index)
        if following is not None:
            self.instrument_copy(self.statement_at(following), sentinel.place)

    def instrument_copy(self, statement: FortranStatement, position: Position) -> None:
        """Insert calls around an assignment that the DVM system carries out as a copy. Its accesses are then not
        attributed to any processor.
        """
        if split_assignment(statement.code) is None:
            return
        self.marks.before(statement.first, position, "call weft_check_io_begin()")
        for call in ("call weft_check_io_end()", *self.render_pending_copy(statement)):
            self.marks.late.append((statement.last, position, call))

    def render_pending_copy(self, statement: FortranStatement) -> Iterator[str]:
        """Yield the Fortran calls that report the arrays which an asynchronous copy reads and writes until ASYNCWAIT.
        Nothing if the assignment is not within ASYNCHRONOUS.
        """
        kind, construct, sentinel = self.open[-1] if self.open else ("", 0, None)
        found = split_assignment(statement.code)
        if kind != "asynchronous" or sentinel is None or found is None:
            return
        assert isinstance(sentinel.directive, syntax.UseGroup)
        group = self.marks.find_group_id(sentinel.directive.group, sentinel.place)
        name, rest, at = found
        for target, part in ((1, name + rest), (0, statement.code[at + 1 :])):
            if re.fullmatch(r"[a-z]\w*(?:\(.*\))?", part):
                yield f"call weft_check_copied({construct}, {group}, {target}, {part})"

    # --- tasks ------------------------------------------------------------------------------------------------------

    def instrument_task_region(self, sentinel: Sentinel, directive: syntax.TaskRegion) -> None:
        """Insert the calls for `task_region mb, reduction(…)`."""
        self.require_task_array(directive.tasks, sentinel.place)
        construct = self.marks.find_or_add_construct_id("task_region", sentinel)
        self.open.append(("task_region", construct, sentinel))
        tasks = self.marks.find_task_array_id(directive.tasks, sentinel.place)
        self.insert_at_directive(
            sentinel,
            f"call weft_check_task_region_begin({construct}, {tasks})",
            *self.render_clauses(construct, sentinel, directive.clauses),
            "call weft_check_task_region_start()",
        )

    def require_task_array(self, name: str, place: Position) -> None:
        """Raise DirectiveError if a name is not a task array."""
        if not self.marks.is_task_array(name):
            raise DirectiveError(place, f"`{name}` is not a task array; declare it with TASK {name.upper()}(n)")

    def instrument_task(self, sentinel: Sentinel, directive: syntax.On) -> None:
        """Insert the calls for `on mb(1)` up to `end on`."""
        self.require_task_array(directive.task.name, directive.task.place)
        if not any(kind == "task_region" for kind, _, _ in self.open):
            raise DirectiveError(sentinel.place, "ON is outside of a TASK_REGION; put TASK_REGION before it")
        construct = self.marks.find_or_add_construct_id("on", sentinel)
        self.open.append(("on", construct, sentinel))
        self.insert_at_directive(
            sentinel, f"call weft_check_task_begin({construct}, int({render_only_subscript(directive.task)}, 8))"
        )

    def instrument_task_mapping(self, sentinel: Sentinel, directive: syntax.Map) -> None:
        """Insert the calls for `map mb(1) onto p(1:2)`."""
        self.require_task_array(directive.task.name, directive.task.place)
        construct = self.marks.find_or_add_construct_id("map", sentinel)
        low, high = "0", "-1"
        subscripts = directive.onto.subscripts or ()
        if len(subscripts) == 1:
            one = subscripts[0]
            if isinstance(one, syntax.Section) and one.low and one.high:
                low, high = one.low.text, one.high.text
            elif isinstance(one, syntax.Constant):
                low = high = one.value.text
        tasks = self.marks.find_task_array_id(directive.task.name, directive.task.place)
        self.insert_at_directive(
            sentinel,
            f"call weft_check_task_map({construct}, {tasks}, int({render_only_subscript(directive.task)}, 8), "
            f"int({low}, 8), int({high}, 8))",
        )
