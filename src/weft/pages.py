"""The pages of the findings: docs/findings, of which the package has a copy (in a checkout, a link to it)."""

from __future__ import annotations

import difflib
import re
from functools import cache
from importlib.resources import files
from typing import Final

from weft.errors import UsageError, WeftError
from weft.findings import KINDS

HOME: Final = "https://pypi.org/project/weft-debugger/"
"""Where Weft is at home: pages have no address of their own there, what is behind # names the finding."""

_SENTENCE: Final = re.compile(r".*?[.](?=\s|$)", re.DOTALL)


@cache
def page(kind: str) -> str:
    """The page of a kind of finding, Markdown. UsageError for a kind that does not exist, with the nearest."""
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, 1, 0.5)
        hint = f", did you mean {near[0]}?" if near else ";"
        raise UsageError(f"no finding is called {kind!r}{hint} `weft explain` lists them all")
    try:
        return (files("weft") / "explanations" / f"{kind}.md").read_text(encoding="utf-8")
    except OSError as error:
        raise WeftError(f"the page of {kind} is not there ({error.strerror}): reinstall weft") from None


def in_short(kind: str) -> str:
    """What a kind means, in the first sentence of its page."""
    paragraphs = [part.strip() for part in page(kind).split("\n\n")]
    text = " ".join(next(part for part in paragraphs if part and not part.startswith("#")).split())
    found = _SENTENCE.match(text)
    return found[0] if found else text


def address(kind: str) -> str:
    """A web address for a kind."""
    return f"{HOME}#{kind}"
