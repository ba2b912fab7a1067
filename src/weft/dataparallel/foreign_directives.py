"""Find directives of OpenMP and OpenACC in a source that is checked for other directives, which are not checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from weft.base.words import plural
from weft.dataparallel.check_coverage import format_places

C: Final = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+(omp|acc)\b", re.I)
FORTRAN: Final = re.compile(r"(?:[cC*!]|[ \t]*!)\$(omp|acc)\b", re.I)
LANGUAGES: Final = {"omp": "OpenMP", "acc": "OpenACC"}


def describe_foreign_directives(sources: Iterable[Path], fortran: bool) -> Iterator[str]:
    """Yield a phrase for each language whose directives some sources contain: `3 directives of OpenMP (a.c:4,
    7, 9)`.
    """
    found: dict[str, list[tuple[str, int]]] = {}
    pattern = FORTRAN if fortran else C
    for source in sources:
        text = source.read_text(encoding="utf-8", errors="replace") if source.is_file() else ""
        for number, line in enumerate(text.split("\n"), 1):
            if matched := pattern.match(line):
                found.setdefault(LANGUAGES[matched[1].lower()], []).append((str(source), number))
    for name, places in found.items():
        yield f"{plural(len(places), 'directive')} of {name} ({format_places(places)})"
