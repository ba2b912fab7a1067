"""Writes the page of the evidence of findings: for each kind the keys in the report's JSON, from their records.

`python -m weft.report.evidence` prints it; `tools/site.py` puts it into the documentation's site.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from weft.base.event_id import EventId, Forced
from weft.base.facts import Facts, json_keys
from weft.evidence import Evidence, Proof
from weft.kinds import KINDS

PACKAGE: Final = Path(__file__).parents[1]
_WORDS: Final = {
    int: "number", float: "number", str: "text", bool: "true or false", type(None): "null", object: "value",
    EventId: "[rank, event]", Forced: "text",
}  # fmt: skip
_INTRODUCTION: Final = """# Evidence: what the report's JSON holds of each finding

Printed by `python -m weft.report.evidence`. These are the keys of `evidence` in `weft report --format json`, and of
`weft check`. A key that is marked `?` is left out where there is nothing to say. `[rank, event]` is a call, as
`weft dump` numbers them.

Every finding may have `count` (how many findings of its cause it stands for), `consequences` (what only follows from
it, a list of text), `more_at_this_line` (a number, of the last finding that is reported for a line) and, with
`weft report --evidence`, `proof`: {proof}.
"""


def evidence_classes() -> dict[str, type[Evidence]]:
    """Return all classes of evidence by name. Also imports the modules of analyses that define some."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if "(Evidence):" in path.read_text(encoding="utf-8"):
            import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
    found: list[type[Evidence]] = [Evidence]
    for one in found:
        found += one.__subclasses__()
    return {one.__name__: one for one in found}


def render_page() -> str:
    """Return the page, in Markdown."""
    return "\n".join((_INTRODUCTION.format(proof=type_words(Proof)), *_kind_sections(evidence_classes())))


def _kind_sections(known: dict[str, type[Evidence]]) -> Iterator[str]:
    """Yield the lines of the page on evidence: for each kind of finding a section with the keys of its evidence."""
    for kind in sorted(KINDS.values(), key=lambda one: one.slug):
        yield from (f"## {kind.slug}", "")
        if not kind.evidence:
            yield from ("None beside the calls.", "")
        for shape in (known[name] for name in kind.evidence):
            yield from (" ".join((shape.__doc__ or "").split()), "", "| key | |", "|---|---|", *_table_rows(shape), "")


def _table_rows(shape: type[Evidence]) -> Iterable[str]:
    """Yield for each key of a class of evidence a row of the page's table, in Markdown."""
    hints = get_type_hints(shape)
    return (
        f"| `{key}`{'?' if hasattr(shape, name) else ''} | {type_words(hints[name], left_out=hasattr(shape, name))} |"
        for name, key in json_keys(shape).items()
    )


def type_words(kind: Any, *, left_out: bool = False) -> str:
    """Return a Python type in the words of JSON: `number or null`, `list of {rank: number}`.

    `left_out`: the key is left out of the JSON instead of being null.
    """
    origin, held = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(type_words(one) for one in held if not (left_out and one is type(None))))
    if origin is Literal:
        return " or ".join(f"`{'true' if one is True else one}`" for one in held)
    if origin in (list, Sequence):
        return f"list of {type_words(held[0])}"
    if isinstance(kind, type) and issubclass(kind, Facts):
        return _object_words({key: get_type_hints(kind)[name] for name, key in json_keys(kind).items()})
    return _WORDS[kind]


def _object_words(hints: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {type_words(kind)}" for key, kind in hints.items()) + "}"


if __name__ == "__main__":
    sys.stdout.write(render_page())
