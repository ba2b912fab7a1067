"""Find objects that a rank made and never freed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from weft import sources
from weft.base.words import plural
from weft.evidence import OfClass
from weft.findings import Finding
from weft.mpi import meaning
from weft.mpi.meaning import base_name
from weft.terms.argument_columns import Ints, decode_columns, integer_column, sorted_distinct
from weft.terms.calls import masks_of, word_set
from weft.terms.describe import site_suffix
from weft.terms.event_findings import MAX_OF_ONE_SITE, FindingLimiter, cause_key, make_finding
from weft.terms.library_code import is_library_code, is_library_file
from weft.terms.rank_progress import has_reached_finalize
from weft.trace import Event, Rank, Trace
from weft.trace.layout import ID_DYNAMIC


class _ObjectClass(NamedTuple):
    """A class of objects: which functions make and free one, and the slot's field that names it in the frees."""

    noun: str
    handle: str
    makers: frozenset[str]
    frees: frozenset[str]
    freed: str = "object"


_NOUNS: Final = {
    "COMM": "communicator", "DATATYPE": "datatype", "GROUP": "group", "OP": "operation", "WINDOW": "window",
    "FILE": "file", "INFO": "info object", "ERRHANDLER": "error handler", "SESSION": "session",
}  # fmt: skip
_FREED: Final = {"COMM": "comm", "DATATYPE": "datatype", "OP": "tag"}


def _describe_object_class(handle: str) -> _ObjectClass:
    """Return which functions make and free the objects with one kind of handle ("COMM", "WIN" …), from the table of
    functions.
    """
    rows = meaning.all_meanings().values()
    # A request's communicator is there when the request is complete, and the call's object is the request.
    makers = meaning.names_of(m for m in rows if handle in m.makes and "REQUEST" not in m.makes)
    frees = meaning.names_of(m for m in rows if m.frees == handle)
    return _ObjectClass(_NOUNS[handle], handle, makers, frees, _FREED.get(handle, "object"))


CLASSES: Final = tuple(map(_describe_object_class, _NOUNS))
_KEYVAL: Final = frozenset(("comm_delete_attr_fn", "comm_keyval", "extra_state"))
_OWN_ENDS: Final = re.compile(r"lib(hdf5|petsc|slepc|adios2|netcdf)[^/]*\.so")
"""Libraries whose delete functions at MPI_Finalize free what the library itself made, and nothing of the program's."""


def find(trace: Trace) -> list[Finding]:
    """Find the objects that ranks never freed. Ranks that did not reach MPI_Finalize are left out, unless their MPI ran
    out of communicators.
    """
    found: list[Finding] = []
    for rank in trace.own:
        if _ran_out_of_communicators(rank):
            found += _report_exhausted_communicators(rank)
            continue
        if not has_reached_finalize(rank):
            continue
        cleaners = _find_cleaners_at_finalize(rank)
        cleaned = frozenset(one.site.module for one in cleaners if one.site.module)
        leaks = [
            *_report_unfreed_objects(rank, cleaned), *_report_unfreed_keyvals(rank), *_report_unfreed_memory(rank)
        ]  # fmt: skip
        unknown = next((one for one in cleaners if not _frees_only_its_own(one)), None)
        found += [_note_unknown_cleaner(unknown, leaks)] if unknown and leaks else leaks
    return found


def _ran_out_of_communicators(rank: Rank) -> bool:
    """Return whether a rank ended as its MPI had no communicator left."""
    texts = [rank.definitions.ended or "", *(ending.text for ending in rank.endings)] if not rank.missing else []
    return any("oo many communicators" in text for text in texts)


def _report_exhausted_communicators(rank: Rank) -> Iterator[Finding]:
    """Report that a rank's MPI could make no more communicators: name the line that made most of those which were not
    freed.
    """
    made = _find_unfreed(rank, CLASSES[0])
    sites, counts = np.unique(rank.events["site"][made], return_counts=True)
    if not len(sites):
        return
    event = rank.event(int(made[rank.events["site"][made] == sites[np.argmax(counts)]][0]))
    yield make_finding(
        "resource-leak",
        f"rank {rank.index} made {plural(int(counts.max()), 'communicator')} in "
        f"{event.function.name}{site_suffix(event)} "
        f"and freed none of them, until MPI could make no more: free each with MPI_Comm_free",
        [event],
        severity="error",
        evidence=OfClass(class_="communicator"),
        cause=f"communicator {cause_key(event)}",
    )


def _find_unfreed(rank: Rank, kind: _ObjectClass) -> Ints:
    """Return the event indices of the calls that made objects of the class `kind` which the rank never frees."""
    table = masks_of(rank.trace.functions)
    makers, made = _find_made_objects(rank, table.where(rank, kind.makers), kind.handle)
    freed = rank.events[kind.freed][table.where(rank, kind.frees)].astype(np.int64)
    return makers[(made >= ID_DYNAMIC) & ~np.isin(made, freed)]


def _find_cleaners_at_finalize(rank: Rank) -> list[Event]:
    """Return the calls that made an attribute key which is set on a predefined communicator and has a delete function.
    MPI_Finalize calls that function (MPI-4.1, 11.2.4), and it may free what is left, unseen by the recorder.
    """
    table = masks_of(rank.trace.functions)
    sets = table.where(rank, word_set("Comm_set_attr"))
    sets = sets[rank.events["comm"][sets] < ID_DYNAMIC]
    if not len(sets):
        return []
    makers: dict[int, int] = {}
    for rows, found in decode_columns(rank, table.where(rank, word_set("Comm_create_keyval")), _KEYVAL):
        if found.keys() >= _KEYVAL - {"extra_state"}:
            functions, keyvals = (integer_column(found, name) for name in ("comm_delete_attr_fn", "comm_keyval"))
            makers.update(zip(keyvals[functions != 0].tolist(), rows[functions != 0].tolist(), strict=True))
    set_keyvals = {
        keyval
        for _, found in decode_columns(rank, sets, frozenset(("comm_keyval",)))
        if "comm_keyval" in found
        for keyval in integer_column(found, "comm_keyval").tolist()
    }
    return [rank.event(makers[keyval]) for keyval in sorted(set_keyvals & makers.keys())]


def _frees_only_its_own(maker: Event) -> bool:
    """Return whether the delete function of an attribute key belongs to a library and frees only what the library made
    itself. `maker`: the call that made the key.

    mpi4py makes a key without state for itself, and one with state for the program.
    """
    module = maker.site.module or ""
    if _is_mpi4py(module):
        return _is_key_of_mpi4py(maker)
    return bool(_OWN_ENDS.search(module)) or is_library_file(module)


def _is_key_of_mpi4py(maker: Event) -> bool:
    return _is_mpi4py(maker.site.module or "") and not maker.args.get("extra_state")


def _is_mpi4py(module: str) -> bool:
    return "/mpi4py/MPI." in module


def _note_unknown_cleaner(maker: Event, leaks: list[Finding]) -> Finding:
    """Make the note that what looks like leaks may be freed by a function of the program which MPI_Finalize calls.
    `maker`: the call that made the function's attribute key.
    """
    rank = maker.rank.index
    count = sum(1 + leak.beyond for leak in leaks)
    return make_finding(
        "resource-leak",
        f"rank {rank} leaves {plural(count, 'object')} unfreed, the first made at {leaks[0].sites[0]}, unless the "
        f"delete function of the attribute key made{site_suffix(maker)} frees them: MPI_Finalize calls that "
        "function, and Weft records no calls in it",
        [maker], severity="note", certainty="undecided", cause="left out",
    )  # fmt: skip


def _report_unfreed_objects(rank: Rank, cleaned: frozenset[str]) -> Iterator[Finding]:
    """Report objects of all classes that are never freed. Objects that a library in `cleaned` made are left out, as it
    frees them inside MPI_Finalize.
    """
    table = masks_of(rank.trace.functions)
    events = rank.events
    for kind in CLASSES:
        if not len(table.where(rank, kind.makers)):
            continue
        lost = _find_unfreed(rank, kind)
        for site in dict.fromkeys(events["site"][lost].tolist()):
            here = lost[events["site"][lost] == site].tolist()
            first = rank.event(here[0])
            is_cleaned = first.site.module in cleaned and not _is_mpi4py(first.site.module or "")
            if is_cleaned or _is_made_by_mpi4py(first):
                continue
            found = [_leak_finding(rank, kind.noun, rank.event(index)) for index in here[:MAX_OF_ONE_SITE]]
            yield from found[:-1]
            yield replace(found[-1], beyond=len(here) - len(found))


def _find_made_objects(rank: Rank, makers: Ints, handle: str) -> tuple[Ints, Ints]:
    """Return two columns, sorted by call: the calls of `makers`, and the id of the object of this kind that each
    made.
    """
    functions = rank.events["function"][makers]
    found: list[tuple[Ints, Ints]] = []
    for id in sorted_distinct(functions.astype(np.int64)).tolist():
        which = makers[functions == id]
        made = next(
            (p for p in rank.trace.functions[id].parameters if p.handle == handle and p.direction == "out"), None
        )
        if made is not None and made.place == "object":
            found.append((which, rank.events["object"][which].astype(np.int64)))
        elif made is not None:
            for events, values in decode_columns(rank, which, frozenset((made.name,))):
                found.append((events, integer_column(values, made.name)))
    calls, ids = (np.concatenate([np.zeros(0, np.int64), *(pair[i] for pair in found)]) for i in (0, 1))
    order = np.argsort(calls, kind="stable")
    return calls[order], ids[order]


def _leak_finding(rank: Rank, noun: str, event: Event) -> Finding:
    """Make the finding that a rank never frees an object. `noun`: a word for its class; `event`: the call that made
    it.
    """
    name = event.function.name
    return make_finding(
        "resource-leak",
        f"rank {rank.index} never frees the {noun} that {name} made{site_suffix(event)}",
        [event],
        evidence=OfClass(class_=noun),
        cause=f"{noun} {cause_key(event)}",
    )


_KEYVALS: Final = frozenset(name for name in meaning.all_meanings() if "keyval" in name.lower())
_KEYVAL_MAKERS: Final = frozenset(name for name in _KEYVALS if "create" in name)
_KEYVAL_FREES: Final = frozenset(name for name in _KEYVALS if "free" in name)
MOST: Final = 10_000
"""Calls about keys of attributes, and about memory of MPI, that are followed."""


def _report_unfreed_keyvals(rank: Rank) -> Iterator[Finding]:
    """Report attribute keys that are never freed. MPI libraries give the number of a freed key to the next one, so
    makers and frees are followed in their order.
    """
    held: dict[tuple[str, int], Event] = {}
    rows = masks_of(rank.trace.functions).where(rank, _KEYVAL_MAKERS | _KEYVAL_FREES)[:MOST]
    for event in (rank.event(int(row)) for row in rows):
        name = base_name(event.function.name)
        of = "Comm" if name.startswith("Keyval") else name.partition("_")[0]
        keyval = next((value for key, value in event.args.items() if key.endswith("keyval")), None)
        if name in _KEYVAL_FREES:
            held.pop((of, keyval or 0), None)
        elif (
            keyval is not None and not event.error and not is_library_code(event.site) and not _is_key_of_mpi4py(event)
        ):
            held[of, keyval] = event
    some = FindingLimiter()
    for event in held.values():
        if len(rows) < MOST and some.more(event.site_id):
            yield _leak_finding(rank, "key of attributes", event)


def _report_unfreed_memory(rank: Rank) -> Iterator[Finding]:
    """Report memory of MPI_Alloc_mem if fewer pieces are freed than were made; the record does not tell which
    pieces.
    """
    table = masks_of(rank.trace.functions)
    made, freed = (table.where(rank, word_set(name)) for name in ("Alloc_mem", "Free_mem"))
    made = made[rank.events["error"][made] == 0]
    if len(freed) >= len(made):
        return
    sites = sorted_distinct(rank.events["site"][made])
    events = [rank.event(int(made[rank.events["site"][made] == site][0])) for site in sites]
    if all(is_library_code(event.site) for event in events):
        return
    which = f"{len(made) - len(freed):,} of the pieces of memory" if len(made) > 1 else "the memory"
    yield make_finding(
        "resource-leak",
        f"rank {rank.index} never frees {which} that MPI_Alloc_mem made{site_suffix(events[0])}",
        events,
        evidence=OfClass(class_="memory"),
        cause=f"memory {cause_key(*events)}",
    )


def _is_made_by_mpi4py(event: Event) -> bool:
    """Return whether mpi4py made a communicator for itself, as its lowercase collectives do. True if the source line of
    the MPI_Comm_dup does not say dup or clone; False without the source.

    mpi4py frees such a communicator inside MPI_Finalize or MPI_Comm_free, where nothing is recorded.
    """
    if not (event.site.file or "").endswith(".py") or event.function.name != "MPI_Comm_dup":
        return False
    spelled = sources.sources_of(event.rank.trace).called_names(event.site.file or "", event.site.line) or ()
    # Without the source nothing is claimed.
    return not any(word in name.lower() for name in spelled for word in ("dup", "clone"))
