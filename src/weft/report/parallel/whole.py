"""Gathers the whole match at the first worker from those of all workers, for analyses that need all ranks at once."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.match import NONE, Collectives, Match, Posts, group_collectives
from weft.match.operations import U32
from weft.report.parallel.messages import SharedMatch, worker_of_ranks
from weft.report.parallel.team import Team


def gather_match(team: Team, shared: SharedMatch) -> Match | None:
    """Put the workers' matches together. Return the match of the whole run at the first worker, None at the others. All
    workers call it together.
    """
    match, share = shared.match, shared.match.trace.share
    rows = [match.sends.rows_of_ranks(share), match.recvs.rows_of_ranks(share), match.probes.rows_of_ranks(share),
            match.collectives.rows_of_ranks(share)]  # fmt: skip
    counts = [team.all_gather_numbers(part.stop - part.start) for part in rows]
    bases = [np.cumsum(count) - count for count in counts]
    theirs = ((match.recvs, shared.recvs, bases[1]), (match.sends, shared.sends, bases[0]),
              (match.sends, shared.sends, bases[0]))  # fmt: skip
    columns = [
        _gather_columns(
            team, posts, part, shared, {"partner": _renumber_partners(posts.partner[part], *of, shared.shares)}
        )
        for posts, part, of in zip((match.sends, match.recvs, match.probes), rows, theirs, strict=False)
    ]
    parent = match.collectives.parent[rows[3]].copy()
    parent[parent != NONE] += np.uint32(bases[3][team.rank])
    colls = _gather_columns(team, match.collectives, rows[3], shared, {"parent": parent})
    if not team.is_first:
        return None
    sends, recvs, probes = (Posts(**of) for of in columns)
    whole = Collectives(**colls)
    return Match(match.trace, sends, recvs, probes, whole, group_collectives(whole))


def _renumber_partners(partner: U32, of: Posts, numbers: U32, bases: NDArray[np.int64], shares: list[range]) -> U32:
    """Return the partners as row numbers in the match of the whole run; NONE stays NONE.

    `of`: the rows that `partner` refers to at this worker. `numbers`: the number of each at the worker of its rank.
    `bases`: by worker the number of its first row in the whole. `shares`: by worker its ranks.
    """
    known = partner != NONE
    rows = partner[known]
    ranks = np.searchsorted(of.first, rows.astype(np.uint64), side="right") - 1
    found = np.full(len(partner), NONE, np.uint32)
    found[known] = numbers[rows] + bases[worker_of_ranks(shares, ranks)]
    return found


def _gather_columns(
    team: Team, rows: Posts | Collectives, part: slice, shared: SharedMatch, changed: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    """Return at the first worker the columns of all workers' own rows, one below the other; empty columns at the
    others.

    `part`: this worker's own rows. `changed`: columns to take instead of those of `rows`.
    """
    share = shared.match.trace.share
    of_ranks = np.array([len(theirs) for theirs in shared.shares], np.int64)
    each = np.zeros(int(of_ranks.sum()), np.uint64)
    team.gather_rows(np.diff(rows.first)[share.start : share.stop], of_ranks, each)
    found: dict[str, Any] = {"first": np.concatenate([[0], np.cumsum(each)]).astype(np.uint64)}
    counts = team.all_gather_numbers(part.stop - part.start)
    for name in (column.name for column in fields(rows) if column.name != "first"):
        mine = changed.get(name, getattr(rows, name)[part])
        found[name] = np.empty(int(counts.sum()) if team.is_first else 0, mine.dtype)
        team.gather_rows(mine, counts, found[name])
    return found
