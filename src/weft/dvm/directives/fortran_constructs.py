"""Directives of Fortran-DVM(H) that do something: loops, regions, groups, tasks, copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, get_args

from weft.dvm import syntax
from weft.dvm.directives.fortran_clauses import CLAUSES, FortranClauseReader
from weft.dvm.syntax import (
    Directive,
    DirectiveError,
    Reference,
)

INTENTS: Final = get_args(syntax.Intent)


class FortranConstructReader(FortranClauseReader):
    """Reads one directive after its keyword."""

    def read_arrays(self) -> tuple[Reference, ...]:
        """Read a list of arrays with or without subscripts, such as the `a, b(1)` after `::`."""
        found = [self.read_reference()]
        while self.cursor.accept(","):
            found.append(self.read_reference())
        return tuple(found)

    def read_new_value(self) -> bool:
        """Pass `, new_value` or `new_value` and return whether it is there."""
        if self.cursor.text == "," and self.cursor.peek() == "new_value":
            self.cursor.take()
        return self.cursor.accept("new_value")

    def read_redistribute(self) -> Directive:
        """Read `redistribute a(block) onto p`, `redistribute (block) :: a, b`."""
        cursor = self.cursor
        if cursor.word.kind == "name":
            arrays: tuple[Reference, ...] = (self.read_bare(),)
            distribution = self.read_distribution()
            new_value = self.read_new_value()
        else:
            distribution = self.read_distribution()
            new_value = self.read_new_value()
            cursor.expect("::")
            arrays = self.read_arrays()
        return syntax.Redistribute(self.place, self.last_line, arrays, distribution, new_value)

    def read_realign(self) -> Directive:
        """Read `realign a(i,j) with b(i,j)`, `realign (i,j) with b(i,j) :: a`."""
        cursor = self.cursor
        if cursor.word.kind == "name" and cursor.text != "with":
            arrays: tuple[Reference, ...] = (self.read_bare(),)
            alignment = self.read_alignment()
            new_value = self.read_new_value()
        else:
            alignment = self.read_alignment() if cursor.text == "(" else self.read_aligned_alike()
            new_value = self.read_new_value()
            cursor.expect("::")
            arrays = self.read_arrays()
        return syntax.Realign(self.place, self.last_line, arrays, alignment, new_value)

    def read_aligned_alike(self) -> syntax.Alignment:
        """Read `with b`."""
        self.cursor.expect("with")
        return syntax.Alignment(None, self.read_reference())

    def read_parallel(self) -> Directive:
        """Read `parallel (i,j) on a(i,j), …`."""
        cursor = self.cursor
        cursor.expect("(")
        indices = cursor.read_list(lambda: cursor.take_name_text("a loop's index"))
        cursor.dummies = indices
        on = self.read_reference() if cursor.accept("on") else None
        clauses = self.read_clauses(CLAUSES, "parallel")
        return syntax.Parallel(self.place, self.last_line, len(indices), indices, on, clauses)

    def read_region(self) -> Directive:
        """Read `region in(a), out(b), targets(host), async`."""
        cursor = self.cursor
        data: list[syntax.Data] = []
        targets: tuple[str, ...] = ()
        asynchronous = False
        while not cursor.ended:
            if cursor.accept(","):
                continue
            word = cursor.take_name("a clause")
            keyword = cursor.fold(word)
            if keyword == "async":
                asynchronous = True
            elif keyword == "targets":
                cursor.expect("(")
                targets = cursor.read_list(self.read_target)
            elif keyword in INTENTS:
                data.append(syntax.Data(keyword, self.read_references()))  # type: ignore[arg-type]
            else:
                cursor.fail(
                    f"`{word.text}` is not a clause of region; its clauses are {', '.join(INTENTS)}, targets, async",
                    word,
                )
        return syntax.Region(self.place, self.last_line, tuple(data), targets, asynchronous)  # type: ignore[arg-type]

    def read_target(self) -> str:
        """Read a target of a region, HOST or CUDA, and return it."""
        word = self.cursor.take_name("HOST or CUDA")
        if self.cursor.fold(word) not in ("host", "cuda"):
            self.cursor.fail(f"`{word.text}` is not a target; the targets are HOST and CUDA", word)
        return self.cursor.fold(word)

    def read_actual(self, get: bool) -> Directive:
        """Read `actual(a, b(1:2))` or `get_actual(a)`. Without a list the directive means all variables. `get`: it is
        `get_actual`.
        """
        items: tuple[Reference, ...] | None = None
        if not self.cursor.accept("(", ")") and not self.cursor.ended:
            items = self.read_references()
        return syntax.Actual(self.place, self.last_line, get, items)

    def read_remote_access(self) -> Directive:
        """Read `remote_access (a(1,:))` before a statement."""
        return syntax.RemoteAccess(self.place, self.last_line, self.read_remote())

    def read_indirect_access(self) -> Directive:
        """Read `indirect_access (a(i))` before a statement."""
        return syntax.RemoteAccess(self.place, self.last_line, self.read_indirect())

    def read_shadow_group(self) -> Directive:
        """Read `shadow_group g(a, b(corner))`."""
        group = self.cursor.take_name_text("a group")
        return syntax.DefineGroup(self.place, self.last_line, "shadow", group, renewals=self.read_renewals())

    def read_group_use(self, group_kind: str, step: str) -> Directive:
        """Read the group's name in a directive such as `shadow_start g` or `asyncwait g(1)`. `group_kind` and `step`
        come from the directive's keyword.
        """
        group = self.cursor.take_name_text("a group")
        if group_kind == "copy" and self.cursor.accept("("):  # one of an array of them
            group += f"({self.cursor.read_expression().text})"
            self.cursor.expect(")")
        return syntax.UseGroup(self.place, self.last_line, group_kind, step, group)  # type: ignore[arg-type]

    def read_task_region(self) -> Directive:
        """Read `task_region tasks, reduction(…)`."""
        tasks = self.cursor.take_name_text("a task array")
        clauses = self.read_clauses(
            {key: CLAUSES[key] for key in ("reduction", "consistent", "private")}, "task_region"
        )
        return syntax.TaskRegion(self.place, self.last_line, tasks, clauses)

    def read_on(self) -> Directive:
        """Read `on tasks(i), private(…)`."""
        task = self.read_reference()
        return syntax.On(self.place, self.last_line, task, self.read_clauses({"private": CLAUSES["private"]}, "on"))

    def read_map(self) -> Directive:
        """Read `map tasks(i) onto p(1:2)`, `map tasks(i) by w`."""
        task = self.read_reference()
        if not self.cursor.accept("by"):
            self.cursor.expect("onto")
        return syntax.Map(self.place, self.last_line, task, self.read_reference())

    def read_template_create(self, delete: bool) -> Directive:
        """Read `template_create(t(n,m))`, `template_delete(t)`."""
        self.cursor.expect("(")
        return syntax.NewArray(self.place, self.last_line, delete, self.cursor.read_list(self.read_entity))

    def read_shadow_add(self) -> Directive:
        """Read `shadow_add (t((expressions) with b(@i), *) = "edge") include_to a, b`."""
        cursor = self.cursor
        cursor.expect("(")
        array = self.read_bare()
        cursor.expect("(")
        found: tuple[syntax.Derived | None, ...] = cursor.read_list(self.read_shadow_axis)
        cursor.expect("=")
        edge = self.read_string()
        cursor.expect(")")
        include: list[str] = []
        if cursor.accept("include_to"):
            include = [item.name for item in self.read_arrays()]
        derived = [(axis, one) for axis, one in enumerate(found) if one is not None]
        if len(derived) != 1:
            raise DirectiveError(array.place, "one dimension must say where its edge comes from")
        axis, one = derived[0]
        return syntax.ShadowAdd(self.place, self.last_line, array, axis, one, edge, tuple(include))

    def read_shadow_axis(self) -> syntax.Derived | None:
        """Read one dimension of `shadow_add`."""
        return None if self.cursor.accept("*") else self.read_derived()

    def read_localize(self) -> Directive:
        """Read `localize (ref => target(:,*))`."""
        cursor = self.cursor
        cursor.expect("(")
        array = cursor.take_name_text("an array")
        cursor.expect("=>")
        target = cursor.take_name_text("an array")
        marks: tuple[bool, ...] = cursor.read_list(self.read_localized_mark) if cursor.accept("(") else ()
        cursor.expect(")")
        axis = marks.index(True) if True in marks else None
        return syntax.Localize(self.place, self.last_line, array, target, axis)

    def read_localized_mark(self) -> bool:
        """Read the mark of one dimension in `localize`. Return whether indices of the dimension become local ones: True
        for `:`, False for `*`.
        """
        if self.cursor.accept(":"):
            return True
        self.cursor.expect("*")
        return False

    def read_f90(self) -> Directive:
        """Read `f90 a(:) = b(:)`, a copy between arrays."""
        to = self.read_copied_array()
        self.cursor.expect("=")
        return syntax.ArrayCopy(self.place, self.last_line, to, self.read_copied_array())

    def read_copied_array(self) -> Reference:
        """Read an array of a copy, and return it without its subscripts. They are ignored because the statement after
        the directive repeats them.
        """
        found = self.read_bare()
        if self.cursor.accept("("):
            self.cursor.take_until(frozenset())
            self.cursor.expect(")")
        return found


DIRECTIVES: Final[dict[str, Callable[[FortranConstructReader], Directive]]] = {
    "redistribute": FortranConstructReader.read_redistribute,
    "realign": FortranConstructReader.read_realign,
    "parallel": FortranConstructReader.read_parallel,
    "region": FortranConstructReader.read_region,
    "actual": lambda reader: reader.read_actual(False),
    "get_actual": lambda reader: reader.read_actual(True),
    "remote_access": FortranConstructReader.read_remote_access,
    "indirect_access": FortranConstructReader.read_indirect_access,
    "shadow_group": FortranConstructReader.read_shadow_group,
    "shadow_start": lambda reader: reader.read_group_use("shadow", "start"),
    "shadow_wait": lambda reader: reader.read_group_use("shadow", "wait"),
    "reduction_start": lambda reader: reader.read_group_use("reduction", "start"),
    "reduction_wait": lambda reader: reader.read_group_use("reduction", "wait"),
    "consistent_start": lambda reader: reader.read_group_use("consistent", "start"),
    "consistent_wait": lambda reader: reader.read_group_use("consistent", "wait"),
    "asynchronous": lambda reader: reader.read_group_use("copy", "start"),
    "asyncwait": lambda reader: reader.read_group_use("copy", "wait"),
    "prefetch": lambda reader: reader.read_group_use("remote", "prefetch"),
    "reset": lambda reader: reader.read_group_use("remote", "reset"),
    "task_region": FortranConstructReader.read_task_region,
    "on": FortranConstructReader.read_on,
    "map": FortranConstructReader.read_map,
    "template_create": lambda reader: reader.read_template_create(False),
    "template_delete": lambda reader: reader.read_template_create(True),
    "shadow_add": FortranConstructReader.read_shadow_add,
    "localize": FortranConstructReader.read_localize,
    "f90": FortranConstructReader.read_f90,
}
