"""One C source being marked: its syntax tree, its directives with their statements, its names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NoReturn

from tree_sitter import Node

from weft.base.words import plural
from weft.dataparallel.source_map import CPLUSPLUS, SourceMap
from weft.dvm import c_calls, c_tree, c_uses, syntax
from weft.dvm.c_source import CInsertions, CSource
from weft.dvm.c_tree import Tree, Variable
from weft.dvm.syntax import Directive, DirectiveError, Position, Reference


@dataclass(slots=True)
class ProgramNames:
    """What the sources of a program share: numbers of external names, and what directives say of them."""

    texts: SourceMap
    names: dict[str, int] = field(default_factory=dict)
    spread: dict[str, list[syntax.Declare]] = field(default_factory=dict)
    """What the directives of all sources say of external names."""
    edges: dict[str, int] = field(default_factory=dict)
    """Numbers of named shadow edges."""


FIRST: Final = 60001
"""Priority of the constructors that name data."""


class SourceUnit:
    """One source being marked.

    `attached`: the statement after each directive, by the directive's offset. `parallels`: the parallel loops.
    """

    def __init__(self, source: CSource, shared: ProgramNames) -> None:
        self.source = source
        self.shared = shared
        self.tree: Tree = c_tree.parse_source(source.text, source.path.suffix in CPLUSPLUS)
        self.marks = CInsertions(source)
        for begin, end in self.tree.registers:
            # The address of a register variable cannot be taken; without the word it is the same program.
            source.text = source.text[:begin] + " " * (end - begin) + source.text[end:]
        self.attached: dict[int, Node | None] = {}
        self.parallels: list[tuple[int, int, syntax.Parallel, Node]] = []
        for begin, end, directive, _ in source.directives:
            statement = self.attached[begin] = self.tree.find_statement_after(end)
            if isinstance(directive, syntax.Parallel) and statement is not None:
                self.parallels.append((self.tree.begin(statement), self.tree.end(statement), directive, statement))
        self.setups = 0

    def fail(self, place: Position, what: str) -> NoReturn:
        """Raise DirectiveError with a position and what is wrong there."""
        raise DirectiveError(place, what)

    # --- names ----------------------------------------------------------------------------------------------------

    def data_id(self, variable: Variable) -> int:
        """Return the id of a variable in the source map. The first call for a variable adds it to the map; a name with
        external linkage has one id in all sources.
        """
        if variable.id:
            return variable.id
        shared = variable.outside and not variable.static
        if shared and variable.name in self.shared.names:
            variable.id = self.shared.names[variable.name]
            return variable.id
        what: Literal["variable", "array", "template", "tasks"] = "array" if variable.is_array else "variable"
        if c_calls.is_template(variable):
            what = "template"
        elif variable.has("task"):
            what = "tasks"
        place = self.source.position_of(variable.at)
        variable.id = self.shared.texts.add_variable(variable.name, place.file, place.line, what)
        if shared:
            self.shared.names[variable.name] = variable.id
        return variable.id

    def find_or_add_construct_id(self, kind: str, directive: Directive, text: str, indices: Sequence[str] = ()) -> int:
        """Return the id of a directive in the source map, which is added if it is new. `kind`: such as "region";
        `text`: the directive's text.
        """
        place = directive.place
        return self.shared.texts.add_construct(kind, place.file, place.line, place.column, text, indices)

    def resolve_variable(self, reference: Reference, offset: int) -> Variable:
        """Return the variable that a directive's reference means at an offset. Raises DirectiveError if the name is not
        declared.
        """
        found = self.tree.resolve(reference.name, offset)
        if found is None:
            what = f"`{reference.name}` is not declared here; declare it before the directive"
            if self.source.missing:
                what += f" (or with -I name the folder of {self.source.missing[0]}, which was not found)"
            self.fail(reference.place, what)
        return found

    def array_rank(self, variable: Variable) -> int:
        """Return the number of dimensions of an array or template, as its directives and its declaration show them."""
        for one in variable.declare:
            for attribute in one.attributes:
                if isinstance(attribute, syntax.Distribution) and attribute.axes:
                    return len(attribute.axes)
                if isinstance(attribute, syntax.Alignment) and attribute.dummies:
                    return len(attribute.dummies)
            if c_calls.is_template(variable) and one.entities:
                return len(one.entities[0].sizes)
        return variable.rank

    def resolve_distributed(self, reference: Reference, offset: int, clause_name: str) -> Variable:
        """Return the distributed array or template that a reference means. Raises DirectiveError if the name is not
        one, or has another number of dimensions than the reference.
        """
        variable = self.resolve_variable(reference, offset)
        if not variable.declare:
            self.fail(
                reference.place,
                f"`{reference.name}` in `{clause_name}` has no distribution; "
                "put `#pragma dvm array …` before its declaration",
            )
        given = len(reference.subscripts or ())
        rank = self.array_rank(variable)
        if given != rank and not (variable.named_type and given > rank):
            self.fail(
                reference.place, f"`{reference.name}` has {plural(rank, 'dimension')}; `{clause_name}` names {given}"
            )
        return variable

    def resolve_task(self, reference: Reference | None, offset: int) -> tuple[int, str] | None:
        """Return (id of the task array, C text of the task's index) for a reference to one task. None if there is no
        reference, or if it does not name a task array.
        """
        variable = self.tree.resolve(reference.name, offset) if reference is not None else None
        if reference is None or variable is None or not variable.has("task"):
            return None
        index = (reference.subscripts or (None,))[0]
        if not isinstance(index, syntax.Constant):
            self.fail(reference.place, f"one task of `{reference.name}` is expected: {reference.name}[0]")
        return self.data_id(variable), c_calls.int64(index.value)

    def find_task_array_id(self, reference: Reference, offset: int) -> int:
        """Return the id of the task array that a reference names. Raises DirectiveError if it names none."""
        variable = self.tree.resolve(reference.name, offset)
        if variable is None or not variable.has("task"):
            what = f"`{reference.name}` is not a task array; put DVM(TASK) before its declaration"
            self.fail(reference.place, what)
        return self.data_id(variable)

    def render_task_count(self, reference: Reference, offset: int) -> str:
        """Return a C call that reports how many tasks a task array has. "" if its declaration does not give
        the number.
        """
        number = self.find_task_array_id(reference, offset)
        variable = self.tree.resolve(reference.name, offset)
        sizes = variable.sizes if variable is not None else ()
        return c_calls.render_call("task_array", number, 0, sizes[0]) if sizes and sizes[0] else ""

    def find_variables_of_private_clauses(self, directive: syntax.Parallel, loop: Node) -> set[Variable]:
        """Return the variables that a parallel loop's `private` clauses name."""
        at = self.tree.begin(loop)
        names = [item.name for c in directive.clauses if isinstance(c, syntax.Private) for item in c.names]
        return {v for name in names if (v := self.tree.resolve(name, at)) is not None}

    def loop_variables(self, directive: syntax.Parallel, loop: Node) -> list[Variable | None]:
        """Return the index variables of a parallel loop's nest, the outermost first; None for a loop without one."""
        found: list[Variable | None] = []
        for one in c_uses.loop_nest(loop, directive.rank):
            name = c_uses.loop_variable_node(self.tree, one)
            found.append(self.tree.resolve(self.tree.source(name), self.tree.end(name)) if name is not None else None)
        return found

    def add_constructor(self, offset: int, priority: int, body: str) -> None:
        """Insert a C function that runs before main (GCC's attribute `constructor`), with the statements `body`.
        Functions with a lower `priority` run first.
        """
        self.setups += 1
        name = f"weft_check_setup_{self.setups}"
        attribute = f'__attribute__((constructor({priority}), no_sanitize("thread")))'
        self.marks.before(offset, f" {attribute} static void {name}(void) {{ {body} }}")
