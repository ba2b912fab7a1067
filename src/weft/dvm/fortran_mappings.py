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
    only_index,
    triples,
)
from weft.dvm.fortran_names import ArrayMapping, UnitNames
from weft.dvm.syntax import DirectiveError, Position


class UnitMappings(UnitNames):
    """Writes what maps the data of one unit."""

    def task_array(self, name: str) -> Iterator[str]:
        """`task mb(n)`."""
        entity = self.mappings.tasks(self.unit)[name]
        size = entity.sizes[0] if entity.sizes else syntax.Section(None, None)
        low = size.low.text if size.low else "1"
        high = size.high.text if size.high else "1"
        number = self.tasks(name, entity.place)
        yield f"call weft_check_task_array({number}, int({low}, 8), int(({high}) - ({low}) + 1, 8))"

    def mapped(self, mappings: dict[str, ArrayMapping], only: frozenset[str] | None = None) -> Iterator[str]:
        """Yield the mappings of what has its memory now: templates, then what stands by itself, then what is
        aligned.
        """
        waiting = [m for m in mappings.values() if only is None or m.name in only]
        for mapping in waiting:
            if mapping.template is not None and all(size.high is not None for size in mapping.template):
                yield self.template(mapping.name, mapping.template, mapping.place)
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
                yield from self.mapping_calls(mapping)
                done.add(mapping.name)
            waiting = [m for m in waiting if m not in ready]

    def template(self, name: str, sizes: Sequence[syntax.Section], place: Position) -> str:
        """`template t(n,0:m)`."""
        low = [size.low.text if size.low else "1" for size in sizes]
        high = [size.high.text if size.high else "1" for size in sizes]
        once = int(self.symbol(name, place)[1].module)
        return (
            f"call weft_check_template({self.data(name, place)}, {once}, {len(sizes)}, "
            f"{long_array(low)}, {long_array(high)})"
        )

    def mapping_calls(self, mapping: ArrayMapping, allocated: bool = False) -> Iterator[str]:
        """Distribution or alignment of one name, and its shadow edges."""
        _, symbol = self.symbol(mapping.name, mapping.place)
        if (symbol.allocatable or symbol.pointer) and not allocated:
            return
        if mapping.template is None and not (symbol.array or symbol.pointer):
            raise DirectiveError(
                mapping.place, f"`{mapping.name}` is not an array; declare its dimensions, or leave it out here"
            )
        once = int(not allocated and (symbol.dummy or symbol.static or "*save" in self.unit.symbols))
        if mapping.alignment is not None:
            yield from self.align(mapping.construct, mapping.name, mapping.alignment, mapping.place, once)
        elif mapping.distribution is not None:
            yield from self.distribute(mapping.construct, mapping.name, mapping.distribution, mapping.place, once)
        if mapping.shadow is not None:
            low, high = self.widths(mapping.shadow.widths)
            number = self.data(mapping.name, mapping.place)
            yield f"call weft_check_shadow({number}, {len(low)}, {long_array(low)}, {long_array(high)}, {mapping.name})"

    @staticmethod
    def widths(widths: Sequence[syntax.Width | syntax.NamedEdges]) -> tuple[list[str], list[str]]:
        """Return the widths below and above; what named edges hold is known at run time only."""
        plain = [width if isinstance(width, syntax.Width) else None for width in widths]
        return [w.low.text if w else "0" for w in plain], [w.high.text if w else "0" for w in plain]

    def distribute(
        self, construct: int, name: str, distribution: syntax.Distribution, place: Position, once: int
    ) -> Iterator[str]:
        """`distribute a(block,*) onto p`."""
        later = False
        if distribution.axes is None:  # a later REDISTRIBUTE gives it; until then every processor has all of it
            known, symbol = self.mapping(name), self.symbol(name, place)[1]
            rank = len(known.template) if known and known.template else symbol.rank
            distribution = syntax.Distribution((syntax.Axis("*"),) * rank)
            later = not symbol.dummy
        assert distribution.axes is not None
        self.fits(name, len(distribution.axes), place)
        number = self.data(name, place)
        for dimension, axis in enumerate(distribution.axes):
            if axis.kind in ("genblock", "wgtblock", "multblock") and axis.argument:
                base = self.base(name)
                yield f"call weft_check_blocks({number}, {dimension}, {axis.argument.text}{base})"
        tasks, task = 0, "0"
        onto = distribution.onto
        if onto and self.is_tasks(onto.name):
            tasks = self.tasks(onto.name, onto.place)
            task = only_index(onto)
        kinds = int_array([LATER if later else KINDS[axis.kind] for axis in distribution.axes])
        rank = len(distribution.axes)
        yield (
            f"call weft_check_distribute({construct}, {number}, {once}, {rank}, {kinds}, {tasks}, "
            f"int({task}, 8){self.base(name)})"
        )

    def fits(self, name: str, rank: int, place: Position) -> None:
        """Complain where a directive gives an array another number of dimensions than it has."""
        _, symbol = self.symbol(name, place)
        mapping = self.mapping(name)
        has = len(mapping.template) if mapping and mapping.template else symbol.rank
        if has and has != rank:
            what = f"`{name}` has {plural(has, 'dimension')}, the directive names {rank}; name each of them"
            raise DirectiveError(place, what)

    def align(
        self, construct: int, name: str, alignment: syntax.Alignment, place: Position, once: int
    ) -> Iterator[str]:
        """`align b(i,j) with a(i,j+1)`."""
        target = alignment.target
        if target is None:
            return
        if alignment.dummies is not None:
            self.fits(name, len(alignment.dummies), place)
        if self.program.owner(self.unit, target.name) is None and not self.is_template(target.name):
            raise DirectiveError(
                target.place, f"`{target.name}` is declared nowhere; declare the array or the template"
            )
        _, symbol = self.symbol(target.name, target.place)
        if target.subscripts is None:
            rank = self.symbol(name, place)[1].rank
            axis, coefficient, offset = list(range(rank)), ["1"] * rank, ["0"] * rank
        else:
            self.fits(target.name, len(target.subscripts), target.place)
            axis, coefficient, offset = triples(target.subscripts)
        call = (
            f"call weft_check_align({construct}, {self.data(name, place)}, {once}, "
            f"{self.data(target.name, target.place)}, {len(axis)}, {int_array(axis)}, {long_array(coefficient)}, "
            f"{long_array(offset)}{self.base(name)}{self.base(target.name, 'goal')})"
        )
        if (symbol.allocatable or symbol.pointer) and not symbol.dummy:
            call = f"if ({'associated' if symbol.pointer else 'allocated'}({target.name})) {call}"
        yield call
