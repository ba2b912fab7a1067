"""Gives each record its place among the ranks of a run: worlds by their start, in each the ranks by number."""

from __future__ import annotations

from collections import Counter, defaultdict

from weft.trace.communicators import format_members
from weft.trace.rank import Rank, Run
from weft.trace.rankfile import RankFile
from weft.trace.worlds import World


class RankPlaces:
    """The worlds of a run and all their ranks; ranks without a record too, and records without a rank last."""

    def __init__(self, trace: Run, files: list[RankFile]) -> None:
        self.worlds: list[World] = []
        self.ranks: list[Rank] = []
        self._trace, self._say = trace, trace.add_problem
        self._nameless: list[tuple[int, RankFile]] = []
        jobs: dict[str, list[RankFile]] = defaultdict(list)
        for file in files:
            jobs[file.header.job].append(file)
        order = sorted(jobs, key=lambda job: (min(f.header.start.realtime_ns for f in jobs[job]), job))
        for job in order:
            for part in split_spawned_worlds(jobs[job]) if job != order[0] else [jobs[job]]:
                self._add_world(job, part)
        if not order:
            self._add_world("", [])
        for world, file in self._nameless:
            self._say(f"{file.name}: the process ended before its rank was known; it is shown after the last rank")
            self.ranks.append(Rank(self._trace, len(self.ranks), world, -1, file))

    def _add_world(self, job: str, files: list[RankFile]) -> None:
        """Add an MPI_COMM_WORLD and its ranks, made from the records of one job. Problems are noted, such as ranks
        without a record.
        """
        index = len(self.worlds)
        by_rank: dict[int, RankFile] = {}
        for file in sorted(files, key=lambda f: (f.header.start.realtime_ns, f.name)):
            rank = file.header.rank
            if rank < 0:
                self._nameless.append((index, file))
                continue
            if rank in by_rank:
                self._say(
                    f"{file.name}: rank {rank} has two records, this one and {by_rank[rank].name}; Weft uses the "
                    f"later one"
                )
            by_rank[rank] = file
        size = self._world_size(index, files, by_rank)
        first = len(self.ranks)
        if size > 16 * len(files) + 256:
            self._say(f"{size - len(by_rank)} of {size} ranks left no record, and are not shown")
            places = sorted(by_rank)
            indices = {rank: first + i for i, rank in enumerate(places)}
            members = tuple(indices.get(i, -1) for i in range(size))
        else:
            places = list(range(size))
            members = tuple(range(first, first + size))
            missing = [rank for rank in places if rank not in by_rank]
            if missing:
                self._say(_missing_sentence(missing, size, index, len(files)))
        for rank in places:
            self.ranks.append(Rank(self._trace, len(self.ranks), index, rank, by_rank.get(rank)))
        started = min((f.header.start.realtime_ns for f in files), default=0)
        self.worlds.append(World(index, job, started, members))

    def _world_size(self, world: int, files: list[RankFile], by_rank: dict[int, RankFile]) -> int:
        """Return the number of ranks of a world. Most of its records must name this number, and no rank may lie beyond
        it; where a world can grow, the largest named number is taken.

        Records with an impossible rank are removed from `by_rank`. Problems are noted.
        """
        least = 1 + max((r for r in by_rank if r < 2**20), default=-1)
        for rank in [r for r in by_rank if r >= 2**20]:
            self._say(f"{by_rank.pop(rank).name}: {rank} cannot be the number of a rank; Weft left the file out")
        said = Counter(f.header.world_size for f in files if f.header.world_size > 0)
        size = said.most_common(1)[0][0] if said else 0
        if self._trace.system.grows:
            size = max(said, default=0)
        elif len(said) > 1:
            self._say(f"the records of world {world} do not agree on its size: {', '.join(map(str, sorted(said)[:5]))}")
        if not size and world == 0:  # MPI ended before a rank knew it: `weft run -n` did, or who counted the records
            told = [self._trace.run.get(key) for key in ("n", "ranks")]
            size = max((one for one in told if isinstance(one, int) and 0 < one < 2**20), default=0)
        if size >= 2**20:
            self._say(f"a world cannot have {size} ranks; Weft assumes {least}")
            size = least
        return max(size, least)


def split_spawned_worlds(files: list[RankFile]) -> list[list[RankFile]]:
    """Split the records of one job into worlds. MPICH's launcher gives the same job name to all worlds that one of its
    proxies starts.

    Worlds of one size were started one after the other: the n-th record of each rank belongs to the n-th world.
    """
    worlds: dict[tuple[int, int], list[RankFile]] = defaultdict(list)
    seen: Counter[tuple[int, int]] = Counter()
    for file in sorted(files, key=lambda f: (f.header.start.realtime_ns, f.name)):
        size, rank = file.header.world_size, file.header.rank
        worlds[size, seen[size, rank] if rank >= 0 else 0].append(file)
        seen[size, rank] += 1
    return sorted(worlds.values(), key=lambda part: part[0].header.start.realtime_ns)


def _missing_sentence(missing: list[int], size: int, world: int, files: int) -> str:
    """Return a sentence on the ranks that left no readable record, and on the remedy. `missing`: their numbers;
    `files`: how many records there are.
    """
    who = format_members(missing)
    where = f" of world {world}" if world else ""
    return (
        f"{len(missing)} of {size} ranks{where} left no readable record: {who}. Copy all of RUN/ranks, or record again"
    )
