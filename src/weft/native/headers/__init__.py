"""The shared headers as Python modules, one each: written by the build (weft.native.generate), never edited or kept.

They are for one state of the headers. Where a header was changed since, nothing here is believed: a structure that has
another layout in C would be silently misread.
"""

from __future__ import annotations

from weft.errors import WeftError
from weft.native.shared import header_state

REMEDY = "reinstall weft-debugger, or run `make kernel` in a checkout"


def _check_state() -> None:
    """Raise WeftError if Weft's native library was not built, or a C header has changed since it was."""
    try:
        # The build makes it: if it is missing, an error says so.
        from weft.native.headers.made_for import STATE
    except ImportError:
        raise WeftError(f"Weft's native side is not built: {REMEDY}") from None
    if header_state() != STATE:
        raise WeftError(f"a header of Weft's native side was changed after it was built: {REMEDY}")


_check_state()
