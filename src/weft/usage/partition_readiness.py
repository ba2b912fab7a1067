"""Find partitions that are marked ready wrongly (MPI-4.1, 4.2.1): twice, too early, or that do not exist."""

from __future__ import annotations

from collections.abc import Iterator

from weft.deadlock.partitions import partitions_made_ready
from weft.deadlock.traffic import Traffic
from weft.findings import Finding
from weft.terms import calls
from weft.terms.calls import catalogue_of
from weft.terms.event_findings import FindingLimiter, call_at, cause_key, make_finding
from weft.trace import Event


def report_wrong_pready_calls(traffic: Traffic) -> Iterator[Finding]:
    """Report calls of MPI_Pready and its kin with a partition that does not exist, is ready already, or whose request
    is not started.
    """
    if not catalogue_of(traffic.rank).count(traffic.masks.table(calls.READIES)):
        return
    inits = traffic.masks.where(traffic.rank, frozenset(("Psend_init",)))
    some = FindingLimiter()
    for init in (traffic.rank.event(int(index)) for index in inits):
        for event, why, others in _find_wrong_calls_on_request(traffic, init):
            if some.more(event.site_id):
                message = f"rank {traffic.rank.index} in {call_at(event)} says {why.format(request=call_at(init))}"
                yield make_finding("request-misuse", message, [event, *others, init], cause=cause_key(event))


def _find_wrong_calls_on_request(traffic: Traffic, init: Event) -> Iterator[tuple[Event, str, list[Event]]]:
    """Yield (call, what it says wrongly, other calls to cite) for the wrong MPI_Pready calls on the partitioned request
    that the call `init` made.
    """
    events, enter, leave = traffic.rank.events, traffic.rank.enter_ns(), traffic.rank.exit_ns()
    readies = traffic.masks.where(traffic.rank, calls.READIES)
    steps = [(int(enter[i]), int(i), "ready") for i in readies[events["object"][readies] == init.object]]
    begun, request, _ = traffic.starts
    steps += [(int(enter[i]), int(i), "start") for i in begun[request == init.object]]
    # Another thread may be in the wait that completes it while partitions become ready.
    steps += [(int(leave[i]), int(i), "done") for i in traffic.done[1][traffic.done[0] == init.object]]
    partitions, active = int(init.args.get("partitions", 0)), False
    ready: dict[int, Event] = {}
    for _, index, step in sorted(steps):
        if step != "ready":
            active, ready = step == "start", {}
            continue
        event = traffic.rank.event(index)
        for partition in partitions_made_ready(event):
            if not 0 <= partition < partitions:
                yield event, f"that partition {partition} is ready, but {{request}} has {partitions}", []
            elif not active:
                yield (
                    event,
                    f"that partition {partition} of {{request}} is ready, although that operation is not started",
                    [],
                )
            elif partition in ready:
                yield (
                    event,
                    f"for the second time that partition {partition} of {{request}} is ready",
                    [ready[partition]],
                )
            else:
                ready[partition] = event
                continue
            break
