"""Random programs of masters and workers, carried out by MPI's rules, with wildcards in many places.

A program is a generator for each rank, which yields calls and is told what came of them. What is delivered next, and
whose turn it is, is chosen at random.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.trace import Trace
from weft.trace.builder import ANY, Builder, RankBuilder, Request
from weft.trace.layout import ANY_TAG
from weft.trace.tails import Status

Rank = Generator[tuple[Any, ...], Any, None]
TASK, RESULT, STOP, BODY, ASIDE, EXTRA, LOST = range(3, 10)


@dataclass
class Message:
    source: int
    tag: int
    taken: bool = False


@dataclass
class Post:
    """A posted receive. `request` is None for a blocking one."""

    source: int
    tag: int
    request: Request | None = None
    message: Message | None = None

    def fits(self, message: Message) -> bool:
        return self.source in (ANY, message.source) and self.tag in (ANY_TAG, message.tag)


@dataclass
class Place:
    """What lies at a rank: what came and is not received, what is posted and has nothing, and what is on its way."""

    came: list[Message] = field(default_factory=list)
    posted: list[Post] = field(default_factory=list)
    way: dict[int, list[Message]] = field(default_factory=dict)


class Machine:
    """Carries a program out and records it."""

    def __init__(self, rng: random.Random, b: Builder, programs: list[Rank], weights: list[float]) -> None:
        self.rng, self.b, self.programs, self.weights = rng, b, programs, weights
        self.places = [Place() for _ in programs]
        self.now: list[tuple[Any, ...] | None] = [None] * len(programs)
        self.lines = [0] * len(programs)
        self.state: list[Any] = [None] * len(programs)
        self.left = set(range(len(programs)))
        for rank in range(len(programs)):
            self._go_on(rank, None)

    def run(self, steps: int) -> None:
        """Until nothing more can be done, or so many steps; who is in a call then stays there."""
        for _ in range(steps):
            ways = self._ways()
            if ways and self.rng.random() < 0.5:
                self._deliver(*self.rng.choice(ways))
                continue
            some = sorted(self.left)
            if not some:
                return
            rank = self.rng.choices(some, [self.weights[rank] for rank in some])[0]
            if not self._step(rank) and not any(self._step(other) for other in some) and not self._ways():
                return

    def _ways(self) -> list[tuple[int, int]]:
        """Receiver and sender of what is on its way."""
        return [(rank, source) for rank, place in enumerate(self.places) for source, on in place.way.items() if on]

    def stay(self) -> None:
        """Record the calls that nobody left."""
        for rank in sorted(self.left):
            op, r = self.now[rank], self.b.ranks[rank].open
            assert op is not None
            if op[0] == "recv":
                r.recv(op[1], op[2], site=self._site(rank))
            elif op[0] in ("probe", "mprobe"):
                r.probe(op[1], op[2], site=self._site(rank))
            elif op[0] == "wait":
                r.wait(op[1].request, site=self._site(rank))
            elif op[0] == "ssend":
                r.ssend(op[1], op[2], site=self._site(rank))

    def _site(self, rank: int) -> tuple[str, int, str]:
        return "pool.py", self.lines[rank], "main"

    def _go_on(self, rank: int, told: object) -> None:
        try:
            self.now[rank] = self.programs[rank].send(told)
        except StopIteration:
            self.left.discard(rank)
            return
        frame: Any = self.programs[rank]
        while frame.gi_yieldfrom is not None:
            frame = frame.gi_yieldfrom
        self.lines[rank], self.state[rank] = frame.gi_frame.f_lineno, None

    def _send(self, rank: int, dest: int, tag: int) -> Message:
        message = Message(rank, tag)
        self.places[dest].way.setdefault(rank, []).append(message)
        return message

    def _deliver(self, rank: int, source: int) -> None:
        place = self.places[rank]
        message = place.way[source].pop(0)
        for post in place.posted:
            if post.fits(message):
                place.posted.remove(post)
                self._take(post, message)
                return
        place.came.append(message)

    def _take(self, post: Post, message: Message) -> None:
        post.message, message.taken = message, True
        if post.request is not None:
            post.request.status = Status(message.source, message.tag, 4)

    def _post(self, rank: int, post: Post) -> Post:
        place = self.places[rank]
        message = next((one for one in place.came if post.fits(one)), None)
        if message is None:
            place.posted.append(post)
        else:
            place.came.remove(message)
            self._take(post, message)
        return post

    def _step(self, rank: int) -> bool:
        """Whether the call of a rank returns, which is then recorded."""
        op, r = self.now[rank], self.b.ranks[rank]
        if rank not in self.left or op is None:
            return False
        done, told = getattr(self, f"_{op[0]}")(rank, r, *op[1:])
        if done:
            self._go_on(rank, told)
        return bool(done)

    def _out(self, rank: int, r: RankBuilder, dest: int, tag: int) -> tuple[bool, object]:
        self._send(rank, dest, tag)
        r.send(dest, tag, site=self._site(rank))
        return True, None

    def _iout(self, rank: int, r: RankBuilder, dest: int, tag: int) -> tuple[bool, object]:
        self._send(rank, dest, tag)
        return True, Post(dest, tag, r.isend(dest, tag, site=self._site(rank)), Message(rank, tag, True))

    def _ssend(self, rank: int, r: RankBuilder, dest: int, tag: int) -> tuple[bool, object]:
        message = self.state[rank] = self.state[rank] or self._send(rank, dest, tag)
        if message.taken:
            r.ssend(dest, tag, site=self._site(rank))
        return message.taken, None

    def _recv(self, rank: int, r: RankBuilder, source: int, tag: int) -> tuple[bool, object]:
        post = self.state[rank] = self.state[rank] or self._post(rank, Post(source, tag))
        if post.message is None:
            return False, None
        got = post.message.source, post.message.tag
        r.recv(source, tag, got=got[0], got_tag=got[1], site=self._site(rank))
        return True, got

    def _irecv(self, rank: int, r: RankBuilder, source: int, tag: int) -> tuple[bool, object]:
        request = r.irecv(source, tag, site=self._site(rank))
        return True, self._post(rank, Post(source, tag, request))

    def _wait(self, rank: int, r: RankBuilder, post: Post) -> tuple[bool, object]:
        if post.message is None:
            return False, None
        r.wait(post.request, site=self._site(rank))
        return True, (post.message.source, post.message.tag)

    def _waitany(self, rank: int, r: RankBuilder, posts: list[Post]) -> tuple[bool, object]:
        some = [k for k, post in enumerate(posts) if post.message is not None]
        if not some:
            return False, None
        chosen = self.rng.choice(some)
        r.waitany([post.request for post in posts], chosen, site=self._site(rank))
        return True, chosen

    def _seen(self, rank: int, source: int, tag: int) -> Message | None:
        return next((one for one in self.places[rank].came if Post(source, tag).fits(one)), None)

    def _probe(self, rank: int, r: RankBuilder, source: int, tag: int) -> tuple[bool, object]:
        message = self._seen(rank, source, tag)
        if message is None:
            return False, None
        r.probe(source, tag, got=message.source, got_tag=message.tag, site=self._site(rank))
        return True, (message.source, message.tag)

    def _iprobe(self, rank: int, r: RankBuilder, source: int, tag: int) -> tuple[bool, object]:
        message = self._seen(rank, source, tag)
        if message is None:
            r.iprobe(source, tag, flag=False, site=self._site(rank))
            return True, None
        r.iprobe(source, tag, got=message.source, got_tag=message.tag, site=self._site(rank))
        return True, (message.source, message.tag)

    def _mrecv(self, rank: int, r: RankBuilder, source: int, tag: int) -> tuple[bool, object]:
        """MPI_Mprobe and MPI_Mrecv."""
        message = self._seen(rank, source, tag)
        if message is None:
            return False, None
        self.places[rank].came.remove(message)
        message.taken = True
        seen = r.mprobe(source, tag, got=message.source, got_tag=message.tag, site=self._site(rank))
        r.mrecv(seen, site=self._site(rank))
        return True, (message.source, message.tag)


# Programs

HOW = ("recv", "recv", "recv", "probe", "mrecv", "iprobe", "irecv", "ahead", "several", "two at a time")
ODD = ("body", "aside", "named", "asks", "late", "twice", "loses")


@dataclass
class Plan:
    """What kind of program it is.

    `how`: how a master receives. `ask`: whether a worker asks for its first task. `loud`: whether a result waits for
    its receive. `odd`: how often other things happen.
    """

    rng: random.Random
    tasks: int
    how: str
    ask: bool
    loud: bool
    any_tag: bool
    odd: dict[str, float]

    def now(self, name: str) -> bool:
        return self.rng.random() < self.odd.get(name, 0)


def took(plan: Plan, tag: int) -> Generator[tuple[Any, ...], Any, tuple[int, int]]:
    """Take a message of any source in a master's way."""
    if plan.how == "probe":
        source, tag = yield "probe", ANY, tag
        return (yield "recv", source, tag)
    if plan.how == "iprobe":
        while (seen := (yield "iprobe", ANY, tag)) is None:
            pass
        return (yield "recv", *seen)
    if plan.how == "mrecv":
        return (yield "mrecv", ANY, tag)
    if plan.how == "irecv":
        request = yield "irecv", ANY, tag
        return (yield "wait", request)
    return (yield "recv", ANY, tag)


def server(plan: Plan, clients: list[int], other: int | None = None) -> Rank:
    """Serves whoever comes until all tasks are done, then stops its clients. `other`: another server that it asks."""
    left, busy = plan.tasks, len(clients)
    for one in () if plan.ask else clients:
        yield "out", one, TASK
        left -= 1
    tag = ANY_TAG if plan.any_tag else RESULT
    while busy:
        heard = []
        for _ in range(min(2, busy) if plan.how == "two at a time" else 1):
            source, _ = yield from took(plan, tag)
            heard.append(source)
        for one in heard:
            if plan.now("body"):
                yield "out", one, BODY
                yield "recv", one, BODY
            if other is not None and plan.now("asks"):
                yield "out", other, RESULT
                yield "recv", other, ANY_TAG
            if plan.now("loses"):
                yield "out", one, LOST
            yield "out", one, TASK if left > 0 else STOP
            left, busy = left - 1, busy - (left <= 0)
            if left > 0 and plan.now("named"):
                yield "recv", one, RESULT
                yield "out", one, TASK
                left -= 1


def posted(plan: Plan, clients: list[int]) -> Rank:
    """A server with receives posted ahead: it waits for them in the order posted, or for any of them."""
    tag = ANY_TAG if plan.any_tag else RESULT
    expected = plan.tasks + len(clients)
    posts: list[Post] = []
    for _ in range(1 if plan.how == "ahead" else 3):
        posts.append((yield "irecv", ANY, tag))
    for one in () if plan.ask else clients:
        yield "out", one, TASK
    left = plan.tasks
    for number in range(expected):
        which = 0 if plan.how == "ahead" else (yield "waitany", posts)
        post = posts.pop(which)
        if plan.how == "ahead":
            yield "wait", post
        if number + len(posts) + 1 < expected:
            posts.append((yield "irecv", ANY, tag))
        yield "out", post.message.source, TASK if left > 0 else STOP
        left -= 1


def client(plan: Plan, servers: list[int], next_: int) -> Rank:
    """Does tasks until each of its servers has stopped it; sometimes it is late, or asks a neighbour something."""
    rng, left = plan.rng, list(servers)
    for one in servers if plan.ask else ():
        yield "out", one, RESULT
    while left:
        one = rng.choice(left)
        source, tag = yield "recv", one if len(left) > 1 or rng.random() < 0.5 else ANY, ANY_TAG
        if tag == BODY:
            yield "out", source, BODY
        elif tag == STOP and source in left:
            left.remove(source)
        elif tag == TASK:
            if plan.now("late"):
                for _ in range(rng.randint(3, 30)):
                    yield "iprobe", source, 77
            if plan.now("aside"):
                yield "out", next_, ASIDE
            if plan.now("twice"):
                yield "out", source, EXTRA
            yield "ssend" if plan.loud else "out", source, RESULT


def eager(plan: Plan, boss: int) -> Rank:
    """A client that has receives pending all along: one for the next task, one for the end."""
    stop = yield "irecv", boss, STOP
    task = yield "irecv", boss, TASK
    if plan.ask:
        yield "out", boss, RESULT
    while (yield "waitany", [stop, task]) == 1:
        task = yield "irecv", boss, TASK
        yield "ssend" if plan.loud else "out", boss, RESULT


def beside(other: int, times: int) -> Rank:
    """Has nothing to do with the servers."""
    for _ in range(times):
        yield "out", other, ASIDE
        yield "recv", other, ASIDE


def alone(plan: Plan, to: int, times: int) -> Rank:
    """Sends something now and then, and is told nothing."""
    for _ in range(times):
        for _ in range(plan.rng.randint(1, 8)):
            yield "iprobe", to, 77
        yield "out", to, RESULT


def carried_out(rng: random.Random, path: Path, programs: list[Rank], steps: int) -> Trace:
    """The record of a program's run of so many steps at most, some of whose ranks are slow."""
    b = Builder(ranks=len(programs), path=path)
    for r in b.ranks:
        r.init()
    machine = Machine(rng, b, programs, [rng.choice([1, 1, 1, 1, 0.2]) for _ in programs])
    machine.run(steps)
    machine.stay()
    for rank, r in enumerate(b.ranks):
        if rank not in machine.left:
            r.finalize()
    return b.open()


def doing(calls: list[tuple[Any, ...]]) -> Rank:
    """Makes these calls, what is begun and what it waits for told apart by the place of its beginning."""
    posts: dict[int, Post] = {}
    for place, (what, *more) in enumerate(calls):
        if what == "irecv":
            posts[place] = yield "irecv", *more
        elif what == "wait":
            yield "wait", posts.pop(more[0])
        elif what == "send":
            yield "out", *more
        elif what == "ssend":
            yield "ssend", *more
        elif what == "probe":
            yield "recv", *(yield "probe", *more)
        elif what == "mrecv":
            yield "mrecv", *more
        else:
            yield "recv", *more


def scattered(rng: random.Random, path: Path, messages: int = 300) -> Trace:
    """A run in which any rank sends to any other, mostly named and answered; some messages are for whoever takes them.

    Those have tags of their own, so that wildcards mostly do no harm; few of them race at first.
    """
    ranks = rng.randint(3, 6)
    calls: list[list[tuple[Any, ...]]] = [[] for _ in range(ranks)]
    pending: list[list[int]] = [[] for _ in range(ranks)]
    wild, answered, mixed = rng.choice([0.02, 0.05, 0.2]), rng.choice([0.1, 0.5, 0.9]), rng.random() < 0.2
    receivers = rng.sample(range(ranks), rng.choice([1, 1, 2, ranks]))
    quiet = rng.randrange(messages // 2)
    for number in range(rng.randint(messages // 3, messages)):
        source, dest = rng.sample(range(ranks), 2)
        kind = "ssend" if rng.random() < 0.1 else "send"
        if number >= quiet and rng.random() < wild:
            dest = rng.choice(receivers)
            tag = rng.choice([RESULT, RESULT, RESULT, EXTRA])
            crew = rng.sample([one for one in range(ranks) if one != dest], min(ranks - 1, rng.randint(1, 3)))
            for one in crew:
                calls[one].append((kind, dest, tag))
            for one in crew:
                how = rng.choice(["recv", "recv", "irecv", "probe", "mrecv"])
                if how == "irecv":
                    pending[dest].append(len(calls[dest]))
                calls[dest].append((how, one if mixed and rng.random() < 0.2 else ANY, tag))
            source = crew[-1]
        else:
            calls[source].append((kind, dest, TASK))
            calls[dest].append(("recv", source, TASK))
        if rng.random() < answered:
            calls[dest].append(("send", source, BODY))
            calls[source].append(("recv", dest, BODY))
        for rank in range(ranks):
            while pending[rank] and rng.random() < 0.4:
                calls[rank].append(("wait", pending[rank].pop(rng.randrange(len(pending[rank])))))
    for rank in range(ranks):
        calls[rank] += [("wait", which) for which in pending[rank]]
    return carried_out(rng, path, [doing(one) for one in calls], 10**6)


def pool(rng: random.Random, path: Path, tasks: int = 60) -> Trace:
    """A run of a random program of one or two servers and their clients."""
    odd = {name: rng.choice([0.03, 0.1, 0.3]) for name in ODD if rng.random() < 0.2}
    plan = Plan(
        rng, rng.randint(tasks // 3, tasks), rng.choice(HOW), rng.random() < 0.5, rng.random() < 0.2,
        rng.random() < 0.3, odd,
    )  # fmt: skip
    two, workers = rng.random() < 0.3, rng.randint(2, 4)
    if two and plan.how in ("ahead", "several"):
        plan.how = "recv"
    servers = [0, 1] if two else [0]
    clients = list(range(len(servers), len(servers) + workers))
    serve = posted if plan.how in ("ahead", "several") else server
    programs: list[Rank] = [serve(plan, clients) for _ in servers]
    if two:
        programs[1] = server(plan, clients, 0)
    if rng.random() < 0.25 and not two and not plan.any_tag:
        plan.odd = {name: often for name, often in plan.odd.items() if name == "named"}
        programs += [eager(plan, 0) for _ in clients]
    else:
        programs += [client(plan, servers, rng.choice(clients)) for _ in clients]
    more = rng.random()
    if more < 0.15:
        n = len(programs)
        programs += [beside(n + 1, tasks), beside(n, tasks)]
    elif more < 0.22:
        programs.append(alone(plan, 0, 5))
    return carried_out(rng, path, programs, rng.choice([10**6, 10**6, 10**6, 20 * tasks]))
