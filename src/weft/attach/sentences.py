"""Describe stacks in sentences: who is where, who is not with the others, whom each waits for, and who moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from weft.attach.model import Argument, Call, Job, RankStacks, Thread
from weft.base.words import plural, rank_words
from weft.terms.library_code import innermost_user_site
from weft.trace.sites import UNKNOWN, CallSite

SINGLE = 4
"""Ranks of a group that are reported with their own arguments, at most."""
MOST = 8
"""Groups, and ranks that move, that are reported, at most."""
SOURCES = ("source", "dest")
PEERS = {"dest": "to", "source": "from", "root": "with root"}


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks whose main threads are in the same MPI function at the same line, or at the same line outside of MPI."""

    name: str
    place: CallSite
    members: tuple[RankStacks, ...]
    odd: bool = False
    """Whether most ranks are elsewhere, and all of them in one place."""

    @property
    def ranks(self) -> list[int]:
        """Their numbers."""
        return [one.rank for one in self.members]

    def as_dict(self) -> dict[str, Any]:
        """Return the group as JSON values."""
        return {"call": self.name or None, "file": self.place.file, "line": self.place.line,
                "function": self.place.function, "ranks": self.ranks, "odd": self.odd}  # fmt: skip


def innermost_line(thread: Thread) -> CallSite:
    """Return the innermost line of the program in a thread's stack; UNKNOWN if it has none."""
    sites = [frame.site for frame in reversed(thread.stack)]
    return innermost_user_site(sites) or next((site for site in sites if site.known), sites[0] if sites else UNKNOWN)


def find_main_call(rank_stacks: RankStacks) -> Call | None:
    """Return the MPI call of a rank's main thread. If the main thread is in none, return the call of another thread,
    provided that only one is in a call. None otherwise.
    """
    found = [thread.call for thread in rank_stacks.threads if thread.call]
    return rank_stacks.threads[0].call or (found[0] if len(found) == 1 else None) if rank_stacks.threads else None


def select_main_thread(rank_stacks: RankStacks) -> Thread:
    """Return the thread that `find_main_call` takes a rank's MPI call from. If there is no such call, return the main
    thread.
    """
    return next(
        (thread for thread in rank_stacks.threads if thread.call and thread.call is find_main_call(rank_stacks)),
        rank_stacks.threads[0],
    )


def group_ranks(ranks: Sequence[RankStacks]) -> list[Group]:
    """Return groups of ranks that are in the same MPI function at the same line, the largest group first."""
    found: dict[tuple[str, str], list[RankStacks]] = {}
    for one in ranks:
        if one.threads:
            call, at = find_main_call(one), innermost_line(select_main_thread(one))
            found.setdefault((call.called or call.name if call else "", f"{at.file} {at.text}"), []).append(one)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[1][0].rank))
    largest = len(ordered[0][1]) if ordered else 0
    most = 2 * largest > sum(len(members) for _, members in ordered)
    return [
        Group(name, innermost_line(select_main_thread(members[0])), tuple(members), most and len(members) < largest)
        for (name, _), members in ordered
    ]


def describe_job(job: Job) -> list[str]:
    """Return all sentences about a job, in the order in which a user wants them."""
    found = group_ranks(job.ranks)
    where = [describe_group(group) for group in found[:MOST]]
    if len(found) > MOST:
        where.append(f"{plural(len(found) - MOST, 'more place')}: see the tree")
    return [
        *where,
        *describe_waits(job),
        *describe_moves(job),
        *describe_faults(job),
        *describe_rebuilt(job),
        *job.notes,
        *describe_spawned_worlds(job),
    ]


def describe_spawned_worlds(job: Job) -> Iterator[str]:
    """Yield a sentence for each world that MPI_Comm_spawn made: which of the job's ranks are in it."""
    for start in sorted({one.world_start for one in job.ranks} - {0}):
        ranks = [one.rank for one in job.ranks if one.world_start == start]
        was = "was" if len(ranks) == 1 else "were"
        yield f"{rank_words(ranks)} {was} spawned: rank {start} is rank 0 of a world of its own"


def describe_group(group: Group) -> str:
    """Return in words where a group is: `rank 17 is in MPI_Recv from 18 (tag 7) at a.c:31`."""
    many, at = len(group.members) > 1, group.place
    who = f"{plural(len(group.members), 'rank')} ({rank_words(group.ranks).split(' ', 1)[1]}) are" if many else (
        f"rank {group.ranks[0]} is"
    )  # fmt: skip
    calls = [call for one in group.members if (call := find_main_call(one))]
    where = f"in {group.name}{_describe_common_peer(calls)}" if group.name else "outside of MPI"
    others = ", not with the others" if group.odd else ""
    return f"{who} {where} at {at.text}{others}" if at is not UNKNOWN else f"{who} {where}{others}"


def _describe_common_peer(calls: Sequence[Call]) -> str:
    """Return ` from 18 (tag 7)` if all calls name the same peer; empty otherwise."""
    told = {_describe_peer(call) for call in calls}
    return told.pop() if len(told) == 1 else ""


def _describe_peer(call: Call) -> str:
    """Return the peer and tag of a call, as ` from 18 (tag 7)`. A value that could not be read is shown as in the
    source: ` (source=next, tag 7)`.
    """
    words, more = [], []
    for name, word in PEERS.items():
        argument = call.argument(name)
        if argument is not None and is_value_known(argument):
            words.append(f" {word} {argument.value or argument.text}")
        elif argument is not None:
            more.append(f"{name}={argument.text}")
    tag = call.argument("tag")
    if tag is not None:
        more.append(f"tag {tag.value or tag.text}" if is_value_known(tag) else f"tag={tag.text}")
    return "".join(words) + (f" ({', '.join(more)})" if more else "")


def is_value_known(argument: Argument) -> bool:
    """Return whether the value of an argument is known: a number, or a constant of MPI."""
    return argument.number is not None or argument.text.upper().startswith(("MPI_", "MPI."))


def describe_waits(job: Job) -> Iterator[str]:
    """Yield a sentence for each rank whose MPI call names another rank, such as its source. It says which rank, and
    where that rank is.
    """
    by_rank = {one.rank: one for one in job.ranks if one.threads}
    for group in group_ranks(job.ranks):
        if len(group.members) > SINGLE:
            continue
        for one in group.members:
            call = find_main_call(one)
            named = [argument for name in SOURCES if call and call.world and (argument := call.argument(name))]
            numbers = dict.fromkeys(argument.number for argument in named)  # a Sendrecv may name one rank twice
            for number in numbers:
                other = by_rank.get(-1 if number is None else one.world_start + number)
                if other is not None and other is not one:
                    yield f"rank {one.rank} names rank {other.rank}, which is {_describe_location(other)}"


def _describe_location(rank_stacks: RankStacks) -> str:
    """Return in words where a rank is: in which call, at which line."""
    call, at = find_main_call(rank_stacks), innermost_line(select_main_thread(rank_stacks))
    return (
        f"in {call.called or call.name}{_describe_peer(call)} at {at.text}" if call else f"outside of MPI at {at.text}"
    )


def describe_moves(job: Job) -> Iterator[str]:
    """Yield sentences that say which ranks were elsewhere, or had other values of variables, at the second look.
    Nothing if there was only one look.
    """
    looked = [one for one in job.ranks if one.threads and one.later]
    if not looked or not job.interval:
        return
    moved = {one.rank: what for one in looked if (what := describe_change(one))}
    still = [one.rank for one in looked if one.rank not in moved]
    later = f"{job.interval:g} s later"
    if not moved:
        yield f"{'it is' if len(looked) == 1 else f'all {len(looked)} are'} at the same place {later}"
        return
    for rank, what in list(moved.items())[:MOST]:
        yield f"rank {rank} moves: {what}, {later}"
    if len(moved) > MOST:
        yield f"{plural(len(moved) - MOST, 'more rank')} move"
    if still:
        yield f"{rank_words(still)} {'is' if len(still) == 1 else 'are'} at the same place {later}"


def describe_change(rank_stacks: RankStacks) -> str:
    """Return in words what changed for a rank between the two looks: its line, a variable, or its call. Empty if no
    change is visible.
    """
    before, after = rank_stacks.threads[0], rank_stacks.later[0]
    if [frame.site for frame in before.stack] != [frame.site for frame in after.stack]:
        here, there = innermost_line(before), innermost_line(after)
        return f"{here.text}, then {there.text}" if here != there else f"within {here.text}"
    for old, new in zip(before.stack, after.stack, strict=True):
        values = dict(new.values)
        for name, value in old.values:
            if values.get(name, value) != value:
                return f"{name} is {value}, then {values[name]} in {old.site.text}"
    if (before.call and before.call.name) != (after.call and after.call.name):
        return " then ".join(
            call.called or call.name if call else "outside of MPI" for call in (before.call, after.call)
        )
    return ""


def describe_faults(job: Job) -> Iterator[str]:
    """Yield sentences on the ranks that were not found, and on those that could not be looked into, with the reason."""
    if job.missing and job.ended:
        yield f"{rank_words(job.missing)} of {job.size}: no core file was given"
    elif job.missing:
        yield f"{rank_words(job.missing)} of {job.size} {'was' if len(job.missing) == 1 else 'were'} not found here"
    by_problem: dict[str, list[int]] = {}
    for one in job.ranks:
        if one.problem:
            by_problem.setdefault(one.problem, []).append(one.rank)
    for problem, ranks in by_problem.items():
        yield f"{rank_words(ranks)} could not be inspected: {problem}"


def describe_rebuilt(job: Job) -> Iterator[str]:
    """Yield a sentence on the ranks whose lines are not known, as the program's file was replaced while they ran."""
    if ranks := [one.rank for one in job.ranks if one.replaced]:
        yield (
            f"{rank_words(ranks)}: the file of the program was replaced while they ran, so its source lines are unknown"
        )


def render_headline(job: Job) -> str:
    """Return the first line of the report. It says whose stacks these are, and that they prove nothing."""
    seen = sum(bool(one.threads) for one in job.ranks)
    who = f"{seen} of {job.size} ranks" if job.size > seen else plural(seen, "rank")
    if job.ended:
        return f"stacks of {who}, from core files; they show where ranks ended, and prove nothing"
    hosts = {one.host for one in job.ranks}
    on = f" on {plural(len(hosts), 'host')}" if len(hosts) > 1 else ""
    twice = f", twice, {job.interval:g} s apart" if job.interval else ""
    return f"stacks of {who}{on}{twice}; they show where ranks are, and prove nothing"
