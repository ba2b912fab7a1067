"""How Weft starts a Python of its own: what lies in the working folder is never imported."""

from __future__ import annotations

import sys


def own_python(*words: str) -> list[str]:
    """The command that runs modules of Weft with this interpreter, `-m`, `weft` and what follows.

    Without -P, a weft.py in the working folder would be executed instead, whoever put it there.
    """
    return [sys.executable, "-P", *words]
