"""Mark the arrays and templates of a C source: each is named, distributed and aligned where its lifetime begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tree_sitter import Node

from weft.base.words import plural
from weft.dvm import c_calls, c_scattered, c_tree, syntax
from weft.dvm.c_calls import data_address, data_bytes, long_array, render_call
from weft.dvm.c_tree import Variable
from weft.dvm.c_unit import FIRST, SourceUnit

ALIGNED: Final = 60100
"""Priority of constructors that align, after all that name data; after it the depth of the alignment."""


def have_distribution(declares: Sequence[syntax.Declare]) -> bool:
    """Return whether directives say how an array is distributed or aligned. A later directive may have to say it."""
    said = [attribute for one in declares for attribute in one.attributes]
    return any(isinstance(one, syntax.Alignment) or (isinstance(one, syntax.Distribution) and one.axes) for one in said)


class ArrayMarker:
    """Marks the declarations of arrays and templates of one source."""

    def __init__(self, unit: SourceUnit) -> None:
        self.unit = unit
        self.source, self.tree, self.marks, self.shared = unit.source, unit.tree, unit.marks, unit.shared
        self.blocks: dict[str, int] = {}

    @property
    def declaring_directives(self) -> list[tuple[syntax.Declare, Node | None, str]]:
        """Return the directives that declare arrays or templates, as triples: the directive, the statement after it
        (None if there is none), the directive's text.
        """
        return [
            (directive, self.unit.attached[begin], text)
            for begin, _, directive, text in self.source.directives
            if isinstance(directive, syntax.Declare)
        ]

    def read_declarations(self) -> None:
        """Attach to each variable of this source the directives that declare it. If a file-scope variable is declared
        several times, its directives apply to every one of these declarations.
        """
        for directive, statement, _ in self.declaring_directives:
            self.apply_declaration(directive, statement)
        for many in self.tree.variables.values():
            # A name may be declared again, without its directive: the definition of what a header has `extern`.
            outside = [variable for variable in many if variable.outside]
            said = next((variable.declare for variable in outside if variable.declare), [])
            for variable in outside:
                variable.declare = variable.declare or said
                if said and not variable.static:
                    self.shared.spread.setdefault(variable.name, said)
                    if have_distribution(said) and not have_distribution(self.shared.spread[variable.name]):
                        self.shared.spread[variable.name] = said

    def apply_external_declarations(self) -> None:
        """Attach directives to this source's variables that other sources declare too. The directives come from the
        source that gives them; a variable that has a distribution here is left as it is.
        """
        for name, many in self.tree.variables.items():
            said = self.shared.spread.get(name)
            for variable in many:
                if variable.outside and not variable.static and said and not have_distribution(variable.declare):
                    own = [one for one in variable.declare if one not in said]
                    variable.declare = [*said, *own]

    def instrument_declarations(self) -> None:
        """Insert the calls that register arrays and templates with the runtime, where they are declared or
        allocated.
        """
        for directive, statement, text in self.declaring_directives:
            self.instrument_declaration(directive, statement, text)
        self.instrument_allocations()

    def apply_declaration(self, directive: syntax.Declare, statement: Node | None) -> None:
        """Attach a directive to the variables that it declares. Raises DirectiveError if a variable has another number
        of dimensions.
        """
        variables = self.find_declared_variables(directive, statement)
        for variable in variables:
            variable.declare.append(directive)
            for attribute in directive.attributes:
                axes: Sequence[object] | None = None
                if isinstance(attribute, syntax.Distribution):
                    axes = attribute.axes
                elif isinstance(attribute, syntax.Alignment):
                    axes = attribute.dummies
                if axes is None or variable.named_type or c_calls.is_template(variable):
                    continue
                if len(axes) != variable.rank and self.source.old:
                    variable.declare.remove(directive)
                    break
                if len(axes) != variable.rank:
                    has = plural(variable.rank, "dimension")
                    what = f"`{variable.name}` has {has}; the directive names {len(axes)}"
                    self.unit.fail(directive.place, what)

    def find_declared_variables(self, directive: syntax.Declare, statement: Node | None) -> list[Variable]:
        """Return the variables that a directive declares. For `inherit` these are the parameters that it names;
        otherwise, all variables of the declaration that follows it. Raises DirectiveError if there are none.
        """
        inherited = {entity.name for entity in directive.entities}
        inherit = any(isinstance(a, syntax.Trait) and a.kind == "inherit" for a in directive.attributes)
        if inherit:
            if statement is None or statement.type not in ("function_definition", "declaration"):
                self.unit.fail(
                    directive.place,
                    "`inherit` needs a function on the next line",
                )
            begin, end = self.tree.begin(statement), self.tree.end(statement)
            found = [v for n in inherited for v in self.tree.variables.get(n, ()) if v.parameter and begin < v.at < end]
            if statement.type == "function_definition" and len(found) != len(inherited):
                missing = sorted(inherited - {v.name for v in found})
                self.unit.fail(
                    directive.place, f"`{missing[0]}` in `inherit` is not a parameter of the function after it"
                )
            return found
        begin = self.tree.begin(statement) if statement is not None else -1
        found = [v for many in self.tree.variables.values() for v in many if v.statement_begin == begin]
        if not found or found[0].parameter:
            self.unit.fail(directive.place, "the directive is not before a declaration; put it before the array's own")
        return found

    def instrument_declaration(self, directive: syntax.Declare, statement: Node | None, directive_text: str) -> None:
        """Insert the calls that register and distribute the arrays of a directive, at the places where the arrays come
        into being. If several directives declare an array, only the last one does so.
        """
        for variable in self.find_declared_variables(directive, statement):
            if directive not in variable.declare:
                continue
            if variable.declare[-1] is not directive:
                continue
            number = self.unit.data_id(variable)
            construct = self.unit.find_or_add_construct_id("array", directive, directive_text)
            if variable.has("task"):
                self.insert_at_lifetime_begin(variable, render_call("task_array", number, 0, 0), "")
            elif variable.parameter:
                self.instrument_parameter(variable, number)
            elif c_calls.is_template(variable):
                if made := render_template(number, directive.entities[0]):
                    self.insert_at_lifetime_begin(
                        variable, made + self.render_distribution_call(variable, number, construct), ""
                    )
            elif not variable.pointer and not (variable.external and not all(variable.sizes)):
                made = self.render_array_call(variable, number, "") + self.render_distribution_call(
                    variable, number, construct
                )
                self.insert_at_lifetime_begin(variable, made, self.render_alignment_calls(variable, number, construct))

    def count_alignments_to_distributed(self, variable: Variable, visited_names: frozenset[str]) -> int:
        """Return how many alignments lead from an array to one that is distributed itself. It is 0 for an array without
        an alignment, 1 if its target has none. `visited_names`: arrays already passed, so that a circle ends the count.
        """
        for one in variable.declare:
            for attribute in one.attributes:
                if isinstance(attribute, syntax.Alignment) and attribute.target is not None:
                    name = attribute.target.name
                    declare = self.shared.spread.get(name)
                    goal = self.tree.resolve(name, len(self.tree.text) - 1)
                    if goal is None or name in visited_names:
                        return 1
                    goal.declare = goal.declare or declare or []
                    return 1 + self.count_alignments_to_distributed(goal, visited_names | {name})
        return 0

    def render_template_creation(self, entity: syntax.Entity, offset: int, construct_id: int) -> str:
        """Return C code that creates and distributes a template whose sizes are known only at run time."""
        variable = self.tree.resolve(entity.name, offset)
        if variable is None or not c_calls.is_template(variable):
            self.unit.fail(entity.place, f"`{entity.name}` is not a template; put DVM(DISTRIBUTE …; TEMPLATE) first")
        number = self.unit.data_id(variable)
        return render_template(number, entity) + self.render_distribution_call(variable, number, construct_id)

    def instrument_parameter(self, variable: Variable, data_id: int) -> None:
        """Insert a call at the head of a function that registers an array parameter with the runtime."""
        rank = self.unit.array_rank(variable)
        element = f"sizeof({c_calls.element_at(variable, rank)})"
        function = next(f for f in self.tree.functions if self.tree.begin(f) == variable.function)
        body = function.child_by_field_name("body")
        if body is not None:
            text = render_call(
                "argument",
                data_id,
                data_address(variable),
                element,
                rank,
                long_array([0] * rank),
                c_calls.array_extents(variable, rank),
                0,
            )
            self.marks.before(self.tree.begin(body) + 1, " " + text)

    def render_array_call(self, variable: Variable, data_id: int, first_extent: str) -> str:
        """Return C code that registers an array with the runtime. Elements of a new array are also marked as not yet
        assigned. `first_extent`: C text of the first dimension's extent, for a declaration that leaves it open.
        """
        rank = self.unit.array_rank(variable)
        element = f"sizeof({c_calls.element_at(variable, rank)})"
        extents = c_calls.array_extents(variable, rank, first_extent)
        text = render_call(
            "array", data_id, data_address(variable), element, rank, long_array([0] * rank), extents, "WEFT_ORDER_C"
        )
        if not (variable.pointer or variable.initialised or variable.external):  # another source may give it values
            text += " " + render_call("clear", data_address(variable), data_bytes(variable))
        return text

    def render_distribution_call(self, variable: Variable, data_id: int, construct_id: int) -> str:
        """Return C code that distributes an array or template as its directives say; "" if they do not
        distribute it.
        """
        for one in variable.declare:
            for attribute in one.attributes:
                if isinstance(attribute, syntax.Distribution) and attribute.axes:
                    sizes = c_calls.render_block_sizes(data_id, variable, attribute.axes)
                    if not variable.outside:  # before the program begins no table has its numbers
                        sizes += c_scattered.render_owner_calls(
                            self.unit, data_id, variable, attribute.axes, variable.begin
                        )
                    task = self.unit.resolve_task(attribute.onto, variable.begin)
                    return f" {sizes} " + c_calls.render_distribution(
                        construct_id, data_id, variable, attribute.axes, task
                    )
        return ""

    def render_alignment_calls(self, variable: Variable, data_id: int, construct_id: int) -> str:
        """Return C code that aligns an array with another and sets the widths of its shadow edges, as its directives
        say.
        """
        text = ""
        for one in variable.declare:
            for attribute in one.attributes:
                if isinstance(attribute, syntax.Alignment):
                    at = len(self.tree.text) - 1 if variable.outside else variable.begin
                    text += " " + self.render_alignment(variable, data_id, construct_id, attribute, at)
                if isinstance(attribute, syntax.Shadow):
                    text += " " + render_call(
                        "shadow", data_id, data_address(variable), *c_calls.width_arguments(attribute.widths)
                    )
        return text

    def render_alignment(
        self, variable: Variable, data_id: int, construct_id: int, alignment: syntax.Alignment, offset: int
    ) -> str:
        """Return a C call that aligns an array with its target. The target's name is resolved as at `offset` in the
        source.
        """
        if alignment.target is None:
            return ""
        if variable.external and self.tree.resolve(alignment.target.name, offset) is None:
            return ""  # the source that defines the array aligns it: here the target has no declaration
        target = self.unit.resolve_distributed(alignment.target, offset, "align")
        mapping = c_calls.mapping_arguments(alignment.target.subscripts or ())
        return render_call(
            "align",
            construct_id,
            data_id,
            data_address(variable),
            self.unit.data_id(target),
            data_address(target),
            *mapping,
        )

    def insert_at_lifetime_begin(self, variable: Variable, creation_calls: str, alignment_calls: str) -> None:
        """Insert the calls for a variable where it comes into being: after its declaration, or for a file-scope
        variable in a function that runs before main.
        """
        at = variable.statement_end
        if variable.outside:
            self.unit.add_constructor(at, FIRST, creation_calls)
            if alignment_calls:
                # Behind all declarations of the file: the target may be declared later than the array.
                priority = ALIGNED + self.count_alignments_to_distributed(variable, frozenset())
                self.unit.add_constructor(
                    len(self.tree.text.rstrip()),
                    priority,
                    self.tree.render_using_declarations(variable) + alignment_calls,
                )
        elif variable.static:
            self.marks.before(
                at,
                f" {{ static int weft_once; if (!weft_once) {{ weft_once = 1; {creation_calls} {alignment_calls} }} }}",
            )
        elif variable.external:
            return
        else:
            self.marks.before(at, f" {creation_calls} {alignment_calls}")

    def instrument_allocations(self) -> None:
        """Insert calls after assignments of memory from malloc and similar functions. They register the memory under
        the name of the pointer that gets it. In parallel loops this is done only for pointers that a directive
        declares.
        """
        for node in c_tree.walk_nodes(self.tree.root):
            found = split_assigned_call(self.tree, node)
            if found is None:
                continue
            left, called = found
            name = self.tree.source(left)
            variable = self.tree.resolve(name, self.tree.end(left)) if left.type == "identifier" else None
            if variable is not None and variable.pointer and variable.declare:
                self.insert_after_assignment(node, self.render_allocation(variable, called), name)
            elif not any(
                self.tree.begin(node) >= begin and self.tree.end(node) <= end
                for begin, end, _, _ in self.unit.parallels
            ):
                self.insert_after_assignment(node, self.render_heap_block(left, variable, called), name)

    def insert_after_assignment(self, node: Node, calls: str, variable_name: str) -> None:
        """Insert calls after an assignment or declaration.

        Within a larger expression the assignment becomes a GNU statement expression `({ … })`, which makes the calls
        and has the variable's value. Nothing is inserted among a call's arguments or in the head of a `for`.
        """
        above = node.parent
        if not calls or above is None:
            return
        if node.type == "init_declarator":
            outer = above.parent
            if outer is not None and outer.type == "compound_statement":
                self.marks.before(self.tree.end(above), f" {calls}")
        elif above.type == "expression_statement":
            self.marks.around(self.tree.begin(above), self.tree.end(above), "", f" {calls}")
        elif c_tree.find_ancestor(
            node, {"argument_list", "for_statement", "function_definition"}
        ) == c_tree.find_ancestor(
            node, {"function_definition"}
        ):  # a macro's arguments hold no lines of the preprocessor
            self.marks.before(self.tree.begin(node), "({ ")
            self.marks.after(self.tree.end(node), f"; {calls} {variable_name}; }})")

    def render_allocation(self, variable: Variable, allocation_call: Node) -> str:
        """Return C code that registers, distributes and aligns an array right after its pointer got memory. The array
        is one that a directive declares.
        """
        total = allocation_size(self.tree, allocation_call)
        number = self.unit.data_id(variable)
        first = f"(__INT64_TYPE__)(({total}) / sizeof(({variable.name})[0]))" if total else "0"
        construct = next(
            self.unit.find_or_add_construct_id("array", d, text)
            for _, _, d, text in self.source.directives
            if d is variable.declare[-1]
        )
        text = self.render_array_call(variable, number, first) + self.render_distribution_call(
            variable, number, construct
        )
        return text + self.render_alignment_calls(variable, number, construct)

    def render_heap_block(self, target: Node, variable: Variable | None, allocation_call: Node) -> str:
        """Return C code that registers a block of heap memory under the name of its pointer. "" if the variable is no
        pointer, or if evaluating its name twice could have an effect. `target`: the left side of the assignment.
        """
        name = self.tree.source(target)
        if variable is not None and not variable.pointer:
            return ""
        if any(one.type in UNSAFE for one in c_tree.walk_nodes(target)):
            return ""
        place = self.source.position_of(self.tree.begin(target))
        number = self.unit.data_id(variable) if variable else self.blocks.get(name)
        if number is None:
            number = self.blocks[name] = self.shared.texts.add_variable(name, place.file, place.line, "array")
        if "sizeof" not in self.tree.source(allocation_call):  # the type may be one that this file does not know
            return render_call(
                "name_heap_block", number, f"(void *)WEFT_POINTER({name})", 0, 0, "(const __INT64_TYPE__ *)0"
            )
        rank = variable.rank if variable is not None else 1
        extents = long_array(
            [
                "0",
                *(
                    f"(__INT64_TYPE__)(sizeof(({name}){'[0]' * d}) / sizeof(({name}){'[0]' * (d + 1)}))"
                    for d in range(1, rank)
                ),
            ]
        )
        pointer = f"WEFT_POINTER({name})"  # an element or a component may also get a plain number from the call
        return render_call(
            "name_heap_block", number, f"(void *){pointer}", f"sizeof(({pointer}){'[0]' * rank})", rank, extents
        )


UNSAFE: Final = frozenset(("call_expression", "update_expression", "assignment_expression"))
"""What must not be evaluated twice."""


def split_assigned_call(tree: c_tree.Tree, node: Node) -> tuple[Node, Node] | None:
    """Return (the variable, the call) of an assignment or initialisation `variable = call(…)`; None for other nodes."""
    if node.type == "assignment_expression":
        operator = node.child_by_field_name("operator")
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if operator is None or tree.source(operator) != "=":
            return None
    elif node.type == "init_declarator":
        declared = node.child_by_field_name("declarator")
        left, right = c_tree.analyse_declarator(tree, node)[0] if declared else None, node.child_by_field_name("value")
    else:
        return None
    while right is not None and (inner := strip_cast(tree, right)) is not None:
        right = inner
    if left is None or right is None or right.type not in ("call_expression", "new_expression"):
        return None
    return left, right


def strip_cast(tree: c_tree.Tree, node: Node) -> Node | None:
    """Return the expression within a cast or brackets; None if the node is neither."""
    if node.type in ("cast_expression", "parenthesized_expression"):
        return node.child_by_field_name("value") or (node.named_children[0] if node.named_children else None)
    function, arguments = (node.child_by_field_name(name) for name in ("function", "arguments"))
    if function is not None and arguments is not None and function.type == "template_function":
        name = tree.source(function).partition("<")[0]
        if name in ("static_cast", "reinterpret_cast") and arguments.named_children:
            return arguments.named_children[0]
    return None


def allocation_size(tree: c_tree.Tree, call: Node) -> str:
    """Return the size that a call of malloc or a similar function asks for, as C text; "" for other functions."""
    function = call.child_by_field_name("function")
    arguments = call.child_by_field_name("arguments")
    name = tree.source(function) if function is not None else ""
    texts = [tree.source(a) for a in arguments.named_children if a.type != "comment"] if arguments else []
    which = SIZES.get((name, len(texts)), ())
    return " * ".join(f"({texts[k]})" for k in which)


SIZES: Final = {
    ("malloc", 1): (0,),
    ("calloc", 2): (0, 1),
    ("realloc", 2): (1,),
    ("reallocarray", 3): (1, 2),
    ("aligned_alloc", 2): (1,),
}
"""The arguments of a function whose product is the size that it is asked for."""


def render_template(number: int, entity: syntax.Entity) -> str:
    """Return the C call that registers a template; "" if its sizes are left open."""
    sizes = [c_calls.int64(one.high) for one in entity.sizes if one.high is not None]
    return render_call("template", number, len(sizes), long_array([0] * len(sizes)), long_array(sizes)) if sizes else ""
