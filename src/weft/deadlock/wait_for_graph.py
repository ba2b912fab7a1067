"""Solve the AND-OR wait-for graph: what each blocked rank needs, and which ranks can never get it.

After Hilbrich, Protze, Schulz, de Supinski, Müller, "MPI Runtime Error Detection with MUST" (SC 2012): release what can
go on until nothing changes; what stays is deadlocked, and that is a proof.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from weft.base.lazy import dataclass


@dataclass(frozen=True, eq=False)
class Need:
    """What must happen before a call can return: that ranks go on, all of them (`every`) or any.

    Needs are compared by identity, so that a thousand members of one barrier share the one set of absent ranks.
    """

    ranks: frozenset[int] = frozenset()
    needs: tuple[Need, ...] = field(default=())
    every: bool = True

    @property
    def terms(self) -> int:
        """Return the number of things that it asks for."""
        return len(self.ranks) + len(self.needs)

    def all_ranks(self) -> frozenset[int]:
        """Return every rank that is named in it, at any depth."""
        return self.ranks.union(*(need.all_ranks() for need in self.needs))


NOW = Need()
"""Nothing is missing: the call can return."""

NEVER = Need(every=False)
"""Nothing can help."""


def need_rank(index: int) -> Need:
    """Return the need that one rank continues."""
    return Need(frozenset((index,)))


def need_all(needs: Iterable[Need]) -> Need:
    """Return all of `needs`; what is there already drops out."""
    open_ = tuple(need for need in needs if need is not NOW)
    return open_[0] if len(open_) == 1 else Need(needs=open_) if open_ else NOW


def need_any(needs: Iterable[Need]) -> Need:
    """Return the need that is met as soon as one of `needs` is met."""
    found = tuple(needs)
    if any(need is NOW for need in found):
        return NOW
    return found[0] if len(found) == 1 else Need(needs=found, every=False)


def find_stuck(needs: Mapping[int, Need]) -> frozenset[int]:
    """Return the ranks in `needs` that can never continue. A rank without a need can always continue."""
    count, above, of_rank = _make_graph(needs)
    waiting: dict[int, list[int]] = defaultdict(list)
    for index, need in needs.items():
        waiting[id(need)].append(index)
    able: set[int] = set()
    ready_ranks = [index for index in of_rank if index not in needs]
    ready_needs = [key for key, left in count.items() if left == 0]
    while ready_ranks or ready_needs:
        if ready_needs:
            key = ready_needs.pop()
            met, now = above[key], [index for index in waiting[key] if index not in able]
            able.update(now)
            ready_ranks += now
        else:
            met = of_rank.pop(ready_ranks.pop(), [])
        for parent in met:
            count[parent] -= 1
            if count[parent] == 0:
                ready_needs.append(parent)
    return frozenset(needs).difference(able)


def _make_graph(needs: Mapping[int, Need]) -> tuple[dict[int, int], dict[int, list[int]], dict[int, list[int]]]:
    """Return three tables by which the graph of needs is searched: {need: how many of its terms are still unmet},
    {need: the needs that contain it}, {rank: the needs that name it}. A need stands in them as its id()."""
    count: dict[int, int] = {}
    above: dict[int, list[int]] = defaultdict(list)
    of_rank: dict[int, list[int]] = defaultdict(list)
    for need in _iterate_distinct_needs(needs.values()):
        key = id(need)
        # An OR is met by its first term; one without terms is never met.
        count[key] = need.terms if need.every else 1
        for child in need.needs:
            above[id(child)].append(key)
        for index in need.ranks:
            of_rank[index].append(key)
    return count, above, of_rank


def _iterate_distinct_needs(needs: Iterable[Need]) -> Iterator[Need]:
    """Yield every need once: the given ones, and those that are terms of others."""
    seen: set[int] = set()
    stack = list(needs)
    while stack:
        need = stack.pop()
        if id(need) not in seen:
            seen.add(id(need))
            yield need
            stack.extend(need.needs)


def find_components(ranks: frozenset[int], needs: Mapping[int, Need]) -> list[frozenset[int]]:
    """Divide the wait-for graph over `ranks` into its connected components. Return the ranks of each, ordered by the
    least rank."""
    leader: dict[int, int] = {}

    def find_leader(index: int) -> int:
        """Return the representative of the set that a rank belongs to."""
        leader.setdefault(index, index)
        while leader[index] != index:
            leader[index] = leader[leader[index]]
            index = leader[index]
        return index

    others: dict[int, frozenset[int]] = {}
    for index in sorted(ranks):
        need = needs[index]
        if id(need) in others:
            named: Iterable[int] = list(others[id(need)])[:1]
        else:
            named = others[id(need)] = frozenset(i for i in need.all_ranks() if i in needs)
        for other in named:
            a, b = find_leader(index), find_leader(other)
            leader[max(a, b)] = min(a, b)
    parts: dict[int, set[int]] = defaultdict(set)
    for index in ranks:
        parts[find_leader(index)].add(index)
    return [frozenset(part) for part in sorted(parts.values(), key=min)]


def find_cores(ranks: frozenset[int], needs: Mapping[int, Need]) -> list[frozenset[int]]:
    """Return the sets of `ranks` in which a deadlock starts: strongly connected in the wait-for graph, and waiting for
    nobody outside the set."""
    edges: dict[int, tuple[int, ...]] = {}
    names: dict[int, int] = {}

    def number_need(need: Need) -> int:
        """Return the number of a need as a node, and add its edges when it is first seen."""
        if id(need) not in names:
            names[id(need)] = key = -1 - len(names)
            edges[key] = (*sorted(need.ranks & ranks), *(number_need(child) for child in need.needs))
        return names[id(need)]

    for index in sorted(ranks):
        edges[index] = (number_need(needs[index]),)
    parts = _strong_components(edges)
    part_of = {key: number for number, part in enumerate(parts) for key in part}
    bottom = []
    for number, part in enumerate(parts):
        inside = frozenset(key for key in part if key >= 0)
        if inside and all(_stays_inside(key, number, part_of, edges) for key in part):
            bottom.append(inside)
    return sorted(bottom, key=min)


def _stays_inside(key: int, number: int, part_of: Mapping[int, int], edges: Mapping[int, tuple[int, ...]]) -> bool:
    """Return whether all ranks that can be reached from the node `key` are in the component `number`. Nodes of needs
    that lead to no rank do not count."""
    stack, seen = list(edges[key]), set()
    while stack:
        other = stack.pop()
        if part_of[other] == number or other in seen:
            continue
        if other >= 0:
            return False
        seen.add(other)
        stack.extend(edges[other])
    return True


def _strong_components(edges: Mapping[int, tuple[int, ...]]) -> list[list[int]]:
    """Return the strongly connected components of a graph (Tarjan 1972), without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_path: set[int] = set()
    path: list[int] = []
    parts: list[list[int]] = []
    for start in edges:
        if start in index:
            continue
        work = [(start, iter(edges[start]))]
        index[start] = low[start] = len(index)
        path.append(start)
        on_path.add(start)
        while work:
            key, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    path.append(other)
                    on_path.add(other)
                    work.append((other, iter(edges[other])))
                    break
                if other in on_path:
                    low[key] = min(low[key], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[key])
                if low[key] == index[key]:
                    cut = path.index(key) if path[-1] != key else len(path) - 1
                    part = path[cut:]
                    del path[cut:]
                    on_path.difference_update(part)
                    parts.append(part)
    return parts
