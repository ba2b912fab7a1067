"""Builds a run: its ranks, and what several of them do together."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.mpi import table
from weft.safety.runs import add_signature
from weft.trace.builder.collectives import Collective
from weft.trace.builder.completions import Completions
from weft.trace.builder.handles import (
    SIZES,
    WORLD,
    Comm,
)
from weft.trace.builder.objects import Objects
from weft.trace.builder.point_to_point import PointToPoint
from weft.trace.builder.record import RunInMaking
from weft.trace.functions import FunctionTable
from weft.trace.layout import (
    ID_DYNAMIC,
    Def,
    Level,
)
from weft.trace.run import Trace
from weft.trace.varint import encode_signed, encode_string, encode_unsigned


class RankBuilder(PointToPoint, Completions, Collective, Objects):
    """One rank of a Builder. Methods are calls of the program, in its order."""


class Builder(RunInMaking):
    """A run being built. `path` is the run directory, a temporary one (that dies with the trace) where it is None."""

    def __init__(
        self, ranks: int, path: str | os.PathLike[str] | None = None, *, level: Level = Level.TRACE,
        ended: str = "finished", functions: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._temporary = tempfile.TemporaryDirectory(prefix="weft-builder-") if path is None else None
        self.function_data = dict(functions or standard_functions())
        folder = Path(self._temporary.name if self._temporary else str(path))
        super().__init__(folder, level, _function_table(self.function_data))
        (self.path / "ranks").mkdir(parents=True, exist_ok=True)
        self.ended = ended
        self.ranks: list[RankBuilder] = [RankBuilder(self, i, 0, i, ranks) for i in range(ranks)]
        self.world = Comm(dict.fromkeys(range(ranks), WORLD), tuple(range(ranks)))

    def comm(
        self, function: str, members: Sequence[int], parent: Comm | None = None, *, remote: Sequence[int] = (),
        key: str = "", name: str | None = None, **kw: Any,
    ) -> Comm:  # fmt: skip
        """Make a communicator on all its members. `parent` is the world by default."""
        parent = parent or self.world
        everyone = [*members, *(r for r in remote if r not in members)]
        ids = {
            i: self.ranks[i].make_comm(function, parent, members, remote=remote, key=key, name=name, **kw)
            for i in everyone
        }
        return Comm(ids, tuple(members), tuple(remote))

    def dup(self, parent: Comm | None = None, **kw: Any) -> Comm:
        """Record MPI_Comm_dup on all members, and return the new communicator."""
        parent = parent or self.world
        return self.comm("MPI_Comm_dup", parent.members, parent, **kw)

    def split(
        self, colors: Mapping[int, int] | Sequence[int], parent: Comm | None = None, **kw: Any
    ) -> dict[int, Comm]:
        """Record MPI_Comm_split on all members of `parent`. Returns the communicators by color."""
        parent = parent or self.world
        table = dict(colors if isinstance(colors, Mapping) else enumerate(colors))
        made: dict[int, Comm] = {}
        for color in sorted(set(table.values())):
            members = [i for i in parent.members if table[i] == color]
            made[color] = self.comm("MPI_Comm_split", members, parent, color=color, **kw)
        return made

    def window(
        self, comm: Comm | None = None, *, size: int = 4096, unit: int = 1, flavor: int = 0, **kw: Any
    ) -> dict[int, int]:
        """Record MPI_Win_create on all members, and return the window ids by rank index."""
        comm = comm or self.world
        made = {}
        for i in comm.members:
            rank = self.ranks[i]
            made[i] = id = rank.new_id("WINDOW")
            base = 0x100000 * (i + 1)
            fields = (id, comm.ids[i], flavor, base, size, unit, rank._children.get(-comm.ids[i], 0))
            rank._children[-comm.ids[i]] = fields[-1] + 1
            rank.define(Def.WINDOW, b"".join(map(encode_unsigned, fields)))
            rank.call("MPI_Win_create", base=base, size=size, disp_unit=unit, info=1, comm=comm, win=id, **kw)
        return made

    def spawn(self, parents: Sequence[int], size: int, *, comm: Comm | None = None, name: str = "", **kw: Any) -> Comm:
        """Record MPI_Comm_spawn by the ranks `parents` (all members of `comm`), with a new world of `size` ranks.

        The new ranks come after all others. The first of the parents is the root, which has the spawn's name. Returns
        the intercommunicator, whose `remote` are the new ranks.
        """
        world = 1 + max(rank.world for rank in self.ranks)
        first = len(self.ranks)
        children = tuple(range(first, first + size))
        self.ranks += [RankBuilder(self, first + i, world, i, size) for i in range(size)]
        self.world_start[world] = self.clock
        ids: dict[int, int] = {}
        for i in (*parents, *children):
            rank = self.ranks[i]
            others = children if i in parents else parents
            number = rank.new_id("WORLD") - ID_DYNAMIC + 1
            origin = encode_string("spawn" if i in parents else "parent")
            known = encode_string("" if i in parents[1:] else name)
            rank.define(Def.WORLD, encode_unsigned(number) + encode_unsigned(len(others)) + origin + known)
            rank.worlds[self.ranks[others[0]].world] = number, tuple(others)
            if i in parents:
                made = self.make_intercomm_for_rank(
                    rank, "MPI_Comm_spawn", parents, children, parent=comm or self.world, **kw
                )
            else:
                made = self.make_intercomm_for_rank(rank, None, children, parents, parent=None, key="parent")
            ids[i] = made
        return Comm(ids, tuple(parents), children)

    def make_intercomm_for_rank(
        self, rank: RankBuilder, function: str | None, local: Sequence[int], remote: Sequence[int], *,
        parent: Comm | None, key: str = "", **kw: Any,
    ) -> int:  # fmt: skip
        """Record one rank's part of an intercommunicator between worlds. Return the id that the rank's record has for
        it.
        """
        id = rank.new_id("COMM")
        parent_id = parent.ids[rank.index] if parent else 0
        number = self.functions[function].id if function else 0
        if function:
            rank.call(function, comm=parent_id, intercomm=id, **kw)
        payload = [encode_unsigned(v) for v in (id, parent_id, number, 0, 1)] + [
            encode_signed(list(local).index(rank.index)),
            encode_string(key),
        ]
        rank.define(Def.COMM, b"".join([*payload, self.encode_members(rank, local), self.encode_members(rank, remote)]))
        return id

    def write(self) -> Path:
        """Write the run, and return its directory."""
        for rank in self.ranks:
            rank.write()
        run = {
            "schema": "weft-run/1", "weft": "0", "command": ["prog"], "cwd": "/", "host": "node0",
            "started": "2001-09-09T01:46:40Z", "finished": None, "level": self.level.name.lower(),
            "mpi": {"library": "synthetic"}, "ranks": sum(r.world == 0 for r in self.ranks), "ended": self.ended,
            "exit_code": 0, "signal": None,
        }  # fmt: skip
        (self.path / "run.json").write_text(json.dumps(add_signature(run)))
        (self.path / "functions.json").write_text(json.dumps(self.function_data))
        return self.path

    def open(self) -> Trace:
        """Write the run and open it."""
        trace = Trace.open(self.write())
        trace.keep_alive = self._temporary
        return trace


_tables: dict[int, FunctionTable] = {}


def _function_table(data: dict[str, object]) -> FunctionTable:
    """Return the table of functions that `data` describes; one table is shared by all runs with the same data."""
    key = id(data["functions"])
    if key not in _tables:
        _tables[key] = FunctionTable(data)
    return _tables[key]


_standard: dict[str, Any] = {}


def standard_functions() -> dict[str, Any]:
    """Return the functions.json of a library that has every function of the standard."""
    if not _standard:
        data = table.to_json()
        ids = {name: int(id) for id, name in data["objects"]["DATATYPE"].items()}
        data["datatype_sizes"] = {str(ids[name]): size for name, size in SIZES.items() if name in ids}
        _standard.update(data)
    return _standard
