"""What is said of stacks: who is where, who is not with the others, whom each waits for, and who moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from weft.attach.model import Argument, Call, Job, Seen, Thread
from weft.base.words import plural, rank_words
from weft.terms.library_code import innermost_own
from weft.trace.sites import UNKNOWN, CallSite

SINGLE = 4
"""So many ranks of a group are told with their own arguments."""
MOST = 8
"""Groups, and ranks that move, that are told."""
SOURCES = ("source", "dest")
PEERS = {"dest": "to", "source": "from", "root": "with root"}


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks whose main threads are in the same MPI function at the same line, or at the same line outside of MPI."""

    name: str
    place: CallSite
    members: tuple[Seen, ...]
    odd: bool = False
    """Whether most ranks are elsewhere, and all of them in one place."""

    @property
    def ranks(self) -> list[int]:
        """Their numbers."""
        return [one.rank for one in self.members]

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return {"call": self.name or None, "file": self.place.file, "line": self.place.line,
                "function": self.place.function, "ranks": self.ranks, "odd": self.odd}  # fmt: skip


def place_of(thread: Thread) -> CallSite:
    """The innermost line of the program."""
    sites = [frame.site for frame in reversed(thread.stack)]
    return innermost_own(sites) or next((site for site in sites if site.known), sites[0] if sites else UNKNOWN)


def call_of(one: Seen) -> Call | None:
    """The MPI call of a rank's main thread; where that is in none, of its only other thread that is in one."""
    found = [thread.call for thread in one.threads if thread.call]
    return one.threads[0].call or (found[0] if len(found) == 1 else None) if one.threads else None


def thread_of(one: Seen) -> Thread:
    """The thread that `call_of` means, else the main one."""
    return next((thread for thread in one.threads if thread.call and thread.call is call_of(one)), one.threads[0])


def groups(ranks: Sequence[Seen]) -> list[Group]:
    """The ranks that could be looked at by where they are, the largest group first."""
    found: dict[tuple[str, str], list[Seen]] = {}
    for one in ranks:
        if one.threads:
            call, at = call_of(one), place_of(thread_of(one))
            found.setdefault((call.called or call.name if call else "", f"{at.file} {at.text}"), []).append(one)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[1][0].rank))
    largest = len(ordered[0][1]) if ordered else 0
    most = 2 * largest > sum(len(members) for _, members in ordered)
    return [
        Group(name, place_of(thread_of(members[0])), tuple(members), most and len(members) < largest)
        for (name, _), members in ordered
    ]


def told(job: Job) -> list[str]:
    """All sentences, in the order in which a person wants them."""
    found = groups(job.ranks)
    where = [sentence(group) for group in found[:MOST]]
    if len(found) > MOST:
        where.append(f"{plural(len(found) - MOST, 'more place')}: see the tree")
    return [*where, *waits(job), *moves(job), *faults(job), *rebuilt(job), *job.notes]


def sentence(group: Group) -> str:
    """`rank 17 is in MPI_Recv from 18 (tag 7) at a.c:31`."""
    many, at = len(group.members) > 1, group.place
    who = f"{plural(len(group.members), 'rank')} ({rank_words(group.ranks).split(' ', 1)[1]}) are" if many else (
        f"rank {group.ranks[0]} is"
    )  # fmt: skip
    calls = [call for one in group.members if (call := call_of(one))]
    where = f"in {group.name}{_about(calls)}" if group.name else "outside of MPI"
    others = ", not with the others" if group.odd else ""
    return f"{who} {where} at {at.text}{others}" if at is not UNKNOWN else f"{who} {where}{others}"


def _about(calls: Sequence[Call]) -> str:
    """` from 18 (tag 7)`, where all say the same."""
    told = {_peer(call) for call in calls}
    return told.pop() if len(told) == 1 else ""


def _peer(call: Call) -> str:
    """` from 18 (tag 7)`; what could not be read as the program's line has it: ` (source=next, tag 7)`."""
    words, more = [], []
    for name, word in PEERS.items():
        argument = call.argument(name)
        if argument is not None and is_read(argument):
            words.append(f" {word} {argument.value or argument.text}")
        elif argument is not None:
            more.append(f"{name}={argument.text}")
    tag = call.argument("tag")
    if tag is not None:
        more.append(f"tag {tag.value or tag.text}" if is_read(tag) else f"tag={tag.text}")
    return "".join(words) + (f" ({', '.join(more)})" if more else "")


def is_read(argument: Argument) -> bool:
    """Whether an argument is known: a number, or a constant of MPI's."""
    return argument.number is not None or argument.text.upper().startswith(("MPI_", "MPI."))


def waits(job: Job) -> Iterator[str]:
    """Whom a rank's call names, and where that one is."""
    by_rank = {one.rank: one for one in job.ranks if one.threads}
    for group in groups(job.ranks):
        if len(group.members) > SINGLE:
            continue
        for one in group.members:
            call = call_of(one)
            named = [argument for name in SOURCES if call and call.world and (argument := call.argument(name))]
            numbers = dict.fromkeys(argument.number for argument in named)  # a Sendrecv may name one rank twice
            for number in numbers:
                other = by_rank.get(-1 if number is None else number)
                if other is not None and other is not one:
                    yield f"rank {one.rank} names rank {other.rank}, which is {_where(other)}"


def _where(one: Seen) -> str:
    call, at = call_of(one), place_of(thread_of(one))
    return f"in {call.called or call.name}{_peer(call)} at {at.text}" if call else f"outside of MPI at {at.text}"


def moves(job: Job) -> Iterator[str]:
    """Who was elsewhere, or had other values, at the second look."""
    looked = [one for one in job.ranks if one.threads and one.later]
    if not looked or not job.interval:
        return
    moved = {one.rank: what for one in looked if (what := change(one))}
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


def change(one: Seen) -> str:
    """What is different at the second look; empty where nothing is that can be seen."""
    before, after = one.threads[0], one.later[0]
    if [frame.site for frame in before.stack] != [frame.site for frame in after.stack]:
        here, there = place_of(before), place_of(after)
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


def faults(job: Job) -> Iterator[str]:
    """Which ranks were not found, or could not be looked into."""
    if job.missing and job.ended:
        yield f"of {rank_words(job.missing)} of {job.size} there is no core file here"
    elif job.missing:
        yield f"{rank_words(job.missing)} of {job.size} {'was' if len(job.missing) == 1 else 'were'} not found here"
    by_problem: dict[str, list[int]] = {}
    for one in job.ranks:
        if one.problem:
            by_problem.setdefault(one.problem, []).append(one.rank)
    for problem, ranks in by_problem.items():
        yield f"{rank_words(ranks)} could not be looked into: {problem}"


def rebuilt(job: Job) -> Iterator[str]:
    """Whose lines are not known, since the program was built again while the job ran."""
    if ranks := [one.rank for one in job.ranks if one.replaced]:
        yield f"{rank_words(ranks)}: the program's file was replaced since they began, so that its lines are not known"


def headline(job: Job) -> str:
    """What this is, and what it is not."""
    seen = sum(bool(one.threads) for one in job.ranks)
    who = f"{seen} of {job.size} ranks" if job.size > seen else plural(seen, "rank")
    if job.ended:
        return f"stacks of {who}, from core files; they show where ranks ended, and prove nothing"
    hosts = {one.host for one in job.ranks}
    on = f" on {plural(len(hosts), 'host')}" if len(hosts) > 1 else ""
    twice = f", twice, {job.interval:g} s apart" if job.interval else ""
    return f"stacks of {who}{on}{twice}; they show where ranks are, and prove nothing"
