"""Name calls and call sites in messages for people."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from weft import findings, sources
from weft.base.words import rank_words, short_function
from weft.mpi.meaning import base_name
from weft.systems import MPI, System
from weft.terms import calls
from weft.trace import Communicator, Event, Flag, FunctionTable, Rank, TaskKind
from weft.trace.layout import ANY_SOURCE, ANY_TAG, ID_WORLD, PROC_NULL, ROOT
from weft.trace.sites import CallSite

_RANKS = {PROC_NULL: "PROC_NULL", ROOT: "ROOT"}


def finding_site(event: Event) -> findings.Site:
    """Return the call site of an event as an object that a finding can hold."""
    place = event.site
    callers = tuple((_file_or_module(caller), caller.line, caller.function or "") for caller in place.callers)
    return findings.Site(
        event.rank.index, _called_name(event), _file_or_module(place), place.line, place.function or "", callers
    )


def _called_name(event: Event) -> str:
    """Return the name of the function that the program called. In Python it is named after mpi4py's method, which may
    call other MPI functions.
    """
    called = event.function.called
    if not (event.site.file or "").endswith(".py"):
        return called
    word = function_word(event)
    return called.removesuffix("_c") if word == base_name(called).lower() else f"MPI_{word.capitalize()}"


def _file_or_module(place: CallSite) -> str:
    return place.file or (f"{Path(place.module).name}+{place.offset:#x}" if place.module else "")


def site_suffix(event: Event) -> str:
    """Return the place of a call as the end of a sentence: ` at step.py:9`; if only the function is known,
    ` in solve_ (libsolver.so+0x2c86)`. "" if nothing is known.
    """
    place = event.site
    if event.is_finalize_at_exit:
        return " at the program's exit"
    if place.file:
        return f" at {Path(place.file).name}:{place.line}"
    if not place.module:
        return ""
    return (
        f" in {short_function(place.function)} ({_file_or_module(place)})"
        if place.function
        else f" at {_file_or_module(place)}"
    )


def has_loop_at(rank: Rank, site: int, around: int = 0) -> bool:
    """Return whether the source has a loop that waits for something at a call site, or up to `around` lines away."""
    place = rank.site(site)
    return sources.sources_of(rank.trace).has_waiting_loop(place.file or "", place.line, around)


def task_suffix(*events: Event) -> str:
    """Return the task that made some calls as the end of a sentence: ` in task 7 (worker), made at solve.c:41`. If the
    calls are of several tasks that one line made, ` in tasks made at solve.c:41`; "" in other cases.
    """
    tasks = [event.task for event in events]
    explicit = [task for task in tasks if task is not None and task.kind == TaskKind.EXPLICIT]
    sites = {(task.site.file, task.site.line) for task in explicit}
    if len(explicit) < len(tasks) or len(sites) != 1:
        return ""
    [(file, line)] = sites
    labels = {task.label for task in explicit}
    made = f"made at {Path(file).name}:{line}" if file else ""
    if len(labels) > 1:
        return made and f" in tasks {made}"
    return f" in {labels.pop()}{made and f', {made}'}"


def rank_argument(value: int, system: System = MPI) -> str:
    """Return a rank argument as text: a number, or the name of a wildcard."""
    return system.any_source if value == ANY_SOURCE else _RANKS.get(value, str(value))


def tag_argument(value: int, system: System = MPI) -> str:
    """Return a tag argument as text: a number or ANY_TAG."""
    return system.any_tag if value == ANY_TAG else str(value)


def function_word(event: Event) -> str:
    """Return the word for a call's function, such as `recv`. In Python it is the method on the line, as mpi4py may make
    other calls inside it.

    mpi4py's lowercase recv() is a matched probe first, and its first allreduce() of objects duplicates the
    communicator.
    """
    name = base_name(event.function.called).lower()
    place = event.site
    if not (place.file or "").endswith(".py"):
        return name
    methods = methods_on_line(event) & _method_names(event.rank.trace.functions)
    if len(methods) == 1 and name not in methods:
        return next(iter(methods))
    return "recv" if name == "mprobe" and not methods else name


def methods_on_line(event: Event) -> frozenset[str]:
    """Return the methods that the source line of a Python call names, in lower case. Empty if the source is not
    known.
    """
    place = event.site
    spelled = sources.sources_of(event.rank.trace).called_names(place.file or "", place.line) or ()
    return frozenset(name.rpartition(".")[2].lower() for name in spelled if "." in name)


PICKLED: Final = frozenset(("allreduce", "reduce", "scan", "exscan"))
"""Methods of mpi4py that reduce pickled objects by messages, on a duplicate of the communicator."""


def pickled_collective(event: Event) -> str:
    """Return the method of mpi4py that made a message or broadcast, if it is a collective of pickled objects. "" for
    any other call.
    """
    comm = event.comm if event.comm_id > ID_WORLD else None
    if comm is None or base_name(comm.function) != "Comm_dup" or base_name(event.function.name).lower() in PICKLED:
        return ""
    word = function_word(event)
    return word if word in PICKLED else ""


@cache
def _method_names(functions: FunctionTable) -> frozenset[str]:
    """Return the names that mpi4py's methods share with MPI's functions."""
    return frozenset(base_name(f.name).lower() for f in functions)


def _argument_name(event: Event, place: str, usually: str) -> str:
    """Return the name of an argument: `usually` for MPI, or the name in another message-passing system. `place`: its
    field in the record.
    """
    found = event.function.slot.get(place)
    return found.name if found is not None and event.rank.trace.system is not MPI else usually


def partner_arguments(event: Event, *, peers: bool = True) -> list[str]:
    """Return the arguments of a call that name its partners, as texts: `dest=1`, `tag=3`, `root=0`.

    `peers`: whether the ranks are included.
    """
    name = base_name(event.function.name)
    args = event.args
    parts: list[str] = []
    if pickled_collective(event):
        return parts
    if name in calls.RECVS | calls.IRECVS | calls.RECV_INITS | calls.PROBES | calls.IPROBES:
        system = event.rank.trace.system
        source = rank_argument(ANY_SOURCE if event.flags & Flag.ANY_SOURCE else event.peer, system)
        tag = tag_argument(ANY_TAG if event.flags & Flag.ANY_TAG else event.tag, system)
        parts = [f"{_argument_name(event, 'peer', 'source')}={source}"] if peers else []
        parts.append(f"{_argument_name(event, 'tag', 'tag')}={tag}")
    elif name in calls.SENDS | calls.ISENDS | calls.SEND_INITS:
        parts = [f"{_argument_name(event, 'peer', 'dest')}={rank_argument(event.peer)}"] if peers else []
        parts.append(f"{_argument_name(event, 'tag', 'tag')}={event.tag}")
    elif name in calls.SENDRECVS | calls.ISENDRECVS:
        if peers:
            parts = [f"dest={rank_argument(event.peer)}"]
            parts += [f"source={rank_argument(args['source'])}"] if "source" in args else []
        parts.append(f"sendtag={event.tag}")
        parts += [f"recvtag={tag_argument(args['recvtag'])}"] if "recvtag" in args else []
    elif "root" in event.function.parameters_by_name:
        parts = [f"root={rank_argument(event.peer)}"]
    elif name.startswith("Win_") and "rank" in event.function.parameters_by_name and peers:
        parts = [f"rank={event.peer}"]
    if event.comm_id > ID_WORLD and [*parts, name] and "comm" in event.function.slot:
        comm = event.comm
        parts.append(f"comm={comm.name if comm else event.comm_id}")
    return parts


def communicator_words(comm: Communicator) -> str:
    """Return a communicator in words: by MPI's name, by the name that the program gave it, or else by its ranks, with
    the name by which `comm:` selects it."""
    if comm.parent is None and not comm.inter:
        return comm.name
    if comm.label:
        return f"communicator {comm.label}"
    whose = "" if comm.inter or min(comm.members, default=-1) < 0 else f" of {rank_words(comm.members)}"
    return f"the {'inter' * comm.inter}communicator{whose} ({comm.name})"


def call_words(event: Event, *, peers: bool = True) -> str:
    """Return a call with the arguments that name its partners: `recv(source=0, tag=99)`, or only `barrier` without such
    arguments.
    """
    parts = partner_arguments(event, peers=peers)
    return function_word(event) + (f"({', '.join(parts)})" if parts else "")
