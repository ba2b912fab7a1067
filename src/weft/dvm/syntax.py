"""The directives of C-DVM(H) and Fortran-DVM(H) as one typed syntax tree: what is said, not how a language says it.

Expressions stay texts of the program's own language: they are evaluated where the directive stands, by the program.
Names of Fortran are in lower case. Dimensions stand in the order of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.errors import UsageError


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a source file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class DirectiveError(UsageError):
    """A directive that cannot be read or stands where it has no meaning: the place, what is wrong, what to do."""

    def __init__(self, place: Position, what: str) -> None:
        super().__init__(f"{place}: {what}")
        self.place = place


# --- parts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression in the program's language, as text; `names` are the identifiers in it."""

    text: str
    names: tuple[str, ...]
    place: Position


@dataclass(frozen=True, slots=True)
class Whole:
    """All of a dimension: `[]`, `[*]`, `*` or `:`."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One index, the same for every iteration (and element)."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Affine:
    """`coefficient * dummy + offset`; `dummy` counts the directive's dummies (loop indices, align dummies) from 0."""

    dummy: int
    coefficient: Expression
    offset: Expression


@dataclass(frozen=True, slots=True)
class Section:
    """Indices low to high, both included; None: the dimension's own bound."""

    low: Expression | None
    high: Expression | None


Subscript = Whole | Constant | Affine | Section


@dataclass(frozen=True, slots=True)
class Reference:
    """A name with subscripts; none: `subscripts` is None (the whole thing)."""

    name: str
    subscripts: tuple[Subscript, ...] | None
    place: Position


@dataclass(frozen=True, slots=True)
class Width:
    """How far an edge reaches below and above a block: shadow edges, renewals, and the lengths of `across`."""

    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True)
class NamedEdges:
    """Shadow edges that `shadow_add` gave a name."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Derived:
    """`derived(expressions with target[...])`: what a dimension's indices are computed from."""

    expressions: tuple[Expression | Section, ...]
    target: str
    subscripts: tuple[Expression | Whole | str, ...]
    """A string is a dummy (`@i`)."""
    edges: tuple[str, ...] = ()


AxisKind = Literal["*", "block", "wgtblock", "genblock", "multblock", "indirect", "derived"]


@dataclass(frozen=True, slots=True)
class Axis:
    """How one dimension is dealt out; `argument` is the weights', blocks' or owners' array, `size` the second one."""

    kind: AxisKind
    argument: Expression | None = None
    size: Expression | None = None
    derived: Derived | None = None


# --- attributes of declarations ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Distribution:
    """`distribute`; axes is None where the distribution is left to a later `redistribute`."""

    axes: tuple[Axis, ...] | None
    onto: Reference | None = None


@dataclass(frozen=True, slots=True)
class Alignment:
    """`align`: element (dummies) stands with target(subscripts); None as a dummy is a dimension that is not spread.

    `dummies` is None where the alignment is left to a later `realign`; target.subscripts None: the same indices.
    """

    dummies: tuple[str | None, ...] | None
    target: Reference | None


@dataclass(frozen=True, slots=True)
class Shadow:
    """`shadow`: the widths of the edges, one for each dimension."""

    widths: tuple[Width | NamedEdges, ...]


TraitKind = Literal[
    "array",
    "template",
    "dynamic",
    "inherit",
    "processors",
    "task",
    "heap",
    "pointer",
    "common",
    "dimension",
    "consistent",
    "asyncid",
    "shadow_group",
    "reduction_group",
    "remote_group",
    "indirect_group",
    "consistent_group",
]


@dataclass(frozen=True, slots=True)
class Trait:
    """A property that needs no more words; `sizes` are those of a DIMENSION attribute (or of a pointer: its rank)."""

    kind: TraitKind
    sizes: tuple[Section, ...] = ()


Attribute = Distribution | Alignment | Shadow | Trait


@dataclass(frozen=True, slots=True)
class Entity:
    """A declared name and its sizes (C: 0 to high-1 as low None, high = size; Fortran: low None means 1)."""

    name: str
    sizes: tuple[Section, ...]
    place: Position


# --- clauses ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Private:
    """`private` and `new`: each iteration has its own."""

    names: tuple[Reference, ...]


ReductionKind = Literal["sum", "product", "max", "min", "and", "or", "xor", "eqv", "neqv", "maxloc", "minloc"]


@dataclass(frozen=True, slots=True)
class Reduction:
    """One reduction: `location` is what goes along with maxloc and minloc, `size` how many elements of it."""

    operator: ReductionKind
    variable: Reference
    location: Reference | None = None
    size: Expression | None = None


@dataclass(frozen=True, slots=True)
class Reductions:
    """`reduction(...)`; a group's name makes it asynchronous: it ends with the group's wait."""

    items: tuple[Reduction, ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Renewal:
    """An array whose edges are renewed; widths is None: as declared. `corner`: the diagonal neighbours too."""

    array: Reference
    widths: tuple[Width | NamedEdges, ...] | None
    corner: bool = False


@dataclass(frozen=True, slots=True)
class ShadowRenew:
    """`shadow_renew(...)`: the edges are renewed before the loop."""

    items: tuple[Renewal, ...]


@dataclass(frozen=True, slots=True)
class ShadowUse:
    """`shadow_start group`, `shadow_wait group` or `shadow_compute` on a loop."""

    kind: Literal["start", "wait", "compute"]
    group: str | None = None
    array: Renewal | None = None


@dataclass(frozen=True, slots=True)
class Dependence:
    """An array of `across`: flow (low) and anti (high) lengths; widths None: the declared edges."""

    array: Reference
    widths: tuple[Width, ...] | None
    way: Literal["in", "out", "inout"] = "inout"


@dataclass(frozen=True, slots=True)
class Across:
    """`across(...)`: ordered execution over dependent iterations."""

    items: tuple[Dependence, ...]


@dataclass(frozen=True, slots=True)
class Remote:
    """`remote_access(...)` (or indirect_access): elements that are fetched before the loop or the statement."""

    items: tuple[Reference, ...]
    group: str | None = None
    indirect: bool = False


@dataclass(frozen=True, slots=True)
class Tie:
    """An array whose dimensions go with loop dimensions; a negative coefficient is the other way round."""

    items: tuple[Reference, ...]


@dataclass(frozen=True, slots=True)
class Consistent:
    """`consistent(...)`: replicated arrays that are made the same after the loop."""

    items: tuple[Reference, ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """`stage(n)`: the depth of the pipeline; no meaning for the data."""

    depth: Expression


@dataclass(frozen=True, slots=True)
class CudaBlock:
    """`cuda_block(x, y, z)`; no meaning for the data."""

    sizes: tuple[Expression, ...]


Clause = Private | Reductions | ShadowRenew | ShadowUse | Across | Remote | Tie | Consistent | Stage | CudaBlock


# --- directives -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Directive:
    """What every directive has: where it stands, and its last line."""

    place: Position
    last_line: int


@dataclass(frozen=True, slots=True)
class Declare(Directive):
    """Attributes of names; in C the names of `array` and `template` are those of the declaration that follows."""

    attributes: tuple[Attribute, ...]
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class Redistribute(Directive):
    """`redistribute`."""

    arrays: tuple[Reference, ...]
    distribution: Distribution
    new_value: bool = False


@dataclass(frozen=True, slots=True)
class Realign(Directive):
    """`realign`."""

    arrays: tuple[Reference, ...]
    alignment: Alignment
    new_value: bool = False


@dataclass(frozen=True, slots=True)
class Parallel(Directive):
    """`parallel`: the loop indices (or only their number: names are then empty), where iterations run, clauses."""

    rank: int
    indices: tuple[str, ...]
    on: Reference | None
    clauses: tuple[Clause, ...]


Intent = Literal["in", "out", "inout", "local", "inlocal"]


@dataclass(frozen=True, slots=True)
class Data:
    """Data of a region with one intent; subscripts are Constant, Section or Whole."""

    intent: Intent
    items: tuple[Reference, ...]


@dataclass(frozen=True, slots=True)
class Region(Directive):
    """`region`: the statement after it (C) or all up to `end region` (Fortran) runs on the named devices."""

    data: tuple[Data, ...]
    targets: tuple[Literal["host", "cuda"], ...] = ()
    asynchronous: bool = False


@dataclass(frozen=True, slots=True)
class Actual(Directive):
    """`actual` (the host's copy is the new one) and `get_actual`; items is None: everything."""

    get: bool
    items: tuple[Reference, ...] | None


@dataclass(frozen=True, slots=True)
class RemoteAccess(Directive):
    """`remote_access` for the statement that follows."""

    remote: Remote


@dataclass(frozen=True, slots=True)
class DefineGroup(Directive):
    """`shadow_group g(...)` or `reduction_group g(...)`: what a group holds."""

    kind: Literal["shadow", "reduction"]
    group: str
    renewals: tuple[Renewal, ...] = ()
    reductions: tuple[Reduction, ...] = ()


@dataclass(frozen=True, slots=True)
class UseGroup(Directive):
    """`shadow_start`, `reduction_wait`, `consistent_…`, `prefetch`, `reset`, `asynchronous`, `asyncwait`…"""

    kind: Literal["shadow", "reduction", "consistent", "remote", "copy"]
    step: Literal["start", "wait", "prefetch", "reset"]
    group: str


@dataclass(frozen=True, slots=True)
class TaskRegion(Directive):
    """`task_region tasks`."""

    tasks: str
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class On(Directive):
    """`on tasks(i)`: what follows is that task."""

    task: Reference
    clauses: tuple[Clause, ...] = ()


@dataclass(frozen=True, slots=True)
class Map(Directive):
    """`map tasks(i) onto processors(a:b)` (or `by weights`)."""

    task: Reference
    onto: Reference


@dataclass(frozen=True, slots=True)
class NewArray(Directive):
    """C-DVM's `DVM(create)`-like allocations and Fortran's `template_create`/`template_delete`."""

    delete: bool
    items: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class ShadowAdd(Directive):
    """`shadow_add`: a named edge of derived indices in one dimension of a template."""

    array: Reference
    axis: int
    derived: Derived
    edge: str
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Localize(Directive):
    """`localize(ref => target[:])`: the indices in `ref` become local ones."""

    array: str
    target: str
    axis: int | None
    """Of the target, from 0."""


@dataclass(frozen=True, slots=True)
class ArrayCopy(Directive):
    """`array_copy(to = from)`, and the assignment between array sections in `f90`."""

    to: Reference
    source: Reference


EndKind = Literal[
    "region", "task_region", "on", "interval", "debug", "asynchronous", "check_section", "host_section", "parallel"
]


@dataclass(frozen=True, slots=True)
class End(Directive):
    """The end of what another directive opened."""

    kind: EndKind


@dataclass(frozen=True, slots=True)
class Note(Directive):
    """A directive without a meaning for the data (intervals, debug, trace, barrier, checkpoints), as it was read."""

    keyword: str
    arguments: tuple[Expression, ...] = ()
