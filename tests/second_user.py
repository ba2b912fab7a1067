"""A second user of the machine, who writes what he likes: a process that has dropped its privileges."""

from __future__ import annotations

import os
import pwd
import traceback
from collections.abc import Callable
from functools import cache

import pytest


@cache
def second_user() -> int:
    """A user's number that is nobody's. The test is skipped where this process may not become another user."""
    if os.geteuid() != 0:
        pytest.skip("a second user is made by root alone: run the tests as root to see this one")
    known = {one.pw_uid for one in pwd.getpwall()}
    return next(number for number in range(61_200, 62_000) if number not in known)


def as_second_user(do: Callable[[], object]) -> None:
    """Do something as the second user, in a process of its own; the test fails where that fails."""
    user = second_user()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.umask(0o022)
            do()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
