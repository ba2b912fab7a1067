"""What a C source declares and where its statements stand, from tree-sitter's tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tree_sitter import Language, Node, Parser

from weft.dvm.syntax import Declare, Trait

STATEMENTS: Final = frozenset(
    {
        "compound_statement",
        "expression_statement",
        "for_statement",
        "while_statement",
        "do_statement",
        "if_statement",
        "switch_statement",
        "return_statement",
        "break_statement",
        "continue_statement",
        "goto_statement",
        "labeled_statement",
        "for_range_loop",
        "try_statement",
        "declaration",
        "function_definition",
    }
)
SCOPES: Final = frozenset({"compound_statement", "for_statement", "function_definition", "translation_unit"})


@dataclass(slots=True, eq=False)
class Variable:
    """A declared name. `sizes` are the texts of its array bounds ("" where left out), outermost first.

    begin and end: the offsets between which the name means this variable. `statement_end`: the end of its declaration.
    """

    name: str
    begin: int
    end: int
    statement_begin: int
    statement_end: int
    at: int
    sizes: tuple[str, ...]
    pointer: bool
    """A pointer to what `sizes` describe: its first dimension is not known from the declaration."""
    parameter: bool
    outside: bool
    """Declared at file scope."""
    external: bool
    static: bool
    initialised: bool
    named_type: bool
    """Its type is a typedef's name: there may be more dimensions than the declaration shows."""
    reference: bool = False
    """C++'s: another name of what it is bound to."""
    first: str = ""
    """Text of a parameter's first bound, where it is written."""
    declare: list[Declare] = field(default_factory=list)
    function: int = -1
    """Offset of the function that it is declared in; -1: none."""
    id: int = 0

    @property
    def rank(self) -> int:
        """Return the number of dimensions as far as the declaration shows them."""
        return len(self.sizes) + self.pointer

    def has(self, trait: str) -> bool:
        """Return whether a directive gave the variable a trait, such as "template"."""
        return any(isinstance(a, Trait) and a.kind == trait for one in self.declare for a in one.attributes)

    @property
    def has_data_behind_pointer(self) -> bool:
        """Return whether the variable's data lie where it points: it is a parameter with bounds, or a directive makes
        it an array.
        """
        return self.pointer and (self.parameter or bool(self.declare))

    @property
    def is_pointer_like(self) -> bool:
        """Return whether the variable is a pointer that no directive makes an array."""
        return self.pointer and not self.has_data_behind_pointer

    @property
    def is_array(self) -> bool:
        """Return whether the variable is an array, or a pointer to be used as one."""
        return self.rank > 0


@dataclass(slots=True)
class Tree:
    """The tree of one source, by offsets of characters."""

    text: str
    root: Node
    variables: dict[str, list[Variable]]
    functions: list[Node]
    statements: dict[int, Node]
    """The outermost statement that begins at an offset."""
    shift: _Shift
    registers: list[tuple[int, int]] = field(default_factory=list)
    """Where the word `register` stands."""
    cplusplus: bool = False
    used: list[tuple[int, Node, Variable]] = field(default_factory=list)
    """Every identifier that means a variable, by its first byte, in the order of the text."""
    stores: list[tuple[int, int, Variable]] | None = None
    """What `c_uses.stores` found, once it was asked."""
    addressed: dict[tuple[int, int], frozenset[Variable]] = field(default_factory=dict)
    """What `c_uses.addressed` found of the bytes that it was asked about."""

    def render_using_declarations(self, variable: Variable) -> str:
        """Return the C++ declarations that make the names of a variable's namespaces visible; "" outside of any
        namespace."""
        around = [
            self.source(name)
            for node in walk_nodes(self.root)
            if node.type == "namespace_definition" and self.begin(node) <= variable.at < self.end(node)
            if (name := node.child_by_field_name("name")) is not None
        ]
        return f"using namespace {'::'.join(around)}; " if around else ""

    def begin(self, node: Node) -> int:
        """Return the offset of a node's first character."""
        return self.shift(node.start_byte)

    def end(self, node: Node) -> int:
        """Return the offset after a node's last character."""
        return self.shift(node.end_byte)

    def source(self, node: Node) -> str:
        """Return a node's text."""
        return self.text[self.begin(node) : self.end(node)]

    def resolve(self, name: str, offset: int) -> Variable | None:
        """Return the variable that a name means at an offset of the source; None if none is visible."""
        found = [v for v in self.variables.get(name, ()) if v.begin <= offset < v.end]
        return min(found, key=lambda v: (v.end - v.begin, -v.begin), default=None)

    def find_statement_after(self, offset: int) -> Node | None:
        """Return the outermost statement or declaration that begins after an offset, past white space and comments.
        None if something else comes first.
        """
        rest = self.text[offset:]
        skipped = len(rest) - len(skip_blanks(rest))
        return self.statements.get(offset + skipped)


class _Shift:
    """Offsets of bytes as offsets of characters."""

    def __init__(self, text: str, raw: bytes) -> None:
        self.same = len(text) == len(raw)
        self.table: list[int] = []
        if not self.same:
            for index, character in enumerate(text):
                self.table += [index] * len(character.encode("utf-8", "surrogateescape"))
            self.table.append(len(text))

    def __call__(self, offset: int) -> int:
        return offset if self.same else self.table[offset]


def skip_blanks(text: str) -> str:
    """Return a text without the white space, comments and preprocessor lines at its beginning."""
    while True:
        stripped = text.lstrip()
        if stripped.startswith(("//", "#")):
            line, _, text = stripped.partition("\n")
            while line.endswith("\\"):
                line, _, text = text.partition("\n")
        elif stripped.startswith("/*"):
            text = stripped.partition("*/")[2]
        else:
            return stripped


def choose_language(cplusplus: bool) -> Language:
    """Return tree-sitter's grammar for C or C++."""
    if cplusplus:
        # The grammars are packages of their own, of which one is needed.
        import tree_sitter_cpp

        return Language(tree_sitter_cpp.language())
    # As above.
    import tree_sitter_c

    return Language(tree_sitter_c.language())


COMPLEX: Final = re.compile(
    rb"(?<=float)\s+(?:_Complex\b|complex\b(?=\s*[\w*)]))|(?<=double)\s+(?:_Complex\b|complex\b(?=\s*[\w*)]))"
    rb"|\b_?[cC]omplex\b(?=\s+(?:long\s+)?(?:float|double)\b)"
)
"""The word beside `float` or `double`, which the grammar does not know: it takes it for the name that is declared."""


def blank(found: re.Match[bytes]) -> bytes:
    """Return spaces in place of the matched text. Its line ends stay."""
    return re.sub(rb"[^\n]", b" ", found[0])


def parse_source(source_text: str, cplusplus: bool = False) -> Tree:
    """Return the syntax tree of a source without directives, with its statements, functions and declared variables
    indexed.
    """
    raw = source_text.encode("utf-8", "surrogateescape")
    root = Parser(choose_language(cplusplus)).parse(raw if cplusplus else COMPLEX.sub(blank, raw)).root_node
    tree = Tree(source_text, root, {}, [], {}, _Shift(source_text, raw), cplusplus=cplusplus)
    nodes = list(walk_nodes(root))
    for node in nodes:
        if node.type in STATEMENTS:
            tree.statements.setdefault(tree.begin(node), node)
        if node.type == "template_declaration":  # what stands before it is about its function
            inner = next((child for child in node.children if child.type == "function_definition"), None)
            tree.statements.setdefault(tree.begin(node), inner or node)
        if node.type == "storage_class_specifier" and tree.source(node) == "register":
            tree.registers.append((tree.begin(node), tree.end(node)))
        if node.type == "function_definition":
            tree.functions.append(node)
        if node.type in ("declaration", "parameter_declaration"):
            add_declared_variables(tree, node)
    for node in nodes:
        if node.type == "identifier" and (variable := tree.resolve(tree.source(node), tree.begin(node))) is not None:
            tree.used.append((node.start_byte, node, variable))
    return tree


def walk_nodes(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, in the order of the text."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(top.children))


def find_ancestor(node: Node, kinds: frozenset[str] | set[str]) -> Node | None:
    """Return the nearest node above this one whose type is among `kinds`; None if there is none."""
    above = node.parent
    while above is not None and above.type not in kinds:
        above = above.parent
    return above


def add_declared_variables(tree: Tree, node: Node) -> None:
    """Add the variables that a declaration or a parameter declares to the tree's index."""
    specifiers = {tree.source(child) for child in node.children if child.type == "storage_class_specifier"}
    if "typedef" in specifiers:
        return
    parameter = node.type == "parameter_declaration"
    scope = find_ancestor(node, {"function_definition"} if parameter else SCOPES)
    if scope is None:
        return
    if parameter and not is_definition_parameter(node):
        return
    function = scope if scope.type == "function_definition" else find_ancestor(node, {"function_definition"})
    for child in node.children_by_field_name("declarator"):
        name, sizes, pointer, called = analyse_declarator(tree, child)
        if name is None or called:
            continue
        outside = scope.type == "translation_unit"
        reference = any(one.type == "reference_declarator" for one in walk_nodes(child))
        by_address = parameter and not reference
        variable = Variable(
            name=tree.source(name),
            begin=tree.end(name),
            end=len(tree.text) if outside else tree.end(scope),
            statement_begin=tree.begin(node),
            statement_end=tree.end(node),
            at=tree.begin(name),
            sizes=tuple(sizes[1:]) if by_address and sizes and not pointer else tuple(sizes),
            pointer=pointer or (by_address and bool(sizes)),
            parameter=parameter,
            outside=outside,
            external="extern" in specifiers,
            static="static" in specifiers,
            initialised=child.type == "init_declarator",
            named_type=(kind := node.child_by_field_name("type")) is not None and kind.type == "type_identifier",
            reference=reference,
            first=sizes[0] if by_address and sizes and not pointer else "",
            function=-1 if function is None else tree.begin(function),
        )
        tree.variables.setdefault(variable.name, []).append(variable)


def is_definition_parameter(node: Node) -> bool:
    """Return whether a parameter belongs to a function's definition, not to a declaration or a pointer to a
    function.
    """
    above = node.parent
    depth = 0
    while above is not None and above.type != "function_definition":
        depth += above.type == "parameter_list"
        above = above.parent
    return above is not None and depth == 1


def analyse_declarator(tree: Tree, node: Node) -> tuple[Node | None, list[str], bool, bool]:
    """Return four parts of a declarator: the node of its name (or None), its array bounds as text, whether it declares
    a pointer, and whether it declares a function. With array bounds, a pointer means a pointer to the array.
    """
    sizes: list[str] = []
    pointer = called = False
    current: Node | None = node
    while current is not None and current.type != "identifier":
        if current.type == "array_declarator":
            size = current.child_by_field_name("size")
            sizes.insert(0, tree.source(size) if size is not None else "")
        elif current.type == "pointer_declarator":
            # `float *a[3]` is an array of pointers, `float (*a)[3]` a pointer to rows: only the inner one counts.
            inner = current.child_by_field_name("declarator")
            pointer = inner is not None and inner.type == "identifier"
        elif current.type == "function_declarator":
            called = True
        below = current.child_by_field_name("declarator")
        if below is None and current.type == "parenthesized_declarator":
            below = next(
                (c for c in current.named_children if c.type.endswith("declarator") or c.type == "identifier"), None
            )
        if below is None and current.type in ("attributed_declarator", "reference_declarator"):
            below = current.named_children[0]
        current = below
    return current, sizes, pointer, called
