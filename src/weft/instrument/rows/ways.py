"""The ways through a loop: which instructions its second copy has, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.instrument.rows.code import FLAGS_READ, FLAGS_SET, MARK, ControlFlowGraph, find_reachable_nodes
from weft.instrument.rows.values import NoCopyError
from weft.native.headers.check_rows import MOST_BLOCKS

MOST_NODES: Final = 20000


@dataclass(slots=True)
class LoopBlock:
    """Nodes of the copy that always follow one another, and the blocks after them: where control falls, then jumps."""

    nodes: list[int]
    next: tuple[int, ...]


class LoopPaths:
    """The paths from a loop's start around to it again. NoCopyError if there is none, or a loop within the loop."""

    def __init__(self, graph: ControlFlowGraph, mark: int, rank: int) -> None:
        self.graph, self.codes, self.mark, self.rank = graph, graph.codes, mark, rank
        self.start = mark + 1 if rank else mark
        self.last = mark if rank else graph.end
        self.prefix: list[int] = []
        """What leads to the mark, from the loop's head."""

        self.nodes = self._choose_nodes(self._find_body())
        self.order = self._sort_nodes()
        self.blocks = self._split_into_blocks()

    def find_next(self, node: int) -> list[int]:
        """Return the nodes (instruction indices) that can follow a node within one iteration, also those that leave the
        copy.
        """
        if node == self.last:
            return []
        if self.rank:
            return self.codes[node].next
        return [self.last if there == self.mark else there for there in self.codes[node].next]

    def inside(self, node: int) -> list[int]:
        """Return the nodes of the copy that can follow a node."""
        return [there for there in self.find_next(node) if there in self.nodes]

    def _find_body(self) -> set[int]:
        """Return the nodes (instruction indices) of the loop whose iterations begin at `mark`. Raises NoCopyError if no
        loop is there, or if it cannot be copied.
        """
        graph, head = self.graph, self.mark
        if not self.rank and are_flags_read(graph, head):
            raise NoCopyError
        while self.rank and len(graph.before.get(head, [])) == 1:
            head = graph.before[head][0]
            self.prefix.insert(0, head)
            if graph.is_call(head):
                raise NoCopyError
        latches = graph.find_latches(head)
        body = find_reachable_nodes(latches, lambda n: graph.before.get(n, []), {head}) | {head}
        marks = [n for n in body if graph.is_call(n) and MARK.match(self.codes[n].target)]
        if not latches or marks != ([self.mark] if self.rank else []):
            raise NoCopyError
        return body

    def _choose_nodes(self, body: set[int]) -> set[int]:
        """Return the nodes of the loop's body from which control can come back to the loop's head. Raises NoCopyError
        if these contain no hook, call anything but hooks, or are too many."""
        codes, graph = self.codes, self.graph
        fit = {n for n in body if graph.is_hook(n) or codes[n].word not in ("call", "callq", "ret", "unknown")}
        fit.add(self.last)

        def onward(n: int) -> list[int]:
            return [there for there in self.find_next(n) if there in fit]

        ahead = find_reachable_nodes([self.start], onward, set())
        before: dict[int, list[int]] = {}
        for n in ahead:
            for there in onward(n):
                before.setdefault(there, []).append(n)
        nodes = ahead & find_reachable_nodes([self.last], lambda n: before.get(n, []), set())
        if self.start not in nodes or self.last not in nodes or len(nodes) > MOST_NODES:
            raise NoCopyError
        if not any(graph.is_hook(n) for n in nodes):
            raise NoCopyError
        return nodes

    def _sort_nodes(self) -> list[int]:
        """Return the nodes of the copy in topological order: each comes after all that lead to it. Raises NoCopyError
        if there is a loop within the loop.
        """
        waits = dict.fromkeys(self.nodes, 0)
        for n in self.nodes:
            for there in self.inside(n):
                waits[there] += 1
        if waits[self.start]:
            raise NoCopyError
        ready, order = [self.start], []
        while ready:
            n = ready.pop()
            order.append(n)
            for there in self.inside(n):
                waits[there] -= 1
                if not waits[there]:
                    ready.append(there)
        if len(order) != len(self.nodes) or order[-1] != self.last:
            raise NoCopyError
        return order

    def _split_into_blocks(self) -> list[LoopBlock]:
        """Return the nodes as blocks in order, so that a block's successors come after it. A block begins where paths
        part or meet. Raises NoCopyError for too many blocks.
        """
        met = dict.fromkeys(self.order, 0)
        for n in self.order:
            onward = self.inside(n)
            for there in onward:
                met[there] += len(onward)
        starts = [k for k, n in enumerate(self.order) if k == 0 or met[n] != 1]
        if len(starts) > MOST_BLOCKS:
            raise NoCopyError
        number = {self.order[k]: at for at, k in enumerate(starts)}
        made = []
        for k, end in zip(starts, [*starts[1:], len(self.order)], strict=True):
            nodes = self.order[k:end]
            made.append(LoopBlock(nodes, tuple(number[there] for there in self.inside(nodes[-1]))))
        return made


def are_flags_read(graph: ControlFlowGraph, node: int) -> bool:
    """Return whether the processor's flags, as they are before a node (an instruction index), may still be read."""
    while node < len(graph.codes) and not graph.is_hook(node):
        one = graph.codes[node]
        if FLAGS_READ.match(one.word) or one.word in ("jmp", "call", "callq", "ret"):
            return True
        if FLAGS_SET.match(one.word):
            return False
        node += 1
    return False
