"""Format accesses, places and bytes for messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from weft.base.words import plural
from weft.findings import Finding, Site
from weft.trace import Rank
from weft.trace.layout import TouchKind
from weft.trace.sites import CallSite


def access_word(kind: int) -> str:
    """Return `load`, `store` or `update`, with `atomic` before it if it is."""
    name = {int(TouchKind.READ): "load", int(TouchKind.WRITE): "store"}.get(kind & 3, "update")
    return f"atomic {name}" if kind & TouchKind.ATOMIC else name


def format_file(place: CallSite) -> str:
    """Return the file of a call site, or its module and offset."""
    return place.file or (f"{Path(place.module).name}+{place.offset:#x}" if place.module else "")


def format_site(site: CallSite) -> str:
    """Return a call site as the end of a sentence: ` at halo.c:41 in exchange`. "" if nothing is known of it."""
    if site.file:
        inside = f" in {site.function}" if site.function else ""
        return f" at {Path(site.file).name}:{site.line}{inside}"
    return f" at {format_file(site)}" if site.module else ""


def format_bytes(low: int, high: int, base: int) -> str:
    """Return bytes as text, such as `8 bytes at offset 16`. The offset counts from the start of a buffer, `base`."""
    return f"{plural(high - low, 'byte')} at offset {low - base:,}"


def add_access_site(found: Finding, rank: Rank, site: CallSite, kind: int) -> Finding:
    """Return the finding with one more call site in front: the place of the access, on rank `rank`."""
    own = Site(rank.index, access_word(kind), format_file(site), site.line, site.function or "")
    return replace(found, sites=(own, *found.sites))
