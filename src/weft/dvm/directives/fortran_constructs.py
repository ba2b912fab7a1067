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
    """Reads one directive behind its keyword."""

    def arrays(self) -> tuple[Reference, ...]:
        """Read the names behind `::`."""
        found = [self.reference()]
        while self.cursor.accept(","):
            found.append(self.reference())
        return tuple(found)

    def new_value(self) -> bool:
        """Read `, new_value` or `new_value`."""
        if self.cursor.text == "," and self.cursor.peek() == "new_value":
            self.cursor.next()
        return self.cursor.accept("new_value")

    def redistribute(self) -> Directive:
        """`redistribute a(block) onto p`, `redistribute (block) :: a, b`."""
        cursor = self.cursor
        if cursor.word.kind == "name":
            arrays: tuple[Reference, ...] = (self.bare(),)
            distribution = self.distribution()
            new_value = self.new_value()
        else:
            distribution = self.distribution()
            new_value = self.new_value()
            cursor.expect("::")
            arrays = self.arrays()
        return syntax.Redistribute(self.place, self.last_line, arrays, distribution, new_value)

    def realign(self) -> Directive:
        """`realign a(i,j) with b(i,j)`, `realign (i,j) with b(i,j) :: a`."""
        cursor = self.cursor
        if cursor.word.kind == "name" and cursor.text != "with":
            arrays: tuple[Reference, ...] = (self.bare(),)
            alignment = self.alignment()
            new_value = self.new_value()
        else:
            alignment = self.alignment() if cursor.text == "(" else self.aligned_alike()
            new_value = self.new_value()
            cursor.expect("::")
            arrays = self.arrays()
        return syntax.Realign(self.place, self.last_line, arrays, alignment, new_value)

    def aligned_alike(self) -> syntax.Alignment:
        """Read `with b`."""
        self.cursor.expect("with")
        return syntax.Alignment(None, self.reference())

    def parallel(self) -> Directive:
        """`parallel (i,j) on a(i,j), …`."""
        cursor = self.cursor
        cursor.expect("(")
        indices = cursor.listed(lambda: cursor.named("a loop's index"))
        cursor.dummies = indices
        on = self.reference() if cursor.accept("on") else None
        clauses = self.clauses(CLAUSES, "parallel")
        return syntax.Parallel(self.place, self.last_line, len(indices), indices, on, clauses)

    def region(self) -> Directive:
        """`region in(a), out(b), targets(host), async`."""
        cursor = self.cursor
        data: list[syntax.Data] = []
        targets: tuple[str, ...] = ()
        asynchronous = False
        while not cursor.ended:
            if cursor.accept(","):
                continue
            word = cursor.name("a clause")
            keyword = cursor.fold(word)
            if keyword == "async":
                asynchronous = True
            elif keyword == "targets":
                cursor.expect("(")
                targets = cursor.listed(self.target)
            elif keyword in INTENTS:
                data.append(syntax.Data(keyword, self.references()))  # type: ignore[arg-type]
            else:
                cursor.fail(
                    f"`{word.text}` is not a clause of region; known are {', '.join(INTENTS)}, targets, async", word
                )
        return syntax.Region(self.place, self.last_line, tuple(data), targets, asynchronous)  # type: ignore[arg-type]

    def target(self) -> str:
        """Read HOST or CUDA."""
        word = self.cursor.name("HOST or CUDA")
        if self.cursor.fold(word) not in ("host", "cuda"):
            self.cursor.fail(f"`{word.text}` is not a target; known are HOST and CUDA", word)
        return self.cursor.fold(word)

    def actual(self, get: bool) -> Directive:
        """`actual(a, b(1:2))`, `get_actual(a)`, either without a list for everything."""
        items: tuple[Reference, ...] | None = None
        if not self.cursor.accept("(", ")") and not self.cursor.ended:
            items = self.references()
        return syntax.Actual(self.place, self.last_line, get, items)

    def remote_access(self) -> Directive:
        """`remote_access (a(1,:))` before a statement."""
        return syntax.RemoteAccess(self.place, self.last_line, self.remote())

    def indirect_access(self) -> Directive:
        """`indirect_access (a(i))` before a statement."""
        return syntax.RemoteAccess(self.place, self.last_line, self.indirect())

    def shadow_group(self) -> Directive:
        """`shadow_group g(a, b(corner))`."""
        group = self.cursor.named("a group")
        return syntax.DefineGroup(self.place, self.last_line, "shadow", group, renewals=self.renewals())

    def use(self, kind: str, step: str) -> Directive:
        """`shadow_start g` and its like."""
        group = self.cursor.named("a group")
        if kind == "copy" and self.cursor.accept("("):  # one of an array of them
            group += f"({self.cursor.expression().text})"
            self.cursor.expect(")")
        return syntax.UseGroup(self.place, self.last_line, kind, step, group)  # type: ignore[arg-type]

    def task_region(self) -> Directive:
        """`task_region tasks, reduction(…)`."""
        tasks = self.cursor.named("a task array")
        clauses = self.clauses({key: CLAUSES[key] for key in ("reduction", "consistent", "private")}, "task_region")
        return syntax.TaskRegion(self.place, self.last_line, tasks, clauses)

    def on(self) -> Directive:
        """`on tasks(i), private(…)`."""
        task = self.reference()
        return syntax.On(self.place, self.last_line, task, self.clauses({"private": CLAUSES["private"]}, "on"))

    def map(self) -> Directive:
        """`map tasks(i) onto p(1:2)`, `map tasks(i) by w`."""
        task = self.reference()
        if not self.cursor.accept("by"):
            self.cursor.expect("onto")
        return syntax.Map(self.place, self.last_line, task, self.reference())

    def template_create(self, delete: bool) -> Directive:
        """`template_create(t(n,m))`, `template_delete(t)`."""
        self.cursor.expect("(")
        return syntax.NewArray(self.place, self.last_line, delete, self.cursor.listed(self.entity))

    def shadow_add(self) -> Directive:
        """`shadow_add (t((expressions) with b(@i), *) = "edge") include_to a, b`."""
        cursor = self.cursor
        cursor.expect("(")
        array = self.bare()
        cursor.expect("(")
        found: tuple[syntax.Derived | None, ...] = cursor.listed(self.shadow_axis)
        cursor.expect("=")
        edge = self.string()
        cursor.expect(")")
        include: list[str] = []
        if cursor.accept("include_to"):
            include = [item.name for item in self.arrays()]
        derived = [(axis, one) for axis, one in enumerate(found) if one is not None]
        if len(derived) != 1:
            raise DirectiveError(array.place, "one dimension must say where its edge comes from")
        axis, one = derived[0]
        return syntax.ShadowAdd(self.place, self.last_line, array, axis, one, edge, tuple(include))

    def shadow_axis(self) -> syntax.Derived | None:
        """Read one dimension of `shadow_add`."""
        return None if self.cursor.accept("*") else self.derived()

    def localize(self) -> Directive:
        """`localize (ref => target(:,*))`."""
        cursor = self.cursor
        cursor.expect("(")
        array = cursor.named("an array")
        cursor.expect("=>")
        target = cursor.named("an array")
        marks: tuple[bool, ...] = cursor.listed(self.marked) if cursor.accept("(") else ()
        cursor.expect(")")
        axis = marks.index(True) if True in marks else None
        return syntax.Localize(self.place, self.last_line, array, target, axis)

    def marked(self) -> bool:
        """Read `:` or `*`."""
        if self.cursor.accept(":"):
            return True
        self.cursor.expect("*")
        return False

    def f90(self) -> Directive:
        """`f90 a(:) = b(:)`."""
        to = self.copied()
        self.cursor.expect("=")
        return syntax.ArrayCopy(self.place, self.last_line, to, self.copied())

    def copied(self) -> Reference:
        """Read an array of a copy; which part of it the statement behind the directive says, too."""
        found = self.bare()
        if self.cursor.accept("("):
            self.cursor.until(frozenset())
            self.cursor.expect(")")
        return found


DIRECTIVES: Final[dict[str, Callable[[FortranConstructReader], Directive]]] = {
    "redistribute": FortranConstructReader.redistribute,
    "realign": FortranConstructReader.realign,
    "parallel": FortranConstructReader.parallel,
    "region": FortranConstructReader.region,
    "actual": lambda reader: reader.actual(False),
    "get_actual": lambda reader: reader.actual(True),
    "remote_access": FortranConstructReader.remote_access,
    "indirect_access": FortranConstructReader.indirect_access,
    "shadow_group": FortranConstructReader.shadow_group,
    "shadow_start": lambda reader: reader.use("shadow", "start"),
    "shadow_wait": lambda reader: reader.use("shadow", "wait"),
    "reduction_start": lambda reader: reader.use("reduction", "start"),
    "reduction_wait": lambda reader: reader.use("reduction", "wait"),
    "consistent_start": lambda reader: reader.use("consistent", "start"),
    "consistent_wait": lambda reader: reader.use("consistent", "wait"),
    "asynchronous": lambda reader: reader.use("copy", "start"),
    "asyncwait": lambda reader: reader.use("copy", "wait"),
    "prefetch": lambda reader: reader.use("remote", "prefetch"),
    "reset": lambda reader: reader.use("remote", "reset"),
    "task_region": FortranConstructReader.task_region,
    "on": FortranConstructReader.on,
    "map": FortranConstructReader.map,
    "template_create": lambda reader: reader.template_create(False),
    "template_delete": lambda reader: reader.template_create(True),
    "shadow_add": FortranConstructReader.shadow_add,
    "localize": FortranConstructReader.localize,
    "f90": FortranConstructReader.f90,
}
