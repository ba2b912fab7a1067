"""Know which builds of Python Weft supports: those with a lock (GIL), of CPython 3.11 to 3.14. Standard library
only.
"""

from __future__ import annotations

OLDEST = (3, 11)
_UNLOCKED = "free-threading"


def is_free_threaded(version: str) -> bool:
    """Return whether an interpreter is built without a lock, given its `sys.version`."""
    return _UNLOCKED in version


def explain_free_threaded(whose: str, version: str, consequence: str) -> str:
    """Return the message that Weft does not work with a Python without a lock (free-threaded), and what to use.
    `whose`: the interpreter; `consequence`: what does not work."""
    number = version.split(" ", 1)[0]
    minor = ".".join(number.split(".")[:2])
    return (
        f"{whose} is the free-threaded build of Python {number}, {consequence}: use the standard build, python{minor}"
    )
