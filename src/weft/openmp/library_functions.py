"""The functions of the C library with static data of their own, and what to call instead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

INSTEAD: Final = {
    "strtok": "`strtok_r`",
    "gmtime": "`gmtime_r`",
    "localtime": "`localtime_r`",
    "asctime": "`asctime_r`",
    "ctime": "`ctime_r`",
    "drand48": "`erand48`",
    "lrand48": "`nrand48`",
    "mrand48": "`jrand48`",
    "srand48": "`erand48`",
    "getpwnam": "`getpwnam_r`",
    "getpwuid": "`getpwuid_r`",
    "getgrnam": "`getgrnam_r`",
    "getgrgid": "`getgrgid_r`",
    "gethostbyname": "`getaddrinfo`",
    "setenv": "a call before the threads begin",
    "unsetenv": "a call before the threads begin",
    "putenv": "a call before the threads begin",
    "hsearch": "`hsearch_r`",
}
"""Functions that POSIX.1-2017 (XSH 2.9.1) lets be unsafe in threads, as native/libraries.c watches them."""
_CALL: Final = re.compile(rf"\b({'|'.join(INSTEAD)})\s*\(")


def called_function(lines: Iterable[str]) -> str:
    """Return the first function with data of its own that one of the lines calls; "" if none does."""
    return next((found[1] for text in lines if (found := _CALL.search(text))), "")
