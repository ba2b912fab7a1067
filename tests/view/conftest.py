"""Fixtures of the view: served runs, and a real Chromium."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from machine import browser
from view.page import Page
from weft.view.run_view import RunView
from weft.view.server import ViewServer


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Indices of tests go into a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[Path], ViewServer]]:
    """Serve runs until the tests of a file are over."""
    servers: list[ViewServer] = []

    def start(path: Path) -> ViewServer:
        server = ViewServer(RunView(weft.open(path)))
        servers.append(server)
        threading.Thread(target=server.picture.analyse, daemon=True).start()
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests."""
    started = browser("--hide-scrollbars", log=True)
    started.set_page_load_timeout(30)
    yield started
    started.quit()


@pytest.fixture
def page(chromium: Any, serve: Callable[[Path], ViewServer]) -> Iterator[Callable[..., Page]]:
    """Open a run, or an exported file, in the browser. No error may stand in its console afterwards."""

    def show(path: Path, **how: Any) -> Page:
        address = path.as_uri() if path.suffix == ".html" else serve(path).url
        return Page(chromium, address, **how)

    chromium.get_log("browser")
    yield show
    # The browser logs the server's answer to words that are no filter, and to a move that cannot be made; the page
    # tells it to the person.
    log = chromium.get_log("browser")
    known = re.compile("/api/(search|replay/)")
    said = [line for line in log if line["level"] == "SEVERE" and not known.search(line["message"])]
    chromium.get("about:blank")
    assert not said
