"""The calls that map arrays, templates and task arrays of a Fortran-DVM(H) unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.base.words import plural
from weft.dvm import syntax
from weft.dvm.fortran_calls import (
    KINDS,
    LATER,
    int_array,
    long_array,
    mapping_arrays,
    render_only_subscript,
)
from weft.dvm.fortran_names import ArrayMapping, UnitNames
from weft.dvm.syntax import DirectiveError, Position


class UnitMappings(UnitNames):
    """Writes what maps the data of one unit."""

    def render_task_array(self, name: str) -> Iterator[str]:
        """Yield the Fortran call that registers the task array of `task mb(n)`."""
        entity = self.mappings.find_task_arrays(self.unit)[name]
        size = entity.sizes[0] if entity.sizes else syntax.Section(None, None)
        low = size.low.text if size.low else "1"
        high = size.high.text if size.high else "1"
        number = self.find_task_array_id(name, entity.place)
        yield f"call weft_check_task_array({number}, int({low}, 8), int(({high}) - ({low}) + 1, 8))"

    def render_mappings(
        self, mappings: dict[str, ArrayMapping], only_names: frozenset[str] | None = None
    ) -> Iterator[str]:
        """Yield the Fortran calls that create templates, then distribute arrays, then align arrays with their targets.
        `only_names`: the arrays to do so for; None means all.
        """
        waiting = [m for m in mappings.values() if only_names is None or m.name in only_names]
        for mapping in waiting:
            if mapping.template is not None and all(size.high is not None for size in mapping.template):
                yield self.render_template(mapping.name, mapping.template, mapping.place)
        done: set[str] = set()
        while waiting:
            ready = [
                m
                for m in waiting
                if not (m.alignment and m.alignment.target)
                or m.alignment.target.name not in {w.name for w in waiting if w is not m}
                or m.alignment.target.name in done
            ] or waiting
            for mapping in ready:
                yield from self.render_mapping(mapping)
                done.add(mapping.name)
            waiting = [m for m in waiting if m not in ready]

    def render_template(self, name: str, sizes: Sequence[syntax.Section], position: Position) -> str:
        """Return the Fortran call that registers the template of a directive such as `template t(n,0:m)`."""
        low = [size.low.text if size.low else "1" for size in sizes]
        high = [size.high.text if size.high else "1" for size in sizes]
        once = int(self.resolve_symbol(name, position)[1].module)
        return (
            f"call weft_check_template({self.find_data_id(name, position)}, {once}, {len(sizes)}, "
            f"{long_array(low)}, {long_array(high)})"
        )

    def render_mapping(self, mapping: ArrayMapping, allocated: bool = False) -> Iterator[str]:
        """Yield the Fortran calls for the distribution or alignment of one array or template, and for its
        shadow edges.
        """
        _, symbol = self.resolve_symbol(mapping.name, mapping.place)
        if (symbol.allocatable or symbol.pointer) and not allocated:
            return
        if mapping.template is None and not (symbol.array or symbol.pointer):
            raise DirectiveError(
                mapping.place, f"`{mapping.name}` is not an array; declare its dimensions, or leave it out here"
            )
        once = int(not allocated and (symbol.dummy or symbol.static or "*save" in self.unit.symbols))
        if mapping.alignment is not None:
            yield from self.render_alignment(mapping.construct, mapping.name, mapping.alignment, mapping.place, once)
        elif mapping.distribution is not None:
            yield from self.render_distribution(
                mapping.construct, mapping.name, mapping.distribution, mapping.place, once
            )
        if mapping.shadow is not None:
            low, high = self.render_widths(mapping.shadow.widths)
            number = self.find_data_id(mapping.name, mapping.place)
            yield f"call weft_check_shadow({number}, {len(low)}, {long_array(low)}, {long_array(high)}, {mapping.name})"

    @staticmethod
    def render_widths(widths: Sequence[syntax.Width | syntax.NamedEdges]) -> tuple[list[str], list[str]]:
        """Return Fortran text of the widths below and above each dimension, as two lists. Named edges count as 0: their
        widths are known at run time only.
        """
        plain = [width if isinstance(width, syntax.Width) else None for width in widths]
        return [w.low.text if w else "0" for w in plain], [w.high.text if w else "0" for w in plain]

    def render_distribution(
        self, construct_id: int, name: str, distribution: syntax.Distribution, position: Position, is_only_first: int
    ) -> Iterator[str]:
        """Yield the Fortran calls for a distribution such as `distribute a(block,*) onto p`. `is_only_first`: 1 if the
        calls may take effect only the first time they run.
        """
        later = False
        if distribution.axes is None:  # a later REDISTRIBUTE gives it; until then every processor has all of it
            known, symbol = self.find_mapping(name), self.resolve_symbol(name, position)[1]
            rank = len(known.template) if known and known.template else symbol.rank
            distribution = syntax.Distribution((syntax.Axis("*"),) * rank)
            later = not symbol.dummy
        assert distribution.axes is not None
        self.require_rank(name, len(distribution.axes), position)
        number = self.find_data_id(name, position)
        for dimension, axis in enumerate(distribution.axes):
            if axis.kind in ("genblock", "wgtblock", "multblock") and axis.argument:
                base = self.address_argument(name)
                yield f"call weft_check_blocks({number}, {dimension}, {axis.argument.text}{base})"
        tasks, task = 0, "0"
        onto = distribution.onto
        if onto and self.is_task_array(onto.name):
            tasks = self.find_task_array_id(onto.name, onto.place)
            task = render_only_subscript(onto)
        kinds = int_array([LATER if later else KINDS[axis.kind] for axis in distribution.axes])
        rank = len(distribution.axes)
        yield (
            f"call weft_check_distribute({construct_id}, {number}, {is_only_first}, {rank}, {kinds}, {tasks}, "
            f"int({task}, 8){self.address_argument(name)})"
        )

    def require_rank(self, name: str, named_dimensions: int, position: Position) -> None:
        """Raise DirectiveError if a directive names another number of dimensions for an array than the array has."""
        _, symbol = self.resolve_symbol(name, position)
        mapping = self.find_mapping(name)
        has = len(mapping.template) if mapping and mapping.template else symbol.rank
        if has and has != named_dimensions:
            what = f"`{name}` has {plural(has, 'dimension')}, the directive names {named_dimensions}; name each of them"
            raise DirectiveError(position, what)

    def render_alignment(
        self, construct_id: int, name: str, alignment: syntax.Alignment, position: Position, is_only_first: int
    ) -> Iterator[str]:
        """Yield the Fortran calls for an alignment such as `align b(i,j) with a(i,j+1)`. `is_only_first`: 1 if the
        calls may take effect only the first time they run.
        """
        target = alignment.target
        if target is None:
            return
        if alignment.dummies is not None:
            self.require_rank(name, len(alignment.dummies), position)
        if self.program.owner(self.unit, target.name) is None and not self.is_template(target.name):
            raise DirectiveError(
                target.place, f"`{target.name}` is declared nowhere; declare the array or the template"
            )
        _, symbol = self.resolve_symbol(target.name, target.place)
        if target.subscripts is None:
            rank = self.resolve_symbol(name, position)[1].rank
            axis, coefficient, offset = list(range(rank)), ["1"] * rank, ["0"] * rank
        else:
            self.require_rank(target.name, len(target.subscripts), target.place)
            axis, coefficient, offset = mapping_arrays(target.subscripts)
        call = (
            f"call weft_check_align({construct_id}, {self.find_data_id(name, position)}, {is_only_first}, "
            f"{self.find_data_id(target.name, target.place)}, {len(axis)}, {int_array(axis)}, "
            f"{long_array(coefficient)}, {long_array(offset)}{self.address_argument(name)}"
            f"{self.address_argument(target.name, 'goal')})"
        )
        if (symbol.allocatable or symbol.pointer) and not symbol.dummy:
            call = f"if ({'associated' if symbol.pointer else 'allocated'}({target.name})) {call}"
        yield call
