"""The page as a person uses it: keys, clicks at places of the graph, and what can be read then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

LIMIT = 60.0


class Page:
    """One open page."""

    def __init__(self, browser: Any, address: str, *, size: tuple[int, int] = (1280, 800), dark: bool = False) -> None:
        self.browser = browser
        self.shape(browser, size, dark=dark)
        browser.get(address)
        self.until(lambda: self.js("return document.body?.dataset.ready") == "yes")
        self.settle()

    @staticmethod
    def shape(browser: Any, size: tuple[int, int], *, dark: bool) -> None:
        """Give the browser's window a size, and the page a theme."""
        width, height = size
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})

    def js(self, script: str, *given: Any) -> Any:
        """What a script returns."""
        return self.browser.execute_script(script, *given)

    def ask(self, script: str) -> Any:
        """What a script returns that may wait; `page` is the page's own object."""
        return self.browser.execute_async_script(
            "const done = arguments[0]; import('weft/main.js').then(async ({page}) => { " + script + "\n})"
            ".catch((error) => done(String(error)));"
        )

    def state(self, expression: str) -> Any:
        """A value out of the page's objects, such as `page.state.axis`."""
        return self.ask(f"done({expression});")

    def until(self, fits: Callable[[], Any]) -> Any:
        """Wait until something holds."""
        end = time.monotonic() + LIMIT
        while not (found := fits()):
            if time.monotonic() > end:
                raise AssertionError(f"it never came about; the page shows: {self.text('body')[:800]}")
            time.sleep(0.03)
        return found

    def settle(self) -> None:
        """Wait until all that was asked for is drawn."""
        self.until(lambda: self.state("!page.graph.waiting && !page.graph.frame && page.graph.links.ready"))

    def text(self, selector: str) -> str:
        """The text of an element."""
        return str(self.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def fact(self, name: str) -> str:
        """A value in the panel of the selected call."""
        return str(
            self.js("return document.querySelector(`#details [data-fact='${arguments[0]}']`)?.textContent", name)
        )

    def key(self, *keys: str) -> None:
        """Press keys on the graph."""
        from selenium.webdriver.common.keys import Keys

        graph = self.browser.find_element("id", "graph")
        for key in keys:
            graph.send_keys(getattr(Keys, key) if len(key) > 1 else key)
        self.settle()

    def filter(self, words: str) -> None:
        """Type a filter."""
        from selenium.webdriver.common.keys import Keys

        field = self.browser.find_element("id", "filter")
        field.clear()
        field.send_keys(words, Keys.ENTER)
        self.until(lambda: self.text("#found"))
        self.settle()

    def place_of(self, rank: int, event: int) -> tuple[float, float]:
        """Where the middle of a call's box is on the canvas."""
        x, y = self.ask(
            f"const call = await page.api.event(page.state.axis, {rank}, {event});"
            "const [row, start, end] = call.place;"
            "const g = page.graph; const right = Math.min(g.x(end), g.width - 2); const left = Math.max(g.x(start), 1);"
            "done([92 + (left + right) / 2, 26 - g.scroll + g.lanes.rowY[row]]);"
        )
        return x, y

    def click(self, rank: int, event: int) -> None:
        """Click on the box of a call, with the mouse."""
        from selenium.webdriver.common.action_chains import ActionChains

        x, y = self.place_of(rank, event)
        graph = self.browser.find_element("id", "graph")
        ActionChains(self.browser, duration=10).move_to_element_with_offset(
            graph, int(x - graph.size["width"] / 2), int(y - graph.size["height"] / 2)
        ).click().perform()
        self.until(lambda: not self.js("return document.querySelector('#details').hidden"))

    def colours(self) -> int:
        """How many different colours the graph shows: a blank one has few."""
        script = """
            const c = document.querySelector('#graph');
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            const seen = new Set();
            for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
            return seen.size"""
        return int(self.js(script))

    def at(self, x: float, y: float, *, click: bool = False) -> None:
        """Put the mouse at a place of the graph's picture, and click there if told."""
        from selenium.webdriver.common.action_chains import ActionChains

        graph = self.browser.find_element("id", "graph")
        moved = ActionChains(self.browser, duration=10).move_to_element_with_offset(
            graph, int(92 + x - graph.size["width"] / 2), int(26 + y - graph.size["height"] / 2)
        )
        (moved.click() if click else moved).perform()

    def said(self) -> str:
        """What the page says of a key that can do nothing."""
        return str(self.js("const b = document.querySelector('#said'); return b.hidden ? '' : b.textContent"))

    def tab(self, name: str) -> None:
        """Open one of the tables and wait until it is filled."""
        self.ask(f"page.openTab({name!r}); done()")
        self.until(
            lambda: self.js(f"return document.querySelector('#tab-{name}').getAttribute('aria-pressed') === 'true'")
        )
        self.until(lambda: self.text("#tables") and "adds up" not in self.text("#tables"))

    def keep(self, folder: Any, name: str) -> Any:
        """A picture of the page, to be looked at: in WEFT_SCREENSHOTS where that is set, else in `folder`."""
        return self.save(self.browser, folder, name)

    @staticmethod
    def save(browser: Any, folder: Any, name: str) -> Any:
        """The same of any page."""
        import os
        from pathlib import Path

        place = Path(os.environ.get("WEFT_SCREENSHOTS") or folder)
        place.mkdir(parents=True, exist_ok=True)
        assert browser.save_screenshot(str(place / f"{name}.png"))
        return place / f"{name}.png"
