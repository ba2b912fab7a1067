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
    """Return the directive in the text after `#pragma dvm`, which comes in pieces: (position of the first character,
    text).

    `old`: also accept groups (of shadow edges, reductions, remote accesses) and tasks, which only the old form of C-DVM
    has. Raises DirectiveError for a directive that is unknown or malformed.
    """
    return CDirectiveReader(TokenCursor(tokenize(pieces, C_WORDS), folded=False)).read_directive(old)


class CDirectiveReader(CClauseReader):
    """Reads one directive from a cursor."""

    def read_directive(self, old: bool) -> Directive:
        """Return the directive that the cursor's tokens form. Raises DirectiveError for an unknown directive, or if
        text is left after its end.
        """
        self.old = old
        cursor = self.cursor
        word = cursor.take_name("a directive")
        reader = DIRECTIVES.get(word.text) or (OLD.get(word.text) if old else None)
        if reader is None:
            cursor.fail(f"`{word.text}` is not a directive of C-DVMH; it knows {', '.join(sorted(DIRECTIVES))}", word)
        found = reader(self)
        cursor.finish()
        return found

    # --- declarations -----------------------------------------------------------------------------------------------

    def read_attributes(self, known_attributes: tuple[str, ...]) -> tuple[syntax.Attribute, ...]:
        """Read the attributes of an array or a template, such as `distribute[block] align(…) shadow[1:1]`. Raises
        DirectiveError for a word that is not among `known_attributes`.
        """
        cursor = self.cursor
        found: list[syntax.Attribute] = []
        while self.accept_separator():
            word = cursor.take_name("an attribute")
            if word.text not in known_attributes:
                cursor.fail(
                    f"`{word.text}` is not an attribute here; the attributes are {', '.join(known_attributes)}", word
                )
            if word.text == "distribute":
                found.append(self.read_distribution())
            elif word.text == "align":
                cursor.expect("(")
                found.append(self.read_alignment())
                cursor.expect(")")
            elif word.text == "shadow":
                found.append(self.read_shadow())
            else:
                found.append(syntax.Trait("dynamic"))
        if sum(isinstance(a, syntax.Distribution | syntax.Alignment) for a in found) > 1:
            raise DirectiveError(self.place, "an array is either distributed or aligned, once")
        return tuple(found)

    def read_array(self) -> Directive:
        """Read `array …`."""
        attributes = self.read_attributes(("distribute", "align", "shadow", "dynamic"))
        return syntax.Declare(self.place, self.last_line, (syntax.Trait("array"), *attributes), ())

    def read_template(self) -> Directive:
        """Read a template's sizes and attributes, `template[n]… …`."""
        entity = syntax.Entity("", self.read_sizes(), self.cursor.word.place)
        attributes = self.read_attributes(("distribute", "dynamic"))
        return syntax.Declare(self.place, self.last_line, (syntax.Trait("template"), *attributes), (entity,))

    def read_inherit(self) -> Directive:
        """Read `inherit(a, b)`."""
        entities = tuple(syntax.Entity(name.name, (), name.place) for name in self.read_references())
        return syntax.Declare(self.place, self.last_line, (syntax.Trait("inherit"),), entities)

    # --- constructs -------------------------------------------------------------------------------------------------

    def read_redistribute(self) -> Directive:
        """Read `redistribute(a[block][*])`."""
        self.cursor.expect("(")
        word = self.cursor.take_name("an array")
        distribution = self.read_distribution()
        self.cursor.expect(")")
        array = Reference(word.text, None, word.place)
        return syntax.Redistribute(self.place, self.last_line, (array,), distribution)

    def read_realign(self) -> Directive:
        """Read `realign(a[i] with b[i]) new_value`."""
        self.cursor.expect("(")
        word = self.cursor.take_name("an array")
        alignment = self.read_alignment()
        self.cursor.expect(")")
        new_value = self.cursor.accept("new_value")
        array = Reference(word.text, None, word.place)
        return syntax.Realign(self.place, self.last_line, (array,), alignment, new_value)

    def read_region(self) -> Directive:
        """Read `region in(a) out(b) targets(HOST) async`."""
        cursor = self.cursor
        data: list[syntax.Data] = []
        targets: tuple[str, ...] = ()
        asynchronous = False
        while self.accept_separator():
            word = cursor.take_name("a clause")
            if word.text == "async":
                asynchronous = True
            elif word.text == "targets":
                cursor.expect("(")
                targets = cursor.read_list(self.read_target)
            elif word.text in INTENTS:
                data.append(syntax.Data(cast(syntax.Intent, word.text), self.read_references()))
            else:
                cursor.fail(
                    f"`{word.text}` is not a clause of region; its clauses are {', '.join(INTENTS)}, targets, async",
                    word,
                )
        return syntax.Region(self.place, self.last_line, tuple(data), targets, asynchronous)  # type: ignore[arg-type]

    def read_target(self) -> str:
        """Read a target of a region, HOST or CUDA, and return it in lower case."""
        word = self.cursor.take_name("HOST or CUDA")
        if word.text not in ("HOST", "CUDA"):
            self.cursor.fail(f"`{word.text}` is not a target; the targets are HOST and CUDA", word)
        return word.text.lower()

    def read_parallel(self) -> Directive:
        """Read `parallel([i][j] on a[i][j]) …`."""
        cursor = self.cursor
        cursor.expect("(")
        on = None
        if cursor.word.kind == "number":
            rank = int(cursor.take().text)
            indices: tuple[str, ...] = ()
        else:
            start = cursor.word
            dummies = self.read_dummies()
            indices = tuple(name for name in dummies if name is not None)
            rank = len(indices)
            if not rank or rank != len(dummies):
                cursor.fail("the indices of the loops are expected: parallel([i][j] on a[i][j])", start)
            cursor.dummies = indices
            if cursor.accept("on"):
                on = self.read_reference()
        cursor.expect(")")
        clauses = self.read_clauses("parallel")
        return syntax.Parallel(self.place, self.last_line, rank, indices, on, clauses)

    # --- the rest ---------------------------------------------------------------------------------------------------

    def read_actual(self) -> Directive:
        """Read `actual(a, b[1:2])`."""
        return syntax.Actual(self.place, self.last_line, False, self.read_references())

    def read_get_actual(self) -> Directive:
        """Read `get_actual(a)`."""
        return syntax.Actual(self.place, self.last_line, True, self.read_references())

    def read_remote_access(self) -> Directive:
        """Read `remote_access(a[1])` before a statement."""
        self.cursor.expect("(")
        found = self.read_remote()
        for item in found.items:
            for subscript in item.subscripts or ():
                if not isinstance(subscript, Constant | Whole):
                    raise DirectiveError(item.place, "a subscript of `remote_access` is one index or nothing")
        return syntax.RemoteAccess(self.place, self.last_line, found)

    def read_host_section(self) -> Directive:
        """Read `host_section`."""
        return syntax.Note(self.place, self.last_line, "host_section")

    def read_interval(self) -> Directive:
        """Read `interval n`."""
        arguments = () if self.cursor.ended else (self.cursor.read_expression(),)
        return syntax.Note(self.place, self.last_line, "interval", arguments)

    def read_endinterval(self) -> Directive:
        """Read `endinterval`."""
        return syntax.End(self.place, self.last_line, "interval")

    def read_exitinterval(self) -> Directive:
        """Read `exitinterval 1, 2`, which has no meaning for the data."""
        found = [self.cursor.read_expression()]
        while self.cursor.accept(","):
            found.append(self.cursor.read_expression())
        return syntax.Note(self.place, self.last_line, "exitinterval", tuple(found))

    def read_instantiations(self) -> Directive:
        """Read `instantiations set(T = int), …`: the types of a C++ template."""
        found: list[Expression] = []
        while self.accept_separator():
            self.cursor.expect("set")
            self.cursor.expect("(")
            found.extend(self.cursor.read_list(self.cursor.read_expression))
        return syntax.Note(self.place, self.last_line, "instantiations", tuple(found))

    def read_shadow_add(self) -> Directive:
        """Read `shadow_add(a[i with b[@i]] = "edge") include_to(c)`."""
        cursor = self.cursor
        cursor.expect("(")
        array = cursor.take_name("an array")
        derived: syntax.Derived | None = None
        axis = rank = 0
        while cursor.accept("["):
            if cursor.text != "]":
                if derived is not None:
                    cursor.fail("only one dimension can have an edge")
                axis, derived = rank, self.read_derived()
            rank += 1
            cursor.expect("]")
        if derived is None:
            cursor.fail("one dimension must say where its edge comes from")
        cursor.expect("=")
        edge = self.read_string()
        cursor.expect(")")
        include: tuple[Reference, ...] = ()
        if self.accept_separator():
            cursor.expect("include_to")
            cursor.expect("(")
            include = cursor.read_list(self.read_bare)
        reference = Reference(array.text, None, array.place)
        names = tuple(item.name for item in include)
        return syntax.ShadowAdd(self.place, self.last_line, reference, axis, derived, edge, names)

    def read_localize(self) -> Directive:
        """Read `localize(ref => target[:][])`."""
        cursor = self.cursor
        cursor.expect("(")
        array = cursor.take_name("an array").text
        if not cursor.accept("=>"):
            cursor.expect("=")
            cursor.expect(">")
        target = cursor.take_name("an array").text
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

    def read_unlocalize(self) -> Directive:
        """Read `unlocalize(ref)`."""
        self.cursor.expect("(")
        return syntax.Note(self.place, self.last_line, "unlocalize", self.cursor.read_list(self.cursor.read_expression))

    def read_group_use(
        self, kind: Literal["shadow", "reduction", "remote"], step: Literal["start", "wait", "prefetch", "reset"]
    ) -> Directive:
        """Read a directive that starts, awaits or resets a group, such as `shadow_start group`, `reduction_wait group`
        or `prefetch group`. `kind` and `step` come from its keyword.
        """
        group = self.cursor.take_name("a group").text
        return syntax.UseGroup(self.place, self.last_line, kind, step, group)

    def read_shadow_group(self) -> Directive:
        """Read `create_shadow_group group(a[1:1], b(corner))`."""
        group = self.cursor.take_name("a group").text
        self.cursor.expect("(")
        return syntax.DefineGroup(
            self.place, self.last_line, "shadow", group, renewals=self.cursor.read_list(self.read_renewal)
        )

    def read_copy(self) -> Directive:
        """Read `copy` before a loop that the system does at once."""
        return syntax.Note(self.place, self.last_line, "copy")

    def read_create_template(self) -> Directive:
        """Read `create_template t[n][m]`."""
        word = self.cursor.take_name("a template")
        entity = syntax.Entity(word.text, self.read_sizes(), word.place)
        return syntax.NewArray(self.place, self.last_line, False, (entity,))

    def read_tasks(self) -> Directive:
        """Read `task` before the declaration of a task array."""
        return syntax.Declare(self.place, self.last_line, (syntax.Trait("task"),), ())

    def read_task_region(self) -> Directive:
        """Read `task_region tasks reduction(sum(s))`."""
        tasks = self.cursor.take_name("a task array").text
        return syntax.TaskRegion(self.place, self.last_line, tasks, self.read_clauses("task_region"))

    def read_on(self) -> Directive:
        """Read `on tasks[1]`."""
        return syntax.On(self.place, self.last_line, self.read_task())

    def read_task(self) -> Reference:
        """Read a reference to one task, such as `tasks[1]`. Raises DirectiveError unless it has exactly one subscript,
        a constant.
        """
        found = self.read_reference()
        if len(found.subscripts or ()) != 1 or not isinstance((found.subscripts or ("",))[0], Constant):
            raise DirectiveError(found.place, f"one task of `{found.name}` is expected: {found.name}[0]")
        return found

    def read_map(self) -> Directive:
        """Read `map tasks[1] onto processors[0:3]`."""
        task = self.read_task()
        self.cursor.expect("onto")
        return syntax.Map(self.place, self.last_line, task, self.read_reference())

    def read_array_copy(self) -> Directive:
        """Read `array_copy(to = from)`."""
        self.cursor.expect("(")
        to = self.read_bare()
        self.cursor.expect("=")
        source = self.read_bare()
        self.cursor.expect(")")
        return syntax.ArrayCopy(self.place, self.last_line, to, source)


DIRECTIVES: Final[dict[str, Callable[[CDirectiveReader], Directive]]] = {
    "array": CDirectiveReader.read_array,
    "template": CDirectiveReader.read_template,
    "inherit": CDirectiveReader.read_inherit,
    "redistribute": CDirectiveReader.read_redistribute,
    "realign": CDirectiveReader.read_realign,
    "region": CDirectiveReader.read_region,
    "parallel": CDirectiveReader.read_parallel,
    "actual": CDirectiveReader.read_actual,
    "get_actual": CDirectiveReader.read_get_actual,
    "remote_access": CDirectiveReader.read_remote_access,
    "host_section": CDirectiveReader.read_host_section,
    "interval": CDirectiveReader.read_interval,
    "endinterval": CDirectiveReader.read_endinterval,
    "exitinterval": CDirectiveReader.read_exitinterval,
    "instantiations": CDirectiveReader.read_instantiations,
    "shadow_add": CDirectiveReader.read_shadow_add,
    "localize": CDirectiveReader.read_localize,
    "unlocalize": CDirectiveReader.read_unlocalize,
    "array_copy": CDirectiveReader.read_array_copy,
}

OLD: Final[dict[str, Callable[[CDirectiveReader], Directive]]] = {
    "create_shadow_group": CDirectiveReader.read_shadow_group,
    "shadow_start": lambda reader: reader.read_group_use("shadow", "start"),
    "shadow_wait": lambda reader: reader.read_group_use("shadow", "wait"),
    "reduction_start": lambda reader: reader.read_group_use("reduction", "start"),
    "reduction_wait": lambda reader: reader.read_group_use("reduction", "wait"),
    "prefetch": lambda reader: reader.read_group_use("remote", "prefetch"),
    "reset": lambda reader: reader.read_group_use("remote", "reset"),
    "copy": CDirectiveReader.read_copy,
    "create_template": CDirectiveReader.read_create_template,
    "task": CDirectiveReader.read_tasks,
    "task_region": CDirectiveReader.read_task_region,
    "on": CDirectiveReader.read_on,
    "map": CDirectiveReader.read_map,
}
