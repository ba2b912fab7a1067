"""The ways through a loop: which instructions its second copy has, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.instrument.rows.code import FLAGS_READ, FLAGS_SET, MARK, Graph, reach
from weft.instrument.rows.values import Unfit
from weft.native.headers.check_rows import MOST_BLOCKS

MOST_NODES: Final = 20000


@dataclass(slots=True)
class Block:
    """Nodes of the copy that always follow one another, and the blocks behind them: where control falls, then jumps."""

    nodes: list[int]
    next: tuple[int, ...]


class Ways:
    """The ways from a loop's start around to it again. Unfit where there is none, or a loop within the loop."""

    def __init__(self, graph: Graph, mark: int, rank: int) -> None:
        self.graph, self.codes, self.mark, self.rank = graph, graph.codes, mark, rank
        self.start = mark + 1 if rank else mark
        self.last = mark if rank else graph.end
        self.prefix: list[int] = []
        """What leads to the mark, from the loop's head."""

        self.nodes = self._nodes(self._body())
        self.order = self._order()
        self.blocks = self._blocks()

    def next(self, n: int) -> list[int]:
        """Where control goes within one way around."""
        if n == self.last:
            return []
        if self.rank:
            return self.codes[n].next
        return [self.last if there == self.mark else there for there in self.codes[n].next]

    def inside(self, n: int) -> list[int]:
        """Where control goes in the copy."""
        return [there for there in self.next(n) if there in self.nodes]

    def _body(self) -> set[int]:
        """The natural loop around the mark."""
        graph, head = self.graph, self.mark
        if not self.rank and flags_read(graph, head):
            raise Unfit
        while self.rank and len(graph.before.get(head, [])) == 1:
            head = graph.before[head][0]
            self.prefix.insert(0, head)
            if graph.is_call(head):
                raise Unfit
        latches = graph.latches(head)
        body = reach(latches, lambda n: graph.before.get(n, []), {head}) | {head}
        marks = [n for n in body if graph.is_call(n) and MARK.match(self.codes[n].target)]
        if not latches or marks != ([self.mark] if self.rank else []):
            raise Unfit
        return body

    def _nodes(self, body: set[int]) -> set[int]:
        """What lies on ways around that call nothing but hooks."""
        codes, graph = self.codes, self.graph
        fit = {n for n in body if graph.is_hook(n) or codes[n].word not in ("call", "callq", "ret", "unknown")}
        fit.add(self.last)

        def onward(n: int) -> list[int]:
            return [there for there in self.next(n) if there in fit]

        ahead = reach([self.start], onward, set())
        before: dict[int, list[int]] = {}
        for n in ahead:
            for there in onward(n):
                before.setdefault(there, []).append(n)
        nodes = ahead & reach([self.last], lambda n: before.get(n, []), set())
        if self.start not in nodes or self.last not in nodes or len(nodes) > MOST_NODES:
            raise Unfit
        if not any(graph.is_hook(n) for n in nodes):
            raise Unfit
        return nodes

    def _order(self) -> list[int]:
        """The nodes in topological order. Unfit where there is a loop within the loop."""
        waits = dict.fromkeys(self.nodes, 0)
        for n in self.nodes:
            for there in self.inside(n):
                waits[there] += 1
        if waits[self.start]:
            raise Unfit
        ready, order = [self.start], []
        while ready:
            n = ready.pop()
            order.append(n)
            for there in self.inside(n):
                waits[there] -= 1
                if not waits[there]:
                    ready.append(there)
        if len(order) != len(self.nodes) or order[-1] != self.last:
            raise Unfit
        return order

    def _blocks(self) -> list[Block]:
        """The order cut where ways part or meet; what is behind a block comes later."""
        met = dict.fromkeys(self.order, 0)
        for n in self.order:
            onward = self.inside(n)
            for there in onward:
                met[there] += len(onward)
        starts = [k for k, n in enumerate(self.order) if k == 0 or met[n] != 1]
        if len(starts) > MOST_BLOCKS:
            raise Unfit
        number = {self.order[k]: at for at, k in enumerate(starts)}
        made = []
        for k, end in zip(starts, [*starts[1:], len(self.order)], strict=True):
            nodes = self.order[k:end]
            made.append(Block(nodes, tuple(number[there] for there in self.inside(nodes[-1]))))
        return made


def flags_read(graph: Graph, n: int) -> bool:
    """Whether the flags at a node may still be read."""
    while n < len(graph.codes) and not graph.is_hook(n):
        one = graph.codes[n]
        if FLAGS_READ.match(one.word) or one.word in ("jmp", "call", "callq", "ret"):
            return True
        if FLAGS_SET.match(one.word):
            return False
        n += 1
    return False
