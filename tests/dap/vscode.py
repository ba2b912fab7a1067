"""VS Code in a real Chromium: code-server's build of it, with the extension's folder loaded, as a person uses it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from machine import need
from tests_support import ROOT

VERSION = "4.100.3"
NATIVE = ("@vscode/spdlog", "native-watchdog", "node-pty")
"""Modules of it that are compiled."""
SETTINGS = {
    "security.workspace.trust.enabled": False, "workbench.startupEditor": "none", "workbench.tips.enabled": False,
    "telemetry.telemetryLevel": "off", "window.menuBarVisibility": "compact",
}  # fmt: skip
LIMIT = 120.0


def installed() -> Path:
    """The server's main module: of the folder that WEFT_TEST_CODE_SERVER names, or of build/code-server, by npm."""
    need("node", "npm")
    home = Path(os.environ.get("WEFT_TEST_CODE_SERVER") or ROOT / "build" / "code-server")
    server = home / "node_modules" / "code-server" / "lib" / "vscode"
    if not (server / "node_modules.asar").exists():
        home.mkdir(parents=True, exist_ok=True)
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]
        _npm(["install", *quiet, "--prefix", str(home), f"code-server@{VERSION}"], home)
        _npm(["install", *quiet, "--omit", "dev"], server)
        _npm(["install", *quiet, "--omit", "dev"], server / "extensions")
        _npm(["rebuild", *NATIVE], server)
        (server / "node_modules.asar").symlink_to("node_modules")
    return server / "out" / "server-main.js"


def _npm(words: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            ["npm", *words], cwd=folder, capture_output=True, text=True, timeout=600, check=False,
            env={**os.environ, "npm_config_yes": "true"},  # scripts of packages call npx, which would ask
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"code-server cannot be installed here: {error}")
    if done.returncode:
        pytest.skip(f"code-server cannot be installed here: npm {words[0]}: {done.stderr[-300:]}")


class Code:
    """One window of the editor on a folder."""

    def __init__(self, browser: Any, folder: Path, home: Path) -> None:
        self.browser, self.home = browser, home
        for place in ("User", "Machine", "data/User", "data/Machine"):
            (home / place).mkdir(parents=True)
            (home / place / "settings.json").write_text(json.dumps(SETTINGS))
        extensions = home / "extensions"
        shutil.copytree(ROOT / "editors" / "vscode", extensions / "weft-debugger.weft-0.1.0")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._server = subprocess.Popen(
            ["node", installed(), "--host", "127.0.0.1", "--port", str(self._port), "--without-connection-token",
             "--accept-server-license-terms", "--user-data-dir", home, "--server-data-dir", home,
             "--extensions-dir", extensions],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.until(self._answers, "the server answers")
        browser.get(f"http://127.0.0.1:{self._port}/?folder={folder}")
        self.until(lambda: self.text(".explorer-folders-view"), "the folder is shown")
        time.sleep(3)  # the workbench takes keys before it acts on them

    def _answers(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self._port)) == 0

    def close(self) -> None:
        """End the window and the server."""
        self.browser.get("about:blank")
        os.killpg(self._server.pid, signal.SIGTERM)
        self._server.wait(20)

    def text(self, selector: str) -> str:
        """The text of all elements."""
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText).join('\\n')"
        return str(self.browser.execute_script(script, selector))

    def until(self, fits: Callable[[], Any], what: str) -> Any:
        """Wait until something holds."""
        end = time.monotonic() + LIMIT
        while not (found := fits()):
            if time.monotonic() > end:
                self.keep("failed")
                raise AssertionError(f"it never came about: {what}")
            time.sleep(0.2)
        return found

    def shows(self, selector: str, *words: str) -> None:
        """Wait until elements show all of these words."""
        self.until(lambda: all(word in self.text(selector) for word in words), f"{selector} shows {words}")

    def keys(self, *keys: str) -> None:
        """Press keys together."""
        from selenium.webdriver.common.action_chains import ActionChains

        chain = ActionChains(self.browser)
        for key in keys[:-1]:
            chain.key_down(key)
        chain.send_keys(keys[-1])
        for key in reversed(keys[:-1]):
            chain.key_up(key)
        chain.perform()
        time.sleep(1)

    def click(self, selector: str, word: str = "", *, double: bool = False) -> None:
        """Click the first element that shows a word, wherever the workbench has drawn it anew."""
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.common.action_chains import ActionChains

        def clicked() -> bool:
            try:
                for one in self.browser.find_elements("css selector", selector):
                    if word in one.text:
                        if double:
                            ActionChains(self.browser).double_click(one).perform()
                        else:
                            one.click()
                        return True
            except WebDriverException:
                pass
            return False

        self.until(clicked, f"{selector} with {word!r} is clicked")
        time.sleep(1)

    @contextmanager
    def panel(self) -> Iterator[Callable[[str], Any]]:
        """The page in the newest panel of an extension: what runs a script there."""
        for frame in ("iframe.webview.ready", "iframe#active-frame"):
            [*_, newest] = self.until(
                lambda f=frame: self.browser.find_elements("css selector", f), f"{frame} is there"
            )
            self.browser.switch_to.frame(newest)
        try:
            yield self.browser.execute_script
        finally:
            self.browser.switch_to.default_content()

    def keep(self, name: str) -> None:
        """A picture of the window, in WEFT_SCREENSHOTS where that is set."""
        folder = Path(os.environ.get("WEFT_SCREENSHOTS") or self.home)
        folder.mkdir(parents=True, exist_ok=True)
        self.browser.save_screenshot(str(folder / f"vscode-{name}.png"))
