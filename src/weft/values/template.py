"""The configuration that a first run writes: every loop and probe of the program, to be edited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from weft.native.headers.value_format import PlaceKind
from weft.values.process import ValuePlace
from weft.values.trace import ValueTrace

_HEAD: Final = """\
# What to keep of the values of this program: `weft run --probes FILE -- PROGRAM`. docs/values.md explains each word.
#
# level: none, minimal (numbers; hashes of arrays), modifications (blocks of arrays that changed), full (everything)
# The setting nearest to a place applies: its own, else that of its loop, procedure, file, or the program.

level = "full"
limit = "1 GB"         # of values, for each rank: then it keeps no more, and says so
# arrays = "hashes"    # values, changes, hashes or statistics, whatever the level
# every = 10           # each tenth time only
# ranks = "0-3"        # of these ranks only
# relative = 1e-9      # for `weft compare`: absolute, relative, ulps, exact = true, nan = "different"
"""
_KINDS: Final = {PlaceKind.LOOP: "loop", PlaceKind.REGION: "region", PlaceKind.PROBE: "probe"}


def render_template(trace: ValueTrace) -> str:
    """Return the text of a configuration that keeps everything, with an entry for each place."""
    return _HEAD + "".join(_template_entries(trace))


def _template_entries(trace: ValueTrace) -> Iterator[str]:
    """Yield the text of the configuration's entries: for each loop, region and probe of a run a heading, with its
    source lines as a comment, and settings that are commented out.
    """
    found = _places_by_name(trace)
    for kind, scope in _KINDS.items():
        for (of, name), places in found.items():
            if of == kind:
                lines = ", ".join(place.where for place in places if place.where)
                yield f"\n[{scope}.{json.dumps(name, ensure_ascii=False)}]" + (f"   # {lines}" if lines else "") + "\n"
                yield '# level = "full"\n' + ('# iterations = "0:100:10"\n' if kind == PlaceKind.LOOP else "")


def _places_by_name(trace: ValueTrace) -> dict[tuple[int, str], list[ValuePlace]]:
    """Return (kind, name) -> places of a run, each source line once. The order is that of first use."""
    found: dict[tuple[int, str], list[ValuePlace]] = {}
    for place in (place for one in trace.processes for place in one.places):
        if place.kind in _KINDS:
            group = found.setdefault((place.kind, place.name), [])
            if place.where not in [other.where for other in group]:
                group.append(place)
    return found
