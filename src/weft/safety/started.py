"""Start a Python of Weft's own, which never imports anything from the working folder."""

from __future__ import annotations

import sys


def own_python(*words: str) -> list[str]:
    """Return the command that runs modules of Weft with this interpreter. `words`: `-m`, `weft` and what follows.

    Without -P, a weft.py in the working folder would be executed instead, whoever put it there.
    """
    return [sys.executable, "-P", *words]
