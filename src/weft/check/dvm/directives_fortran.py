"""The directives of Fortran-DVM(H) (`CDVM$`, `!DVM$`), read into the syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, cast, get_args

from weft.check.dvm import syntax
from weft.check.dvm.syntax import (
    Directive,
    DirectiveError,
    Expression,
    Position,
    Reference,
    Section,
    Subscript,
    Whole,
    Width,
)
from weft.check.dvm.tokens import FORTRAN_WORDS, Cursor, Reader, words

REDUCTIONS: Final = {
    name: name for name in ("sum", "product", "max", "min", "and", "or", "eqv", "neqv", "maxloc", "minloc")
}
INTENTS: Final = get_args(syntax.Intent)
AXES: Final[dict[str, syntax.AxisKind]] = {
    "block": "block",
    "gen_block": "genblock",
    "genblock": "genblock",
    "wgt_block": "wgtblock",
    "wgtblock": "wgtblock",
    "mult_block": "multblock",
    "multblock": "multblock",
    "indirect": "indirect",
    "derived": "derived",
}
TRAITS: Final[dict[str, syntax.TraitKind]] = {
    "template": "template",
    "dynamic": "dynamic",
    "inherit": "inherit",
    "processors": "processors",
    "task": "task",
    "heap": "heap",
    "common": "common",
    "dimension": "dimension",
    "pointer": "pointer",
    "consistent": "consistent",
    "asyncid": "asyncid",
    "reduction_group": "reduction_group",
    "remote_group": "remote_group",
    "indirect_group": "indirect_group",
    "consistent_group": "consistent_group",
}
TYPES: Final = ("integer", "real", "double", "precision", "complex", "logical", "character")
ENDS: Final[dict[str, syntax.EndKind]] = {
    "region": "region",
    "task_region": "task_region",
    "on": "on",
    "interval": "interval",
    "debug": "debug",
    "asynchronous": "asynchronous",
    "checksection": "check_section",
    "hostsection": "host_section",
    "host_section": "host_section",
}


def read(pieces: Iterable[tuple[Position, str]]) -> Directive:
    """Read one directive: what stands behind its sentinel and those of its continuation lines, each with its place.

    Raises DirectiveError for one that the language does not know or that is malformed.
    """
    return _Reader(Cursor(words(pieces, FORTRAN_WORDS), folded=True)).directive()


class _Reader(Reader):
    """Reads one directive from a cursor."""

    def directive(self) -> Directive:
        """Read the directive."""
        cursor = self.cursor
        word = cursor.word
        keyword = cursor.text
        if keyword in TYPES or keyword in TRAITS or keyword in ("distribute", "align", "shadow"):
            found = self.declaration()
        elif keyword == "end" or (keyword.startswith("end") and keyword[3:] in ENDS):
            found = self.end()
        elif keyword in NOTES:
            found = self.note()
        elif keyword in DIRECTIVES:
            cursor.next()
            found = DIRECTIVES[keyword](self)
        else:
            cursor.fail(f"`{word.text}` is not a directive of Fortran-DVMH", word)
        cursor.finish()
        return found

    # --- parts ----------------------------------------------------------------------------------------------------

    def section(self) -> Section:
        """Read `high` or `low:high`."""
        found = self.cursor.subscript(whole=("*", ":"))
        if isinstance(found, syntax.Constant):
            return Section(None, found.value)
        return found if isinstance(found, Section) else Section(None, None)

    def subscript(self) -> Subscript:
        """Read one subscript."""
        return self.cursor.subscript(whole=("*", ":"))

    def reference(self) -> Reference:
        """Read a name and its subscripts."""
        word = self.cursor.name("a variable")
        subscripts = self.cursor.listed(self.subscript) if self.cursor.accept("(") else None
        return Reference(self.cursor.fold(word), subscripts, word.place)

    def bare(self) -> Reference:
        """Read a name without subscripts."""
        word = self.cursor.name("a variable")
        return Reference(self.cursor.fold(word), None, word.place)

    def references(self) -> tuple[Reference, ...]:
        """Read `(a, b(1:2), …)`."""
        self.cursor.expect("(")
        return self.cursor.listed(self.reference)

    def entity(self) -> syntax.Entity:
        """Read a name with its sizes."""
        word = self.cursor.name()
        sizes = self.cursor.listed(self.section) if self.cursor.accept("(") else ()
        return syntax.Entity(self.cursor.fold(word), sizes, word.place)

    def entities(self) -> tuple[syntax.Entity, ...]:
        """Read names with sizes up to the end."""
        found = [self.entity()]
        while self.cursor.accept(","):
            found.append(self.entity())
        return tuple(found)

    def dummy(self) -> str | None:
        """Read one dummy of an alignment; a `:` is one too, called ":" and its number."""
        if self.cursor.accept(":"):
            self.colons += 1
            return f":{self.colons}"
        return None if self.cursor.accept("*") else self.cursor.named("a dummy")

    def alignment(self) -> syntax.Alignment:
        """Read `(i,j) with target(…)`; the k-th `:` of the dummies goes with the k-th one of the target."""
        cursor = self.cursor
        self.colons = 0
        cursor.expect("(")
        dummies = cursor.listed(self.dummy)
        cursor.expect("with")
        cursor.dummies = dummies
        word = cursor.name("a variable")
        self.colons = 0
        subscripts = cursor.listed(self.aligned) if cursor.accept("(") else None
        return syntax.Alignment(dummies, Reference(cursor.fold(word), subscripts, word.place))

    def aligned(self) -> Subscript:
        """Read one subscript of an alignment's target."""
        cursor = self.cursor
        place = cursor.word.place
        if cursor.text != ":" or cursor.peek() not in (",", ")"):
            return self.subscript()
        self.colons += 1
        name = f":{self.colons}"
        if name not in cursor.dummies:
            cursor.fail("this `:` has no `:` among the dummies; write `*` for every index")
        cursor.next()
        one, zero = Expression("1", (), place), Expression("0", (), place)
        return syntax.Affine(cursor.dummies.index(name), one, zero)

    def edge(self) -> Width | syntax.NamedEdges:
        """Read the edges of one dimension: widths, or names as `:("name", …)`."""
        if self.cursor.accept(":"):
            self.cursor.expect("(")
            return syntax.NamedEdges(self.cursor.listed(self.string))
        if self.cursor.word.kind == "string":
            return syntax.NamedEdges((self.string(),))
        return self.width()

    def distribution(self) -> syntax.Distribution:
        """Read `(block,*) onto p`; `*` alone takes what the caller gave."""
        self.cursor.accept("*")
        axes = self.cursor.listed(self.axis) if self.cursor.accept("(") else None
        onto = self.reference() if self.cursor.accept("onto") else None
        return syntax.Distribution(axes, onto)

    def axis(self) -> syntax.Axis:
        """Read how one dimension is dealt out."""
        cursor = self.cursor
        if cursor.accept("*"):
            return syntax.Axis("*")
        word = cursor.name("a distribution")
        kind = AXES.get(cursor.fold(word))
        if kind is None:
            cursor.fail(f"`{word.text}` is not a distribution", word)
        if kind == "block":
            if cursor.accept("("):
                cursor.listed(self.keyed)
            return syntax.Axis("block")
        cursor.expect("(")
        if kind == "derived":
            found = syntax.Axis("derived", derived=self.derived())
        elif kind == "wgtblock":
            weights = cursor.expression()
            cursor.expect(",")
            found = syntax.Axis(kind, weights, cursor.expression())
        else:
            found = syntax.Axis(kind, cursor.expression())
        cursor.expect(")")
        return found

    def keyed(self) -> Expression:
        """Read `shadow_width = n`."""
        self.cursor.name()
        self.cursor.expect("=")
        return self.cursor.expression()

    def derived(self) -> syntax.Derived:
        """Read `(expression, low:high, …) with target(@i + "edge", …)`."""
        cursor = self.cursor
        cursor.expect("(")
        found = cursor.listed(self.derived_item)
        cursor.expect("with")
        target = cursor.named("an array")
        subscripts: tuple[Expression | Whole | str, ...] = ()
        self.edges: list[str] = []
        if cursor.accept("("):
            subscripts = cursor.listed(self.derived_subscript)
        return syntax.Derived(found, target, subscripts, tuple(self.edges))

    def derived_item(self) -> Expression | Section:
        """Read one expression or section of `derived`."""
        low = self.cursor.expression(":")
        return Section(low, self.cursor.expression()) if self.cursor.accept(":") else low

    def derived_subscript(self) -> Expression | Whole | str:
        """Read one subscript of the target of `derived`."""
        if self.cursor.accept("@"):
            dummy = self.cursor.named("a dummy")
            while self.cursor.accept("+"):
                self.edges.append(self.string())
            return dummy
        return Whole() if self.cursor.accept("*") else self.cursor.expression()

    # --- declarations ---------------------------------------------------------------------------------------------

    def declaration(self) -> Directive:
        """Read `keyword name…` or `attribute, attribute :: name…`."""
        cursor = self.cursor
        attributes: list[syntax.Attribute] = []
        entities: tuple[syntax.Entity, ...] = ()
        while True:
            word = cursor.word
            keyword = cursor.text
            if keyword not in TYPES and keyword not in TRAITS and keyword not in ("distribute", "align", "shadow"):
                cursor.fail(f"`{word.text}` is not an attribute", word)
            cursor.next()
            if cursor.word.kind == "name" and keyword not in TYPES and cursor.text not in ("with", "onto"):
                attribute, entities = self.old_form(keyword)
                attributes.append(attribute)
                break
            attributes.extend(self.attribute(keyword))
            if cursor.accept("::"):
                entities = self.entities()
                break
            if not cursor.accept(","):
                cursor.fail("`::` and names, or another attribute, are expected")
        return syntax.Declare(self.place, self.last_line, tuple(attributes), entities)

    def attribute(self, keyword: str) -> tuple[syntax.Attribute, ...]:
        """Read one attribute behind its keyword."""
        cursor = self.cursor
        if keyword in TYPES:
            while cursor.text in TYPES:
                cursor.next()
            if cursor.accept("*"):
                cursor.next()
            return ()
        if keyword == "distribute":
            return (self.distribution(),)
        if keyword == "align":
            if cursor.accept("with"):
                return (syntax.Alignment(None, self.reference()),)
            return (self.alignment() if cursor.text == "(" else syntax.Alignment(None, None),)
        if keyword == "shadow":
            cursor.expect("(")
            return (syntax.Shadow(cursor.listed(self.edge)),)
        sizes = cursor.listed(self.section) if cursor.accept("(") else ()
        return (syntax.Trait(TRAITS[keyword], sizes),)

    def old_form(self, keyword: str) -> tuple[syntax.Attribute, tuple[syntax.Entity, ...]]:
        """Read `keyword name(…), …`."""
        cursor = self.cursor
        if keyword in TRAITS:
            return syntax.Trait(TRAITS[keyword]), self.entities()
        word = cursor.name()
        entity = syntax.Entity(cursor.fold(word), (), word.place)
        if keyword == "distribute":
            return self.distribution(), (entity,)
        if keyword == "align":
            return self.alignment(), (entity,)
        cursor.expect("(")
        return syntax.Shadow(cursor.listed(self.edge)), (entity,)

    # --- clauses --------------------------------------------------------------------------------------------------

    def clauses(self, known: dict[str, Callable[[_Reader], syntax.Clause]], of: str) -> tuple[syntax.Clause, ...]:
        """Read the clauses up to the end."""
        cursor = self.cursor
        found: list[syntax.Clause] = []
        while not cursor.ended:
            while cursor.accept(","):
                pass
            word = cursor.name("a clause")
            reader = known.get(cursor.fold(word))
            if reader is None:
                cursor.fail(f"`{word.text}` is not a clause of {of}; known are {', '.join(sorted(known))}", word)
            found.append(reader(self))
            if cursor.ended:
                break
        return tuple(found)

    def private(self) -> syntax.Clause:
        """`private(a, b)` and `new(a, b)`."""
        return syntax.Private(self.references())

    def reduction(self) -> syntax.Clause:
        """`reduction(sum(s), …)` and `reduction(group: sum(s), …)`."""
        self.cursor.expect("(")
        group = self.group()
        return syntax.Reductions(self.cursor.listed(self.one_reduction), group)

    def group(self) -> str | None:
        """Read `group:`, if it stands there."""
        if self.cursor.word.kind != "name" or self.cursor.peek() != ":":
            return None
        found = self.cursor.named()
        self.cursor.expect(":")
        return found

    def one_reduction(self) -> syntax.Reduction:
        """Read `sum(s)`."""
        cursor = self.cursor
        word = cursor.name("a reduction")
        kind = REDUCTIONS.get(cursor.fold(word))
        if kind is None:
            cursor.fail(f"`{word.text}` is not a reduction; known are {', '.join(REDUCTIONS)}", word)
        cursor.expect("(")
        variable = self.reference()
        location = size = None
        if kind in ("maxloc", "minloc"):
            cursor.expect(",")
            location = self.reference()
            if cursor.accept(","):
                size = cursor.expression()
        cursor.expect(")")
        return syntax.Reduction(cast(syntax.ReductionKind, kind), variable, location, size)

    def shadow_renew(self) -> syntax.Clause:
        """`shadow_renew(a(1:1,1:1)(corner), b)`."""
        return syntax.ShadowRenew(self.renewals())

    def renewals(self) -> tuple[syntax.Renewal, ...]:
        """Read `(a, b(corner), c(1:1)(corner))`."""
        self.cursor.expect("(")
        return self.cursor.listed(self.renewal)

    def renewal(self) -> syntax.Renewal:
        """Read `a(1:1)(corner)`."""
        cursor = self.cursor
        array = self.bare()
        widths = None
        corner = cursor.accept("(", "corner", ")")
        if not corner and cursor.accept("("):
            widths = cursor.listed(self.edge)
            corner = cursor.accept("(", "corner", ")")
        return syntax.Renewal(array, widths, corner)

    def shadow_use(self, kind: str) -> syntax.Clause:
        """`shadow_start group`, `shadow_wait group`."""
        return syntax.ShadowUse("start" if kind == "start" else "wait", self.cursor.named("a group"))

    def shadow_compute(self) -> syntax.Clause:
        """`shadow_compute` and `shadow_compute(a(1:1))`."""
        array = None
        if self.cursor.accept("("):
            array = self.renewal()
            self.cursor.expect(")")
        return syntax.ShadowUse("compute", None, array)

    def across(self) -> syntax.Clause:
        """`across(a(1:1), …)` and `across(in: a(1:1))(out: b)`."""
        found: list[syntax.Dependence] = []
        self.way = "inout"
        self.cursor.expect("(")
        while True:
            for way in ("in", "out"):
                if self.cursor.accept(way, ":"):
                    self.way = way
            found.extend(self.cursor.listed(self.dependence))
            if not self.cursor.accept("("):
                return syntax.Across(tuple(found))

    def dependence(self) -> syntax.Dependence:
        """Read `a(1:1,0:0)` and, passing over them, its sections."""
        cursor = self.cursor
        array = self.bare()
        widths = cursor.listed(self.width) if cursor.accept("(") else None
        if widths and cursor.text == "(" and cursor.peek() in ("section", "low", "high"):
            cursor.next()
            cursor.until(frozenset())
            cursor.expect(")")
        return syntax.Dependence(array, widths, self.way)  # type: ignore[arg-type]

    def remote(self) -> syntax.Remote:
        """Read `(a(i,:), b)` and `(group: a(i,:))`."""
        self.cursor.expect("(")
        group = self.group()
        return syntax.Remote(self.cursor.listed(self.reference), group)

    def indirect(self) -> syntax.Remote:
        """Read what `indirect_access` has."""
        found = self.remote()
        return syntax.Remote(found.items, found.group, indirect=True)

    def tie(self) -> syntax.Clause:
        """`tie(a(i,-j))`."""
        return syntax.Tie(self.references())

    def consistent(self) -> syntax.Clause:
        """`consistent(a)` and `consistent(group: a(i))`."""
        found = self.remote()
        return syntax.Consistent(found.items, found.group)

    def stage(self) -> syntax.Clause:
        """`stage(n)`."""
        self.cursor.expect("(")
        depth = self.cursor.expression()
        self.cursor.expect(")")
        return syntax.Stage(depth)

    def cuda_block(self) -> syntax.Clause:
        """`cuda_block(32,8)`."""
        self.cursor.expect("(")
        return syntax.CudaBlock(self.cursor.listed(self.cursor.expression))

    # --- constructs -----------------------------------------------------------------------------------------------

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

    # --- ends and notes -------------------------------------------------------------------------------------------

    def end(self) -> Directive:
        """Read `end region`, `endregion` and the like; a debug's number is passed over."""
        cursor = self.cursor
        word = cursor.next()
        keyword = cursor.fold(word)
        kind = ENDS.get(keyword[3:] if keyword != "end" else cursor.named("what ends"))
        if kind is None:
            cursor.fail(f"nothing that Fortran-DVMH knows ends so; known are {', '.join(ENDS)}", word)
        if kind == "debug" and cursor.word.kind == "number":
            cursor.next()
        return syntax.End(self.place, self.last_line, kind)

    def note(self) -> Directive:
        """Read a directive that says nothing of the data: all that follows is its argument."""
        cursor = self.cursor
        keyword = cursor.named()
        arguments: list[Expression] = []
        while not cursor.ended:
            taken = cursor.until(frozenset((",",)))
            if taken:
                arguments.append(cursor.expressed(taken))
            if not cursor.ended and not cursor.accept(","):
                cursor.fail(f"`{cursor.word.text}` closes nothing")
        return syntax.Note(self.place, self.last_line, keyword, tuple(arguments))


NOTES: Final = (
    "barrier",
    "check",
    "checksection",
    "cp_create",
    "cp_load",
    "cp_save",
    "cp_wait",
    "debug",
    "exit",
    "exitinterval",
    "hostsection",
    "host_section",
    "independent",
    "interval",
    "io_mode",
    "new_value",
    "own",
    "routine",
    "trace",
    "traceoff",
    "traceon",
)

DIRECTIVES: Final[dict[str, Callable[[_Reader], Directive]]] = {
    "redistribute": _Reader.redistribute,
    "realign": _Reader.realign,
    "parallel": _Reader.parallel,
    "region": _Reader.region,
    "actual": lambda reader: reader.actual(False),
    "get_actual": lambda reader: reader.actual(True),
    "remote_access": _Reader.remote_access,
    "indirect_access": _Reader.indirect_access,
    "shadow_group": _Reader.shadow_group,
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
    "task_region": _Reader.task_region,
    "on": _Reader.on,
    "map": _Reader.map,
    "template_create": lambda reader: reader.template_create(False),
    "template_delete": lambda reader: reader.template_create(True),
    "shadow_add": _Reader.shadow_add,
    "localize": _Reader.localize,
    "f90": _Reader.f90,
}

CLAUSES: Final[dict[str, Callable[[_Reader], syntax.Clause]]] = {
    "private": _Reader.private,
    "new": _Reader.private,
    "firstprivate": _Reader.private,
    "reduction": _Reader.reduction,
    "shadow_renew": _Reader.shadow_renew,
    "shadow_start": lambda reader: reader.shadow_use("start"),
    "shadow_wait": lambda reader: reader.shadow_use("wait"),
    "shadow_compute": _Reader.shadow_compute,
    "across": _Reader.across,
    "remote_access": _Reader.remote,
    "indirect_access": _Reader.indirect,
    "tie": _Reader.tie,
    "consistent": _Reader.consistent,
    "stage": _Reader.stage,
    "cuda_block": _Reader.cuda_block,
}
