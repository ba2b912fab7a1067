"""The front ends of `weft check`: each module of this folder is one, with a FRONT_END in it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from weft.dataparallel.front_end import FrontEnd
from weft.errors import UsageError


@cache
def load_front_ends() -> Mapping[str, FrontEnd]:
    """Return all front ends by the name of their module. A front end knows how programs of one language are checked."""
    found: dict[str, FrontEnd] = {}
    for module in pkgutil.iter_modules(__path__):
        found[module.name] = importlib.import_module(f"{__name__}.{module.name}").FRONT_END
    return found


def find_front_end(sources: Sequence[Path], launched: bool = False) -> FrontEnd:
    """Return the front end for a program's sources. Raises UsageError if none reads them, or they are of several
    languages.

    `launched`: it is a program that a build has made, which not every front end can have. If several front ends read
    these suffixes, the first (by module name) that finds its directives in the sources is taken.
    """
    suffixes = {source.suffix.lower() for source in sources}
    known = load_front_ends().values()
    fitting = [one for one in known if suffixes <= one.suffixes and (len(sources) == 1 or not one.script)]
    if fitting:
        for source, one in ((source, one) for source in sources for one in known if one not in fitting):
            if source.suffix.lower() in one.suffixes and one.claims([source]) and not one.script:
                raise UsageError(
                    f"{source} has directives of {one.name}, but other sources are in another language: name only the "
                    "sources of one language, compile the others yourself, and link their objects: --link other.o"
                )
        without_directives = next((one for one in fitting if one.launched and launched), fitting[0])
        claiming = (one for one in fitting if one.claims(sources))
        return without_directives if len(fitting) == 1 else next(claiming, without_directives)
    told = "; ".join(f"{one.name} ({', '.join(sorted(one.suffixes))})" for one in known)
    raise UsageError(f"{sources[0]}: name sources in one language only: {told}")


def is_script(source: Path) -> bool:
    """Return whether a file is a program of its own, so that the words after it are its arguments."""
    return any(one.script and source.suffix.lower() in one.suffixes for one in load_front_ends().values())
