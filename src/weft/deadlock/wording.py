"""A deadlock in the words of a person: who waits in what for whom, and where those are instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from weft.base.lazy import dataclass
from weft.base.words import listed, plural, rank_words
from weft.deadlock.blocked_ranks import Blocked, Reason, Standstill
from weft.deadlock.collective_calls import Absence
from weft.deadlock.message_balance import make_ledgers
from weft.deadlock.partitions import describe_partitions
from weft.deadlock.rounds import RoundCounts
from weft.deadlock.wait_for_graph import find_cores
from weft.evidence import Deadlock, OtherCall, OtherMessage, OtherTag, Polled, Wait
from weft.findings import Finding
from weft.mpi.meaning import base_name
from weft.terms import calls, describe
from weft.terms.calls import masks_of
from weft.terms.library_code import is_library_code
from weft.trace import Communicator, Event, Rank
from weft.trace.layout import ANY_SOURCE, ANY_TAG
from weft.trace.sites import CallSite

if TYPE_CHECKING:
    from weft.deadlock.message_balance import Channel, Ledger

MAX_GROUPS = 6
MAX_CYCLE = 4
MAX_SITES = 64
_FIRST = {"message": 0, "receive": 1, "lock": 2, "post": 2, "complete": 2, "partitions": 2, "members": 3}


@dataclass(frozen=True)
class Group:
    """Ranks that are blocked in the same call at the same line."""

    ranks: tuple[int, ...]
    blocked: Blocked
    task: str
    """Of which task the call is, where it is the same of all ranks."""

    @property
    def what(self) -> str:
        """Return the sort of thing that it waits for."""
        return self.blocked.reasons[0].what if self.blocked.reasons else "members"


def make_finding(standstill: Standstill, part: frozenset[int]) -> Finding:
    """Return the finding for one set of ranks that have to do with each other and are blocked for ever."""
    return _FindingMaker(standstill, part).make_finding()


class _FindingMaker:
    """Makes the finding for one set of blocked ranks."""

    def __init__(self, standstill: Standstill, part: frozenset[int]) -> None:
        self.standstill = standstill
        self.counts = RoundCounts(standstill.trace)
        self.part = part
        self.blocked = {index: _main_thread(standstill.blocked[index]) for index in part}
        self.cores = find_cores(part, standstill.needs)
        inside = frozenset().union(*self.cores)
        self.groups = self._group_ranks(inside)
        self.behind = part - inside
        self.misses: list[OtherCall | OtherTag | OtherMessage] = []
        self.other_calls: list[Event] = []
        """Calls that ranks made in place of those for which others wait."""
        self.told: set[int] = set()
        self.ledgers: dict[int, Ledger] = {}

    def make_finding(self) -> Finding:
        """Return the finding about the set of ranks."""
        message = self._describe_deadlock()
        message += self._describe_others() + self._describe_polling()
        groups = [*self.groups, *self._group_ranks(self.behind)]
        return Finding(
            kind="deadlock",
            severity="error",
            certainty="possible" if self.part & self.standstill.polling.keys() else "certain",
            message=message,
            ranks=tuple(sorted(self.part)),
            sites=tuple(dict.fromkeys(describe.finding_site(event) for event in self._events_to_show(groups)))[
                :MAX_SITES
            ],
            events=tuple(self.blocked[index].event.id for index in sorted(self.part)),
            evidence=self._make_evidence(groups),
        )

    def _describe_others(self) -> str:
        """Return words for the ranks that the sentence does not mention yet: first other ranks in which the deadlock
        starts, then those that only wait for such ranks."""
        text = ""
        for group in [g for g in self.groups if not self.told.issuperset(g.ranks)][:MAX_CYCLE]:
            self.told.update(group.ranks)
            text += f"; {self._describe_waiting(group)}"
        left = self.part - self.told
        if left:
            text += f"; {self._describe_followers(left)}"
        return text

    def _describe_followers(self, ranks: frozenset[int]) -> str:
        """Return words for ranks that only wait for those of the deadlock: in which call and for whom, if that is the
        same call at one line."""
        groups = self._group_ranks(ranks)
        wanted = frozenset().union(*(self.standstill.needs[i].all_ranks() for i in ranks))
        if len(groups) > 1 or len(wanted) > MAX_CYCLE:
            return f"{rank_words(ranks)} {_verb(tuple(ranks))} in turn for the ranks named"
        return f"{self._describe_waiting(groups[0])} for {rank_words(wanted)}"

    def _events_to_show(self, groups: list[Group]) -> list[Event]:
        """Return one call of each group, those that other ranks made in place of one, then those of all ranks."""
        first = [group.blocked.event for group in groups] + self.other_calls
        return first + [self.blocked[index].event for group in groups for index in group.ranks[:MAX_SITES]]

    def _make_evidence(self, groups: list[Group]) -> Deadlock:
        """Return the facts of the deadlock: who waits in which call for whom, and the cycle."""
        waits = [
            Wait(
                ranks=g.ranks,
                call=describe.call_words(g.blocked.event),
                for_=sorted(self.standstill.needs[g.ranks[0]].all_ranks())[:64],
            )
            for g in groups[:64]
        ]
        cycle = self._find_cycle(frozenset().union(*self.cores))
        polling = [
            Polled(rank=i, count=polling.count, seconds=polling.span_ns / 1e9)
            for i, polling in sorted(self.standstill.polling.items())[:64]
            if i in self.part
        ]
        return Deadlock(waits=waits, cycle=tuple(cycle), near_misses=tuple(self.misses), polling=tuple(polling))

    def _group_ranks(self, ranks: Iterable[int]) -> list[Group]:
        """Return the blocked ranks grouped by call, source line, and for a wait the request that it is for. The groups
        whose reasons explain most come first."""
        by_call: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for index in sorted(ranks):
            event = self.blocked[index].event
            peers = "" if self.blocked[index].reasons and self.blocked[index].reasons[0].what != "members" else "root"
            key = (
                describe.call_words(event, peers=False) + _describe_request(self.blocked[index], peers=False),
                describe.site_suffix(event),
                event.comm_id,
                peers and event.peer,
            )
            by_call[key].append(index)
        groups = [self._make_group(found) for found in by_call.values()]
        return sorted(groups, key=lambda g: (self._polls_inside_library(g), _FIRST[g.what], g.ranks[0]))

    def _make_group(self, ranks: list[int]) -> Group:
        return Group(
            tuple(ranks), self.blocked[ranks[0]], describe.task_suffix(*(self.blocked[i].event for i in ranks))
        )

    def _is_polling(self, group: Group) -> bool:
        return group.ranks[0] in self.standstill.polling

    def _polls_inside_library(self, group: Group) -> bool:
        """Return whether a group polls in code that is not the user's, such as the idle worker of a pool."""
        return self._is_polling(group) and is_library_code(group.blocked.event.site)

    def _describe_waiting(self, group: Group) -> str:
        """Return that the ranks of a group wait in their call, or that they poll."""
        verb = _polls(group.ranks) if self._is_polling(group) else f"{_verb(group.ranks)} in"
        return f"{rank_words(group.ranks)} {verb} {_describe_call(group)}"

    def _describe_polling(self) -> str:
        """Return the sentence that polling ranks may still leave their loops by themselves, so that the deadlock is not
        proven; "" if no rank polls."""
        found = {i: self.standstill.polling[i] for i in sorted(self.part & self.standstill.polling.keys())}
        if not found:
            return ""
        who = rank_words(found)
        one = len(found) == 1
        longest = max(found.values(), key=lambda polling: polling.span_ns)
        times = f"{longest.count:,} times in " if one else "for "
        beside = next(((i, p.beside) for i, p in found.items() if p.beside is not None and p.beside.known), None)
        other = f" or goes on from {_name_line(beside[1])} in another thread" if beside and one else ""
        if beside and not one:
            other = f" or rank {beside[0]} goes on from {_name_line(beside[1])} in another thread"
        also = self._describe_other_polls(min(found)) if one else ""
        return (
            f". {who[0].upper()}{who[1:]} polled {times}{longest.span_ns / 1e9:.3g} s{also}, and nothing can come any "
            f"more: all of them wait for ever unless {'it' if one else 'one of them'} leaves its loop by itself{other}"
        )

    def _describe_other_polls(self, rank: int) -> str:
        """Return words for the polls of a rank's loop beside the one that the sentence has named; "" if there are
        none.
        """
        named = self.blocked[rank].event
        polls = {
            f"{describe.call_words(event)}{describe.site_suffix(event)}": None
            for event in self.standstill.polling[rank].polls
            if describe.call_words(event) != describe.call_words(named)
        }
        shown = list(polls)[:MAX_CYCLE]
        return f", also {listed(shown)}" if shown else ""

    # Sentences

    def _describe_deadlock(self) -> str:
        """Return the sentence about the deadlock. For a cycle it names each rank and the next one; else it says why
        the first group of ranks waits."""
        cycle = self._find_cycle(frozenset(i for c in self.cores for i in c)) if len(self.cores) == 1 else []
        if self.groups[-1].what != "members" and (len(cycle) > 2 or self._is_exchange(cycle)):
            return self._describe_cycle(cycle)
        first = next(filter(self._has_near_message, self.groups[:MAX_GROUPS]), self.groups[0])
        blocked = first.blocked
        self.told.update(first.ranks)
        head = self._describe_waiting(first)
        reasons = [r for r in blocked.reasons if r.need.all_ranks()] or list(blocked.reasons)
        if not reasons:
            return head
        return f"{head}; {self._describe_reason(first, reasons[0])}"

    def _is_exchange(self, cycle: list[int]) -> bool:
        """Return whether two ranks wait, in different calls, each for a message or a receive of the other, with no
        message of another tag or communicator that explains it."""
        if len(cycle) != 2 or len(self.groups) < 2:
            return False
        if any(self._has_near_message(self._make_group([index])) for index in cycle):
            return False
        reasons = [reason for index in cycle for reason in self.blocked[index].reasons[:1]]
        return all(
            reason.what == "message" or (reason.what == "receive" and self._find_other_tag(reason) is None)
            for reason in reasons
        )

    def _has_near_message(self, group: Group) -> bool:
        """Return whether a group waits for a message, and one that almost fits was sent to each of its ranks."""
        reason = group.blocked.reasons[0] if group.blocked.reasons else None
        if reason is None or reason.what != "message":
            return False
        return bool(self._find_near_messages(group, reason, None if reason.peer == ANY_SOURCE else reason.peer))

    def _describe_reason(self, group: Group, reason: Reason) -> str:
        """Return words that say why a group of ranks waits, by one of its reasons."""
        if (why := self._describe_fewer_pickled_collectives(group)) is not None:
            return why
        if reason.what == "message":
            return self._describe_missing_message(group, reason)
        if reason.what == "receive" and reason.peer in group.ranks:
            return (
                "it cannot receive that message itself meanwhile"
                if len(group.ranks) == 1
                else ("each receives only after its own send has returned")
            )
        if reason.what == "receive":
            there = self._describe_whereabouts(reason.peer, group)
            return f"{_name(reason.peer)} never receives it: {there}{self._describe_other_tag(reason)}"
        if reason.what == "members":
            return self._describe_absent_members(group, reason)
        if reason.what == "partitions":
            return f"it never calls MPI_Pready for {describe_partitions(list(reason.partitions))} of that send"
        others = sorted(reason.need.all_ranks())
        has = "has" if len(others) == 1 else "have"
        says = {"lock": f"{has} locked that window", "post": f"{has} not called MPI_Win_post",
                "complete": f"{has} not called MPI_Win_complete"}[reason.what]  # fmt: skip
        return f"{rank_words(others)} {says}: {self._describe_places(others, group)}"

    def _describe_fewer_pickled_collectives(self, group: Group) -> str | None:
        """Return words that say which members made fewer collectives of pickled objects (mpi4py) than the group. None
        if no member did, or the group's call is not such a collective."""
        event = group.blocked.event
        name, comm = describe.pickled_collective(event), event.comm
        if not name or comm is None:
            return None
        mine = list_pickled_collectives(event.rank, comm)
        made = {i: list_pickled_collectives(self.standstill.trace.ranks[i], comm) for i in comm.members if i >= 0}
        fewer = sorted(i for i, calls_ in made.items() if len(calls_) < len(mine))
        if not fewer:
            return None
        before = f", {_call_at(mine[-2])} before this one" if len(mine) > 1 else ""
        on = f" on {describe.communicator_words(comm.parent)}" if comm.parent is not None else ""
        last = made[fewer[0]]
        alike = [i for i in fewer if [*map(_call_at, made[i])] == [*map(_call_at, last)]]
        did = f"{len(last):,}, {'the last ' * (len(last) > 1)}{_call_at(last[-1])}," if last else "none"
        places = self._describe_places(alike, group).removeprefix(f"{rank_words(alike)} ").removeprefix("it ")
        return (
            f"it called {plural(len(mine), 'collective')} of pickled objects{on}{before}; {rank_words(alike)} "
            f"called {did} and {places}"
        )

    def _describe_missing_message(self, group: Group, reason: Reason) -> str:
        """Return words that say why nobody sends the message for which a group waits."""
        if reason.peer == ANY_SOURCE:
            others = reason.need.all_ranks() - set(group.ranks)
            near = self._describe_near_message(group, reason, None)
            if not others:
                return f"nobody is left who could send {_tagged(reason.tag)}{near}"
            where = self._describe_places(sorted(others), group)
            if len(others) == 1:
                return (
                    f"{_name(min(others))}, the only one who could send {_tagged(reason.tag)}, does not{near}: {where}"
                )
            return f"nobody who could send {_tagged(reason.tag)} does{near}: {where}"
        if len(group.ranks) > 1:
            wanted = {p for i in group.ranks for p in self.standstill.needs[i].all_ranks()}
            rest = sorted(wanted.difference(group.ranks))
            if not rest:
                whom = "the other" if len(group.ranks) == 2 else "another of them"
                return f"each waits for a message from {whom}"
            near = self._describe_near_message(group, reason, rest[0]) if len(rest) == 1 else ""
            where = self._describe_places(rest, group)
            fewer = "" if near else self._describe_shortfall(group, rest)
            return f"{rank_words(rest)} {fewer or ('sends none' if len(rest) == 1 else 'send none')}{near}: {where}"
        near = self._describe_near_message(group, reason, reason.peer)
        if not near and (fewer := self._describe_shortfall(group, [reason.peer])):
            return f"{_name(reason.peer)} {fewer}: {self._describe_whereabouts(reason.peer, group)}"
        verb = "never sends" if reason.tag != ANY_TAG else "sends"
        what = f"tag {reason.tag}" if reason.tag != ANY_TAG else "it nothing"
        extra = (
            f" on {describe.communicator_words(reason.comm)}"
            if reason.comm and reason.comm.index and reason.tag != ANY_TAG
            else ""
        )
        return f"{_name(reason.peer)} {verb} {what}{extra}{near}: {self._describe_whereabouts(reason.peer, group)}"

    def _describe_shortfall(self, group: Group, others: Sequence[int]) -> str:
        """Return words that say how many rounds of a loop the ranks `others` made, or else how many messages to the
        group they sent, if it is fewer than they should. Empty if one of them waits for a message itself: its round
        may be unfinished."""
        if any(
            reason.what != "members"
            for i in others
            for one in self.standstill.blocked.get(i, [])
            for reason in one.reasons
        ):
            return ""
        events = [self.blocked[i].reasons[0].event for i in group.ranks[:MAX_SITES]]
        return self.counts.describe_missing_rounds(events, others) or self._describe_fewer_messages(group, others)

    def _describe_fewer_messages(self, group: Group, others: Sequence[int]) -> str:
        """Return words that say how many messages a single other rank sent to the only rank of a group, if that is
        fewer than the group's rank wanted; else empty."""
        reason = group.blocked.reasons[0]
        if len(group.ranks) + len(others) != 2 or reason.comm is None or reason.tag == ANY_TAG:
            return ""
        is_probed = base_name(reason.event.function.name) in calls.PROBES  # for a message that is not wanted yet
        return self.counts.describe_missing_sends(
            others[0], group.ranks[0], reason.comm.index, reason.tag, is_probed=is_probed
        )

    def _describe_absent_members(self, group: Group, reason: Reason) -> str:
        """Return words that say which members of a collective did not come, and where they are. If they made another
        call instead, say which, and note it in `misses`."""
        absence = reason.absence
        others = sorted(reason.need.all_ranks())
        if absence is None:
            where = self._describe_places(others, group)
            return f"{rank_words(others)} {'is' if len(others) == 1 else 'are'} missing: {where}"
        different = [i for i in sorted(absence.other) if i in others]
        if different:
            event = self.standstill.trace.ranks[different[0]].event(absence.other[different[0]])
            same = [i for i in different if self._is_same_call(i, absence.other[i], event)]
            self.misses.append(
                OtherCall(ranks=same, call=describe.call_words(event), instead=absence.call.name.lower())
            )
            self.other_calls.append(event)
            self.told.update(same)
            rounds = self.counts.describe_missing_rounds([self.blocked[i].event for i in group.ranks[:MAX_SITES]], same)
            text = f"{rank_words(same)}{rounds and f' {rounds} and'} called {describe.call_words(event)}"
            text += f"{describe.site_suffix(event)} in its place"
            still = event.open
            return text if still else f"{text}, and {self._describe_whereabouts(different[0], group, pronoun='now')}"
        if gone := [i for i in others if i in self.standstill.gone]:
            where = self._describe_whereabouts(gone[0], group, len(gone))
            return f"{rank_words(gone)} {self._describe_absence(group, gone, absence)}: {where}"
        there = self._describe_places(others, group)
        return f"{rank_words(others)} {self._describe_absence(group, others, absence)}: {there}"

    def _describe_absence(self, group: Group, absent: list[int], absence: Absence) -> str:
        """Return that some ranks never enter a call, or how many rounds of its line they made."""
        rounds = self.counts.describe_missing_rounds([self.blocked[i].event for i in group.ranks[:MAX_SITES]], absent)
        return rounds or f"never {_enters(absent, absence)} it"

    def _is_same_call(self, index: int, event: int, like: Event) -> bool:
        """Return whether an event of a rank is the same call, at the same line, as `like`."""
        other = self.standstill.trace.ranks[index].event(event)
        return describe.call_words(other) == describe.call_words(like) and describe.site_suffix(
            other
        ) == describe.site_suffix(like)

    def _describe_other_tag(self, reason: Reason) -> str:
        """Return words that say that the receiver of a blocked send waits for the same sender with another tag, and
        add this to `misses`. Empty if it does not."""
        other = self._find_other_tag(reason)
        if other is None:
            return ""
        self.misses.append(OtherTag(sent=reason.tag, wanted=other.tag))
        return f" (sent with tag {reason.tag}, waited for tag {other.tag})"

    def _find_other_tag(self, reason: Reason) -> Reason | None:
        """Return why the receiver of a blocked send waits, if that is for a message of the sender with another tag."""
        for blocked in self.standstill.blocked.get(reason.peer, []):
            for other in blocked.reasons:
                if other.what == "message" and other.peer == reason.event.rank.index and other.comm is reason.comm:
                    return other
        return None

    def _describe_near_message(self, group: Group, reason: Reason, source: int | None) -> str:
        """Return words for a message that almost fits what the group waits for, but has another tag, communicator or
        sender; add it to `misses`. Empty if there is none, or it differs between the group's ranks."""
        near = self._find_near_messages(group, reason, source)
        if not near:
            return ""
        first, event = near[0]
        comm = self.standstill.trace.communicators[first.comm]
        on = f" on {describe.communicator_words(comm)}" if comm is not reason.comm else ""
        self.misses.append(OtherMessage(source=first.source, tag=first.tag, comm=comm.name, event=event.id))
        senders = sorted({channel.source for channel, _ in near})
        if event.open and senders == [source]:
            return ""  # the words for where the sender is name that call
        who = "it" if senders == [source] else rank_words(senders)
        whom = " to each" if len(group.ranks) > 1 and len(senders) == 1 else ""
        return f" ({who} sent tag {first.tag}{on}{whom}{describe.site_suffix(event)}, which nobody receives)"

    def _find_near_messages(self, group: Group, reason: Reason, source: int | None) -> list[tuple[Channel, Event]]:
        """Return for each rank of a group the channel and the call that sent it a message which almost fits what it
        waits for. Empty if a rank has none, or tag, communicator or line differ between the ranks."""
        if reason.comm is None or len(group.ranks) > MAX_SITES:
            return []
        near = []
        for me in group.ranks:
            wanted = reason if me == group.ranks[0] else self.blocked[me].reasons[0]
            channel = _find_near_channel(self._ledger(group, me).left, wanted, None if source is None else wanted.peer)
            event = channel and self._last_message(channel, me)
            if channel is None or event is None:
                return []
            near.append((channel, event))
        alike = {(channel.tag, channel.comm, describe.site_suffix(event)) for channel, event in near}
        return near if len(alike) == 1 else []

    def _ledger(self, group: Group, rank: int) -> Ledger:
        """Return the ledger of a rank of a group. Those of the whole group are made when the first one is asked for."""
        if rank not in self.ledgers:
            self.ledgers |= make_ledgers(self.standstill.traffic, set(group.ranks), self.standstill.dropped)
        return self.ledgers[rank]

    def _last_message(self, channel: Channel, receiver: int) -> Event | None:
        """Return the call that sent the last message of a channel to a rank. None if the run does not have that call
        any more."""
        sends = self.standstill.traffic[channel.source].sends
        rows = (sends.comm == channel.comm) & (sends.peer == receiver) & (sends.tag == channel.tag)
        found = sends.event[rows]
        return self.standstill.trace.ranks[channel.source].event(int(found[-1])) if len(found) else None

    def _describe_places(self, ranks: list[int], group: Group) -> str:
        """Return words that say where some ranks are: ended, or waiting in which calls."""
        if len(ranks) == 1:
            return self._describe_whereabouts(ranks[0], group)
        inside = [i for i in ranks if i in self.blocked]
        gone = [i for i in ranks if i in self.standstill.gone]
        self.told.update(inside)
        parts = []
        if gone:
            parts.append(f"{rank_words(gone)} {'has' if len(gone) == 1 else 'have'} ended")
        groups = self._group_ranks(inside)
        for other in groups[:MAX_GROUPS]:
            is_in = _polls(other.ranks) if self._is_polling(other) else f"{_is(other.ranks)} in"
            parts.append(f"{rank_words(other.ranks)} {is_in} {_describe_call(other)}")
        if len(groups) > MAX_GROUPS:
            parts.append(f"the others in {len(groups) - MAX_GROUPS} other calls")
        return listed(parts)

    def _describe_whereabouts(self, index: int, group: Group, count: int = 1, pronoun: str = "it") -> str:
        """Return words that say where a rank is for which others wait, and which ranks are there with it. `count`: how
        many ranks the words stand for; `pronoun`: their subject."""
        subject = f"{pronoun} {'is' if count == 1 else 'are'}" if pronoun == "it" else "now is"
        if index in self.standstill.gone:
            state = self.standstill.trace.ranks[index].state
            last = self.standstill.trace.ranks[index]
            left = len(last) > 0 and last.event(len(last) - 1).is_finalize_at_exit
            how = (
                "finished"
                if state == "finalized" or left
                else f"ended without {self.standstill.trace.system.last}"
                if state == "exited"
                else "ended"
            )
            return f"{'it has' if count == 1 else 'they have'} {how}"
        if index in group.ranks:
            return f"{subject} itself there"
        blocked = self.blocked.get(index)
        if blocked is None:
            return f"{subject} elsewhere"
        mates = [g for g in self._group_ranks(self.blocked) if index in g.ranks]
        with_it = [i for i in mates[0].ranks if i != index] if mates else []
        self.told.update((index, *with_it))
        task = describe.task_suffix(*(self.blocked[i].event for i in (index, *with_it)))
        call = _describe_call_and_request(blocked)
        is_in = subject.replace(" is", " polls") if index in self.standstill.polling else f"{subject} in"
        return f"{is_in} {call}{task}{self._describe_company(blocked, group, with_it)}"

    def _describe_company(self, blocked: Blocked, group: Group, company: list[int]) -> str:
        """Return words after a call in which a rank is blocked that say which ranks are in it, too, and that it waits
        for ranks of the group itself, if it does."""
        reason = blocked.reasons[0] if blocked.reasons else None
        is_collective = reason is not None and reason.what == "members"
        wanted = reason.need.all_ranks() if reason and is_collective else {reason.peer} if reason else set()
        whom = sorted(wanted.intersection(group.ranks))
        itself = f" and waits for {rank_words(whom)}" if whom else ""
        if not company:
            return itself
        others = f", with {rank_words(company)}" if is_collective else f", as {_is(company)} {rank_words(company)}"
        return f"{others},{itself}" if itself else others

    # Cycles

    def _find_cycle(self, ranks: frozenset[int]) -> list[int]:
        """Return the ranks as a cycle, in which each waits for the next. [] if some rank waits for several, or for
        none of them."""
        if not ranks:
            return []
        path, seen, at = [], set(), min(ranks)
        while at not in seen:
            path.append(at)
            seen.add(at)
            following = self.standstill.needs[at].all_ranks()
            if len(following) != 1:
                return []
            at = next(iter(following))
            if at not in ranks:
                return []
        return path[path.index(at) :]

    def _describe_cycle(self, cycle: list[int]) -> str:
        """Return the sentence for ranks of which each waits for the next, in that order."""
        self.told.update(cycle)
        shown = cycle if len(cycle) <= MAX_CYCLE else cycle[:2]
        parts: list[str] = []
        for index in shown:
            following = next(iter(self.standstill.needs[index].all_ranks()))
            mixed = not self.standstill.polling.keys().isdisjoint(shown)
            verb = "polls" if index in self.standstill.polling else "in" if parts and not mixed else "waits in"
            whom = f" for rank {following}" if len(cycle) > 2 else ""
            parts.append(f"rank {index} {verb} {_describe_call(self._make_group([index]))}{whom}")
        if len(cycle) == 2:
            return f"{' and '.join(parts)}: each waits for the other"
        if shown is cycle:
            return f"{listed(parts)}: a cycle in which each waits for the next"
        return f"{rank_words(cycle)} wait for each other in a cycle: {', '.join(parts)}, and so on"


def list_pickled_collectives(rank: Rank, comm: Communicator) -> list[Event]:
    """Return the collectives of pickled objects that a rank made on a communicator, as the first call of each. mpi4py
    makes them on a duplicate of the communicator, and gives each a tag of its own."""
    id = comm.local_ids.get(rank.index)
    table = masks_of(rank.trace.functions).table(calls.SENDS | calls.RECVS | calls.SENDRECVS)
    rows = np.flatnonzero((rank.events["comm"] == id) & table[rank.events["function"]]) if id else np.zeros(0, np.int64)
    _, first = np.unique(rank.events["tag"][rows], return_index=True)
    return [rank.event(int(row)) for row in rows[np.sort(first)]]


def _call_at(event: Event) -> str:
    return describe.call_words(event) + describe.site_suffix(event)


def _find_near_channel(untaken: Iterable[Channel], reason: Reason, source: int | None) -> Channel | None:
    """Return the channel of an untaken message that almost fits: it is from the awaited sender, or has the wanted tag
    and communicator. None if there is none."""
    assert reason.comm is not None
    near = [c for c in untaken if c.source == source or source is None] or [
        c for c in untaken if c.comm == reason.comm.index and c.tag == reason.tag
    ]
    return near[0] if near else None


def _main_thread(blocked: list[Blocked]) -> Blocked:
    """Return the blocked thread of a rank that explains most."""
    return min(blocked, key=lambda b: _FIRST[b.reasons[0].what] if b.reasons else 9)


def _describe_call(group: Group) -> str:
    """Return words for the call in which a group waits, with its line, and for the request that a wait is for."""
    return f"{_describe_call_and_request(group.blocked, peers=len(group.ranks) == 1)}{group.task}"


def _describe_call_and_request(blocked: Blocked, *, peers: bool = True) -> str:
    """Return words for a call with its line, and for the request that a wait is for. `peers`: name its partners."""
    request = _describe_request(blocked, peers=peers)
    call = describe.call_words(blocked.event, peers=peers) + ("()" if request else "")
    return f"{call}{describe.site_suffix(blocked.event)}{request}"


def _describe_request(blocked: Blocked, *, peers: bool = True) -> str:
    """Return what a wait waits for: ` for irecv(source=0, tag=5) of step.py:7`."""
    if base_name(blocked.event.function.name) not in calls.WAITS | calls.TESTS or not blocked.reasons:
        return ""
    made = blocked.reasons[0].event
    of = describe.site_suffix(made).replace(" at ", " of ", 1)
    return f" for {describe.call_words(made, peers=peers)}{of}"


def _name(index: int) -> str:
    return f"rank {index}"


def _verb(ranks: tuple[int, ...]) -> str:
    return "waits" if len(ranks) == 1 else "wait"


def _polls(ranks: tuple[int, ...]) -> str:
    return "polls" if len(ranks) == 1 else "poll"


def _name_line(place: CallSite) -> str:
    return f"{PurePath(place.file or '').name}:{place.line}"


def _is(ranks: Iterable[int]) -> str:
    return "is" if len(list(ranks)) == 1 else "are"


def _enters(ranks: list[int], absence: Absence) -> str:
    verb = "start" if absence.starts else "enter"
    return f"{verb}s" if len(ranks) == 1 else verb


def _tagged(tag: int) -> str:
    return "it a message" if tag == ANY_TAG else f"tag {tag}"
