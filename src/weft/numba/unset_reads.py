"""Count the reads of variables that an iteration has not set, in the sequential run of a function.

The text of a function shows which reads of a variable may come before its first value; only a run shows whether one
does: `if use: g = ...` and a later `if use: s += g` are right. So the sequential variant of a function is made of a
changed text, which keeps a mark beside each such variable: 0 when its loop begins, 3 once it is set, and at the start
of an iteration 2 if an earlier one has set it. Each read that may be early looks at the mark.
"""

from __future__ import annotations

import ast
import copy
import ctypes
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, Final

from numba import njit

from weft.numba import source
from weft.numba.source import Suspect

READ: Final = "_weft_read"
MARK: Final = "_weft_mark_"
SCOPES: Final = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.ClassDef)


OF_EARLY_READS: Final = frozenset(("uninitialised-read", "loop-dependence", "wrong-reduction"))
"""Kinds of suspects that are at fault only if a read is early."""


@dataclass(frozen=True, slots=True)
class EarlyRead:
    """A line of a parallel loop that may read a variable before its iteration has set it."""

    function: FunctionType
    name: str
    loop: int
    line: int
    store: int
    """The first line that sets it: of the loop, or before a loop that only reads it."""
    is_own: bool
    """Whether the loop sets it, so that each iteration has its own."""
    is_set_before: bool
    """Whether the function sets it before the loop, so that it has a value when the loop begins."""
    counts: Any = field(default_factory=ctypes.c_int64 * 2, compare=False)
    """How often it was read when no iteration had set it, and when only an earlier one had."""

    @property
    def unset(self) -> int:
        """Return how often the variable was read without a value."""
        return 0 if self.is_set_before else int(self.counts[0] + self.counts[1])


def make_reader(count_function_address: int) -> Any:
    """Return a compiled function that returns its first argument, and counts if the mark says that it has no value."""
    count = ctypes.CFUNCTYPE(None, ctypes.c_int64)(count_function_address)

    def read(value: Any, mark: int, counter_address: int) -> Any:
        if mark & 1 == 0:
            count(counter_address + 4 * mark)
        return value

    return njit(read)


class EarlyReads:
    """All reads that may be early, of the functions whose text was changed.

    `count_function_address`: of the C function that counts one more at an address.
    """

    def __init__(self, count_function_address: int) -> None:
        self._count = count_function_address
        self._reader: Any = None
        self._known: dict[tuple[CodeType, int, str], list[EarlyRead]] = {}
        """By the code of the function, the line of the loop and the variable."""

    def rewrite(self, function: FunctionType) -> tuple[CodeType, dict[str, Any]] | None:
        """Return code for a function that counts its early reads, and the global names that it needs. Return None if
        its text has no such reads.
        """
        loops = source.find_parallel_loops(function)
        text = source.parse_function(function)
        if text is None or not loops:
            return None
        changed = copy.deepcopy(text)
        lines = {loop.lineno for loop in loops}
        names = set()
        for loop in [node for node in ast.walk(changed) if isinstance(node, ast.For) and node.lineno in lines]:
            names |= {(loop.lineno, name) for name in _find_early_names(loop)}
        for line, name in sorted(names):
            loop = next(node for node in ast.walk(changed) if isinstance(node, ast.For) and node.lineno == line)
            _Marks(self, function, name, {line}, loop).insert()
        _insert_starts(changed, names)
        outer = _find_early_outer_names(text, loops)
        for name in outer:
            _Marks(self, function, name, lines).insert_in_function(changed)
        code = _compile_function(changed, function) if names or outer else None
        if code is None:
            return None
        self._reader = self._reader or make_reader(self._count)
        return code, {READ: self._reader}

    def add(self, function: FunctionType, loop: ast.For, name: str, line: int, stores: Collection[int]) -> int:
        """Note a read of a variable in a loop, and return the address of its counters. `stores`: the lines that set it
        after its mark is cleared.
        """
        known = self._known.setdefault((function.__code__, loop.lineno, name), [])
        found = next((one for one in known if one.line == line), None)
        if found is None:
            known.append(
                found := EarlyRead(
                    function=function,
                    name=name,
                    loop=loop.lineno,
                    line=line,
                    store=min(stores),
                    is_own=min(stores) >= loop.lineno,
                    is_set_before=min(stores) >= loop.lineno and source.is_assigned_before(function, loop, name),
                )
            )
        return ctypes.addressof(found.counts)

    def clear(self) -> None:
        """Begin to count again."""
        for one in self.iterate():
            one.counts[:] = (0, 0)

    def forget(self, functions: Iterable[FunctionType]) -> None:
        """Drop all reads of functions whose changed text Numba does not compile."""
        codes = {one.__code__ for one in functions}
        self._known = {key: reads for key, reads in self._known.items() if key[0] not in codes}

    def find_unset(self) -> list[EarlyRead]:
        """Return the reads that found no value since the counters were cleared."""
        return [one for one in self.iterate() if one.unset]

    def is_refuted(self, function: FunctionType, suspect: Suspect) -> bool:
        """Return whether the run showed that no iteration read a suspect variable before it had set it."""
        reads = self._known.get((function.__code__, suspect.loop, suspect.name), ())
        return suspect.kind in OF_EARLY_READS and bool(reads) and not any(one.unset or one.counts[1] for one in reads)

    def iterate(self) -> Iterator[EarlyRead]:
        """Yield all reads that may be early."""
        for reads in self._known.values():
            yield from reads


def _find_early_names(loop: ast.For) -> list[str]:
    """Return the variables that a loop's iterations set, and may read before; not those that they only accumulate."""
    uses = list(source.find_variable_uses(loop.body))
    own = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
    return [
        name
        for name in dict.fromkeys(use.name for use in uses if use.stored)
        if name not in own
        and source.find_line_reading_unwritten(loop.body, name) is not None
        and not all(source.is_accumulation(use.statement, name) for use in uses if use.name == name)
    ]


def _find_early_outer_names(function: ast.FunctionDef, loops: Sequence[ast.For]) -> list[str]:
    """Return the variables that loops of a function only read, and that some way to them does not set."""
    inside = [use for loop in loops for use in source.find_variable_uses(loop.body)]
    own = {use.name for use in inside if use.stored}
    own |= {one.id for loop in loops for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
    given = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
    stored = {use.name for use in source.find_variable_uses(function.body) if use.stored}
    read = dict.fromkeys(use.name for use in inside if use.name in stored - own - given)
    return [name for name in read if source.find_line_reading_unwritten(function.body, name) is not None]


def _insert_starts(function: ast.FunctionDef, names: Collection[tuple[int, str]]) -> None:
    """Insert the assignments that clear marks before the loops. `names`: line of the loop, variable."""
    for parent in ast.walk(function):
        for body in _bodies(parent):
            for at, one in reversed(list(enumerate(body))):
                if isinstance(one, ast.For):
                    body[at:at] = [_assign(name, ast.Constant(0), one) for line, name in names if line == one.lineno]


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements directly inside a node."""
    for key in ("body", "orelse", "finalbody"):
        body = getattr(node, key, None)
        if isinstance(body, list):
            yield body


def _assign(name: str, value: ast.expr, place: ast.AST) -> ast.stmt:
    """Return the statement that sets the mark of a variable."""
    made = ast.Assign([ast.Name(MARK + name, ast.Store())], value)
    return ast.fix_missing_locations(ast.copy_location(made, place))


class _Marks(ast.NodeTransformer):
    """Makes statements keep the mark of one variable, and look at it where loops read it.

    `lines`: of these loops; `loop`: the one whose iterations have the variable as their own, if one has.
    """

    def __init__(
        self, reads: EarlyReads, function: FunctionType, name: str, lines: Collection[int], loop: ast.For | None = None
    ) -> None:
        self._reads, self._function, self._name, self._lines, self._loop = reads, function, name, lines, loop
        self._stores: list[int] = []

    def insert(self) -> None:
        """Change the body of the loop."""
        assert self._loop is not None
        again = ast.BinOp(ast.Name(MARK + self._name, ast.Load()), ast.BitAnd(), ast.Constant(2))
        first = self._loop.body[0]
        self._note_stores(self._loop.body)
        self._loop.body = [_assign(self._name, again, first), *self._change_all(self._loop.body)]

    def insert_in_function(self, function: ast.FunctionDef) -> None:
        """Change the body of a function."""
        self._note_stores(function.body)
        first = function.body[0]
        function.body = [_assign(self._name, ast.Constant(0), first), *self._change_all(function.body)]

    def _note_stores(self, body: Iterable[ast.stmt]) -> None:
        self._stores = [use.line for use in source.find_variable_uses(body) if use.stored and use.name == self._name]

    def _change_all(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for one in body:
            found += self._change(one)
        return found

    def _change(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the statements that replace a statement."""
        if isinstance(statement, SCOPES):
            return [statement]
        if self._loop is None and isinstance(statement, ast.For) and statement.lineno in self._lines:
            self._loop = statement
            statement.body = self._change_all(statement.body)
            self._loop = None
            return [statement]
        before, after = [], []
        if isinstance(statement, ast.AugAssign) and source.is_name(statement.target, self._name):
            before.append(ast.copy_location(ast.Expr(self._read(statement.target)), statement))
        uses = source.find_variable_uses([source.without_nested(statement)])
        stores = any(use.stored and use.name == self._name for use in uses)
        for key, value in ast.iter_fields(statement):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(statement, key, self._change_all(value))
            elif isinstance(value, list):
                setattr(statement, key, [self.visit(one) if isinstance(one, ast.AST) else one for one in value])
            elif isinstance(value, ast.AST):
                setattr(statement, key, self.visit(value))
        if stores and isinstance(statement, ast.For | ast.With):
            statement.body.insert(0, _assign(self._name, ast.Constant(3), statement))
        elif stores:
            after.append(_assign(self._name, ast.Constant(3), statement))
        return [ast.fix_missing_locations(one) for one in before] + [statement] + after

    def _read(self, place: ast.expr) -> ast.expr:
        """Return a read of the variable that looks at its mark."""
        if self._loop is None:
            return place
        address = self._reads.add(self._function, self._loop, self._name, place.lineno, self._stores)
        names = [ast.Name(one, ast.Load()) for one in (self._name, MARK + self._name)]
        made = ast.Call(ast.Name(READ, ast.Load()), [*names, ast.Constant(address)], [])
        return ast.fix_missing_locations(ast.copy_location(made, place))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a read of the variable."""
        return self._read(node) if node.id == self._name and isinstance(node.ctx, ast.Load) else node

    def visit(self, node: ast.AST) -> Any:
        """Change a part of a statement, but nothing that has names of its own."""
        return node if isinstance(node, SCOPES) else super().visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """Change the statements of a handler."""
        node.body = self._change_all(node.body)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        """Change the statements of a case."""
        node.body = self._change_all(node.body)
        return node


def _compile_function(text: ast.FunctionDef, function: FunctionType) -> CodeType | None:
    """Return the code of a function's changed text, with the names of outer functions that it uses; None if it uses
    others than before.
    """
    bare = copy.copy(text)
    bare.decorator_list, bare.returns = [], None
    bare.args = copy.deepcopy(text.args)
    bare.args.defaults = [ast.copy_location(ast.Constant(None), one) for one in bare.args.defaults]
    bare.args.kw_defaults = [one and ast.copy_location(ast.Constant(None), one) for one in bare.args.kw_defaults]
    for one in ast.walk(bare.args):
        if isinstance(one, ast.arg):
            one.annotation = None
    free = function.__code__.co_freevars
    given = ast.arguments(
        posonlyargs=[], args=[ast.arg(one) for one in free], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    outer = ast.parse("def outer(): pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.args, outer.body = given, [bare]
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(outer, bare)], []))
    try:
        made: Any = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    for name in ("outer", function.__code__.co_name):
        made = next((one for one in made.co_consts if isinstance(one, CodeType) and one.co_name == name), None)
        if made is None:
            return None
    return made.replace(co_qualname=function.__code__.co_qualname) if made.co_freevars == free else None
