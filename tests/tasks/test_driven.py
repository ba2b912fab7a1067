"""One coroutine followed through real servers, clients and pools (driven.py), as far as their libraries are here."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from pathlib import Path

import pytest
from tests.tasks import driven

NEEDS = {"events": [], "web": ["aiohttp"], "uvloop": ["aiohttp", "uvloop"], "served": ["uvicorn", "httpx"]}


@pytest.mark.parametrize("name", NEEDS)
def test_a_coroutine_is_followed_line_by_line_while_a_library_works(name: str) -> None:
    missing = [module for module in NEEDS[name] if importlib.util.find_spec(module) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    program, *arguments = driven.WAYS[name]
    command = [sys.executable, str(driven.PROGRAMS / program), *arguments]
    assert driven.once(command, random.Random(os.getpid())) == ""


def test_a_coroutine_is_followed_through_a_pool_of_database_connections() -> None:
    servers = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if importlib.util.find_spec("psycopg_pool") is None or not servers:
        pytest.skip("psycopg_pool or PostgreSQL is not installed")
    with driven.postgres(str(servers[-1].parent)) as address:
        command = [sys.executable, str(driven.PROGRAMS / "base.py"), address]
        assert driven.once(command, random.Random(os.getpid())) == ""
