"""The directives of C-DVMH (`#pragma dvm …`), read into the syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, cast, get_args

from weft.dvm import syntax
from weft.dvm.directives.c_clauses import CClauseReader
from weft.dvm.syntax import (
    Constant,
    Directive,
    DirectiveError,
    Expression,
    Position,
    Reference,
    Whole,
)
from weft.dvm.tokens import C_WORDS, TokenCursor, tokenize

INTENTS: Final = get_args(syntax.Intent)


def read_c_directive(pieces: Iterable[tuple[Position, str]], old: bool = False) -> Directive:
    """Read one directive: what stands behind `#pragma dvm`, as texts with the places where they begin.

    `old`: groups (of shadow edges, reductions, remote accesses) and tasks are known, too; only the old form of C-DVM
    has them. Raises DirectiveError for a directive that the language does not know or that is malformed.
    """
    return CDirectiveReader(TokenCursor(tokenize(pieces, C_WORDS), folded=False)).directive(old)


class CDirectiveReader(CClauseReader):
    """Reads one directive from a cursor."""

    def directive(self, old: bool) -> Directive:
        """Read the directive."""
        self.old = old
        cursor = self.cursor
        word = cursor.name("a directive")
        reader = DIRECTIVES.get(word.text) or (OLD.get(word.text) if old else None)
        if reader is None:
            cursor.fail(f"`{word.text}` is not a directive of C-DVMH; it knows {', '.join(sorted(DIRECTIVES))}", word)
        found = reader(self)
        cursor.finish()
        return found

    # --- declarations -----------------------------------------------------------------------------------------------

    def attributes(self, known: tuple[str, ...]) -> tuple[syntax.Attribute, ...]:
        """Read the attributes of an array or a template."""
        cursor = self.cursor
        found: list[syntax.Attribute] = []
        while self.separated():
            word = cursor.name("an attribute")
            if word.text not in known:
                cursor.fail(f"`{word.text}` is not an attribute here; known are {', '.join(known)}", word)
            if word.text == "distribute":
                found.append(self.distribution())
            elif word.text == "align":
                cursor.expect("(")
                found.append(self.alignment())
                cursor.expect(")")
            elif word.text == "shadow":
                found.append(self.shadow())
            else:
                found.append(syntax.Trait("dynamic"))
        if sum(isinstance(a, syntax.Distribution | syntax.Alignment) for a in found) > 1:
            raise DirectiveError(self.place, "an array is either distributed or aligned, once")
        return tuple(found)

    def array(self) -> Directive:
        """`array …`."""
        attributes = self.attributes(("distribute", "align", "shadow", "dynamic"))
        return syntax.Declare(self.place, self.last_line, (syntax.Trait("array"), *attributes), ())

    def template(self) -> Directive:
        """`template[n]… …`."""
        entity = syntax.Entity("", self.sizes(), self.cursor.word.place)
        attributes = self.attributes(("distribute", "dynamic"))
        return syntax.Declare(self.place, self.last_line, (syntax.Trait("template"), *attributes), (entity,))

    def inherit(self) -> Directive:
        """`inherit(a, b)`."""
        entities = tuple(syntax.Entity(name.name, (), name.place) for name in self.references())
        return syntax.Declare(self.place, self.last_line, (syntax.Trait("inherit"),), entities)

    # --- constructs -------------------------------------------------------------------------------------------------

    def redistribute(self) -> Directive:
        """`redistribute(a[block][*])`."""
        self.cursor.expect("(")
        word = self.cursor.name("an array")
        distribution = self.distribution()
        self.cursor.expect(")")
        array = Reference(word.text, None, word.place)
        return syntax.Redistribute(self.place, self.last_line, (array,), distribution)

    def realign(self) -> Directive:
        """`realign(a[i] with b[i]) new_value`."""
        self.cursor.expect("(")
        word = self.cursor.name("an array")
        alignment = self.alignment()
        self.cursor.expect(")")
        new_value = self.cursor.accept("new_value")
        array = Reference(word.text, None, word.place)
        return syntax.Realign(self.place, self.last_line, (array,), alignment, new_value)

    def region(self) -> Directive:
        """`region in(a) out(b) targets(HOST) async`."""
        cursor = self.cursor
        data: list[syntax.Data] = []
        targets: tuple[str, ...] = ()
        asynchronous = False
        while self.separated():
            word = cursor.name("a clause")
            if word.text == "async":
                asynchronous = True
            elif word.text == "targets":
                cursor.expect("(")
                targets = cursor.listed(self.target)
            elif word.text in INTENTS:
                data.append(syntax.Data(cast(syntax.Intent, word.text), self.references()))
            else:
                cursor.fail(
                    f"`{word.text}` is not a clause of region; known are {', '.join(INTENTS)}, targets, async", word
                )
        return syntax.Region(self.place, self.last_line, tuple(data), targets, asynchronous)  # type: ignore[arg-type]

    def target(self) -> str:
        """Read HOST or CUDA."""
        word = self.cursor.name("HOST or CUDA")
        if word.text not in ("HOST", "CUDA"):
            self.cursor.fail(f"`{word.text}` is not a target; known are HOST and CUDA", word)
        return word.text.lower()

    def parallel(self) -> Directive:
        """`parallel([i][j] on a[i][j]) …`."""
        cursor = self.cursor
        cursor.expect("(")
        on = None
        if cursor.word.kind == "number":
            rank = int(cursor.next().text)
            indices: tuple[str, ...] = ()
        else:
            start = cursor.word
            dummies = self.dummies()
            indices = tuple(name for name in dummies if name is not None)
            rank = len(indices)
            if not rank or rank != len(dummies):
                cursor.fail("the indices of the loops are expected: parallel([i][j] on a[i][j])", start)
            cursor.dummies = indices
            if cursor.accept("on"):
                on = self.reference()
        cursor.expect(")")
        clauses = self.clauses("parallel")
        return syntax.Parallel(self.place, self.last_line, rank, indices, on, clauses)

    # --- the rest ---------------------------------------------------------------------------------------------------

    def actual(self) -> Directive:
        """`actual(a, b[1:2])`."""
        return syntax.Actual(self.place, self.last_line, False, self.references())

    def get_actual(self) -> Directive:
        """`get_actual(a)`."""
        return syntax.Actual(self.place, self.last_line, True, self.references())

    def remote_access(self) -> Directive:
        """`remote_access(a[1])` before a statement."""
        self.cursor.expect("(")
        found = self.remote()
        for item in found.items:
            for subscript in item.subscripts or ():
                if not isinstance(subscript, Constant | Whole):
                    raise DirectiveError(item.place, "a subscript of `remote_access` is one index or nothing")
        return syntax.RemoteAccess(self.place, self.last_line, found)

    def host_section(self) -> Directive:
        """`host_section`."""
        return syntax.Note(self.place, self.last_line, "host_section")

    def interval(self) -> Directive:
        """`interval n`."""
        arguments = () if self.cursor.ended else (self.cursor.expression(),)
        return syntax.Note(self.place, self.last_line, "interval", arguments)

    def endinterval(self) -> Directive:
        """`endinterval`."""
        return syntax.End(self.place, self.last_line, "interval")

    def exitinterval(self) -> Directive:
        """`exitinterval 1, 2`."""
        found = [self.cursor.expression()]
        while self.cursor.accept(","):
            found.append(self.cursor.expression())
        return syntax.Note(self.place, self.last_line, "exitinterval", tuple(found))

    def instantiations(self) -> Directive:
        """`instantiations set(T = int), …`: the types of a C++ template."""
        found: list[Expression] = []
        while self.separated():
            self.cursor.expect("set")
            self.cursor.expect("(")
            found.extend(self.cursor.listed(self.cursor.expression))
        return syntax.Note(self.place, self.last_line, "instantiations", tuple(found))

    def shadow_add(self) -> Directive:
        """`shadow_add(a[i with b[@i]] = "edge") include_to(c)`."""
        cursor = self.cursor
        cursor.expect("(")
        array = cursor.name("an array")
        derived: syntax.Derived | None = None
        axis = rank = 0
        while cursor.accept("["):
            if cursor.text != "]":
                if derived is not None:
                    cursor.fail("only one dimension can have an edge")
                axis, derived = rank, self.derived()
            rank += 1
            cursor.expect("]")
        if derived is None:
            cursor.fail("one dimension must say where its edge comes from")
        cursor.expect("=")
        edge = self.string()
        cursor.expect(")")
        include: tuple[Reference, ...] = ()
        if self.separated():
            cursor.expect("include_to")
            cursor.expect("(")
            include = cursor.listed(self.bare)
        reference = Reference(array.text, None, array.place)
        names = tuple(item.name for item in include)
        return syntax.ShadowAdd(self.place, self.last_line, reference, axis, derived, edge, names)

    def localize(self) -> Directive:
        """`localize(ref => target[:][])`."""
        cursor = self.cursor
        cursor.expect("(")
        array = cursor.name("an array").text
        if not cursor.accept("=>"):
            cursor.expect("=")
            cursor.expect(">")
        target = cursor.name("an array").text
        axis: int | None = None
        rank = 0
        while cursor.accept("["):
            if cursor.accept(":"):
                if axis is not None:
                    cursor.fail("only one dimension can be named by `:`")
                axis = rank
            rank += 1
            cursor.expect("]")
        cursor.expect(")")
        return syntax.Localize(self.place, self.last_line, array, target, axis)

    def unlocalize(self) -> Directive:
        """`unlocalize(ref)`."""
        self.cursor.expect("(")
        return syntax.Note(self.place, self.last_line, "unlocalize", self.cursor.listed(self.cursor.expression))

    def use_group(
        self, kind: Literal["shadow", "reduction", "remote"], step: Literal["start", "wait", "prefetch", "reset"]
    ) -> Directive:
        """`shadow_start group`, `reduction_wait group`, `prefetch group` and their like."""
        group = self.cursor.name("a group").text
        return syntax.UseGroup(self.place, self.last_line, kind, step, group)

    def shadow_group(self) -> Directive:
        """`create_shadow_group group(a[1:1], b(corner))`."""
        group = self.cursor.name("a group").text
        self.cursor.expect("(")
        return syntax.DefineGroup(
            self.place, self.last_line, "shadow", group, renewals=self.cursor.listed(self.renewal)
        )

    def copy(self) -> Directive:
        """`copy` before a loop that the system does at once."""
        return syntax.Note(self.place, self.last_line, "copy")

    def create_template(self) -> Directive:
        """`create_template t[n][m]`."""
        word = self.cursor.name("a template")
        entity = syntax.Entity(word.text, self.sizes(), word.place)
        return syntax.NewArray(self.place, self.last_line, False, (entity,))

    def tasks(self) -> Directive:
        """`task` before the declaration of a task array."""
        return syntax.Declare(self.place, self.last_line, (syntax.Trait("task"),), ())

    def task_region(self) -> Directive:
        """`task_region tasks reduction(sum(s))`."""
        tasks = self.cursor.name("a task array").text
        return syntax.TaskRegion(self.place, self.last_line, tasks, self.clauses("task_region"))

    def on(self) -> Directive:
        """`on tasks[1]`."""
        return syntax.On(self.place, self.last_line, self.task())

    def task(self) -> Reference:
        """Read `tasks[1]`."""
        found = self.reference()
        if len(found.subscripts or ()) != 1 or not isinstance((found.subscripts or ("",))[0], Constant):
            raise DirectiveError(found.place, f"one task of `{found.name}` is expected: {found.name}[0]")
        return found

    def map(self) -> Directive:
        """`map tasks[1] onto processors[0:3]`."""
        task = self.task()
        self.cursor.expect("onto")
        return syntax.Map(self.place, self.last_line, task, self.reference())

    def array_copy(self) -> Directive:
        """`array_copy(to = from)`."""
        self.cursor.expect("(")
        to = self.bare()
        self.cursor.expect("=")
        source = self.bare()
        self.cursor.expect(")")
        return syntax.ArrayCopy(self.place, self.last_line, to, source)


DIRECTIVES: Final[dict[str, Callable[[CDirectiveReader], Directive]]] = {
    "array": CDirectiveReader.array,
    "template": CDirectiveReader.template,
    "inherit": CDirectiveReader.inherit,
    "redistribute": CDirectiveReader.redistribute,
    "realign": CDirectiveReader.realign,
    "region": CDirectiveReader.region,
    "parallel": CDirectiveReader.parallel,
    "actual": CDirectiveReader.actual,
    "get_actual": CDirectiveReader.get_actual,
    "remote_access": CDirectiveReader.remote_access,
    "host_section": CDirectiveReader.host_section,
    "interval": CDirectiveReader.interval,
    "endinterval": CDirectiveReader.endinterval,
    "exitinterval": CDirectiveReader.exitinterval,
    "instantiations": CDirectiveReader.instantiations,
    "shadow_add": CDirectiveReader.shadow_add,
    "localize": CDirectiveReader.localize,
    "unlocalize": CDirectiveReader.unlocalize,
    "array_copy": CDirectiveReader.array_copy,
}

OLD: Final[dict[str, Callable[[CDirectiveReader], Directive]]] = {
    "create_shadow_group": CDirectiveReader.shadow_group,
    "shadow_start": lambda reader: reader.use_group("shadow", "start"),
    "shadow_wait": lambda reader: reader.use_group("shadow", "wait"),
    "reduction_start": lambda reader: reader.use_group("reduction", "start"),
    "reduction_wait": lambda reader: reader.use_group("reduction", "wait"),
    "prefetch": lambda reader: reader.use_group("remote", "prefetch"),
    "reset": lambda reader: reader.use_group("remote", "reset"),
    "copy": CDirectiveReader.copy,
    "create_template": CDirectiveReader.create_template,
    "task": CDirectiveReader.tasks,
    "task_region": CDirectiveReader.task_region,
    "on": CDirectiveReader.on,
    "map": CDirectiveReader.map,
}
