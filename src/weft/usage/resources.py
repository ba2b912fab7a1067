"""Resources: objects that were made and never freed by a rank that ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from weft import sources
from weft.findings import Finding
from weft.terms.calls import masks, words
from weft.terms.cited import MAX_OF_ONE_SITE, cause, finding
from weft.terms.describe import where
from weft.terms.progress import reached_finalize
from weft.trace import Event, Rank, Trace
from weft.trace.layout import ID_DYNAMIC


class _Class(NamedTuple):
    """A class of objects: what makes one, what frees one, and the slot's field that names it in its frees."""

    noun: str
    makers: frozenset[str]
    frees: frozenset[str]
    freed: str = "object"


CLASSES: Final = (
    _Class(
        "communicator",
        words(
            "Comm_dup Comm_dup_with_info Comm_split Comm_split_type Comm_create Comm_create_group Cart_create Cart_sub"
            " Graph_create Dist_graph_create Dist_graph_create_adjacent Intercomm_create Intercomm_merge Comm_spawn"
            " Comm_spawn_multiple Comm_accept Comm_connect Comm_join Comm_create_from_group"
        ),
        words("Comm_free Comm_disconnect"),
        "comm",
    ),
    _Class(
        "datatype",
        words(
            "Type_contiguous Type_vector Type_create_hvector Type_indexed Type_create_hindexed Type_create_struct"
            " Type_create_indexed_block Type_create_hindexed_block Type_create_subarray Type_create_darray Type_dup"
            " Type_create_resized Type_hvector Type_hindexed Type_struct"
        ),
        words("Type_free"),
        "datatype",
    ),
    _Class(
        "group",
        words(
            "Comm_group Comm_remote_group Group_incl Group_excl Group_union Group_intersection Group_difference"
            " Group_range_incl Group_range_excl"
        ),
        words("Group_free"),
    ),
    _Class("operation", words("Op_create"), words("Op_free"), "tag"),
    _Class("window", words("Win_create Win_allocate Win_allocate_shared Win_create_dynamic"), words("Win_free")),
    _Class("file", words("File_open"), words("File_close")),
    _Class("info object", words("Info_create Info_dup Info_create_env"), words("Info_free")),
    _Class(
        "error handler",
        words("Comm_create_errhandler Win_create_errhandler File_create_errhandler Errhandler_create"),
        words("Errhandler_free"),
    ),
)


def find(trace: Trace) -> list[Finding]:
    """Leaks of each rank that came to its end."""
    found: list[Finding] = []
    for rank in trace.ranks:
        if reached_finalize(rank):
            found += _leaks(rank)
    return found


def _leaks(rank: Rank) -> Iterator[Finding]:
    table = masks(rank.trace.functions)
    events = rank.events
    for kind in CLASSES:
        makers = table.where(rank, kind.makers)
        if not len(makers):
            continue
        made = events["object"][makers]
        frees = table.where(rank, kind.frees)
        freed = events[kind.freed][frees].astype(np.int64)
        lost = makers[(made >= ID_DYNAMIC) & ~np.isin(made, freed)]
        sites: dict[int, int] = {}
        for index in lost.tolist():
            event = rank.event(index)
            sites[event.site_id] = sites.get(event.site_id, 0) + 1
            if sites[event.site_id] <= MAX_OF_ONE_SITE and not _by_library(event):
                yield _leak(rank, kind.noun, event)


def _leak(rank: Rank, noun: str, event: Event) -> Finding:
    name = event.function.name
    return finding(
        "resource-leak",
        f"rank {rank.index} never frees the {noun} that {name} made{where(event)}",
        [event],
        evidence={"class": noun},
        cause=f"{noun} {cause(event)}",
    )


def _by_library(event: Event) -> bool:
    """Whether the object is mpi4py's own: its lowercase collectives duplicate a communicator and keep it.

    mpi4py frees it in an attribute's delete function, inside MPI_Finalize or MPI_Comm_free, where nothing is recorded.
    """
    if not (event.site.file or "").endswith(".py") or event.function.name != "MPI_Comm_dup":
        return False
    spelled = sources.of(event.rank.trace).called(event.site.file or "", event.site.line) or ()
    # Without the source nothing is claimed.
    return not any(word in name.lower() for name in spelled for word in ("dup", "clone"))
