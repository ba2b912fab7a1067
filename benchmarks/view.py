"""What `weft view` costs on synthetic runs (traces.py), seen from a real Chromium.

    python benchmarks/view.py [--events 10e6] [--ranks 64] [--pattern halo] [--steps 100] [--size 1600x900]

Each line: seconds to index the run, seconds from the command to the drawn page once the index is there, milliseconds
of a pan or zoom step from the key to the drawn picture (median and 95th percentile, each step to a part of the run that
was not asked for before), and the memory of the page's process at the end.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from selenium import webdriver
from traces import write

READY = 60.0
SETTLED = 3.0
"""Seconds that a new browser has to itself: its own start is not the view's."""


class Viewer:
    """A running `weft view` and its address."""

    def __init__(self, run: Path) -> None:
        command = [sys.executable, "-m", "weft.cli.main", "view", str(run), "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        if not found:
            raise RuntimeError("weft view did not start")
        self.url = found[0]

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()


def chromium(size: str) -> Any:
    """A browser without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    width, height = size.split("x")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},{height}"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def drawn(browser: Any) -> None:
    """Wait until the graph shows the run."""
    end = time.monotonic() + READY
    while not browser.execute_script("return document.querySelector('#graph')?.dataset.frames"):
        if time.monotonic() > end:
            raise RuntimeError("the page was not drawn")
        time.sleep(0.005)


STEP = """
const [from, to, done] = [arguments[0], arguments[1], arguments[2]];
import('weft/main.js').then(({page}) => {
  const begun = performance.now();
  page.graph.show = ((show) => function (part) {
    show.call(this, part);
    delete page.graph.show;
    requestAnimationFrame(() => done(performance.now() - begun));
  })(page.graph.show);
  page.state.set({from, to});
});
"""

IDLE = """
const done = arguments[0];
import('weft/main.js').then(({page}) => {
  const look = () => page.graph.waiting ? setTimeout(look, 5) : done(page.graph.axis.end);
  look();
});
"""


def steps(browser: Any, count: int) -> list[float]:
    """Milliseconds of steps that pan and zoom through the run, from all of it down to single calls and back."""
    chance = random.Random(5)
    end = float(browser.execute_async_script(IDLE))
    middle, wide, found = end / 2, end, []
    for _ in range(count):
        wide = min(end, max(end * 1e-6, wide * chance.choice((0.4, 0.6, 1, 1, 1 / 0.6, 1 / 0.4))))
        middle = min(max(middle + wide * chance.uniform(-0.4, 0.4), wide / 2), end - wide / 2)
        found.append(float(browser.execute_async_script(STEP, middle - wide / 2, middle + wide / 2)))
        browser.execute_async_script(IDLE)
    return found


def page_megabytes(browser: Any) -> float:
    """Memory of the process that shows the page (its proportional share of pages that several share)."""
    sizes = []
    for pid in descendants(browser.service.process.pid):
        try:
            if b"--type=renderer" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                continue
            found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
        except OSError:
            continue
        sizes.append(int(found[1]) / 1000 if found else 0.0)
    return max(sizes, default=0.0)


def descendants(pid: int) -> list[int]:
    """The processes below one."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


def one(run: Path, count: int, size: str) -> tuple[float, ...]:
    """Seconds to index, seconds to open, milliseconds of the steps (median, 95 %), megabytes."""
    program = (
        "import sys, time, weft; from weft.view.run_view import RunView; t = weft.open(sys.argv[1]); s = time.time(); "
        "RunView(t); print(time.time() - s)"
    )
    made = subprocess.run(
        [sys.executable, "-c", program, str(run)], check=True, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    browser = chromium(size)
    browser.set_script_timeout(60)
    time.sleep(SETTLED)
    begun = time.monotonic()
    viewer = Viewer(run)
    try:
        browser.get(viewer.url)
        drawn(browser)
        opened = time.monotonic() - begun
        while not browser.execute_script("return document.body.dataset.ready === 'yes'"):
            time.sleep(0.1)
        taken = sorted(steps(browser, count))
        memory = page_megabytes(browser)
    finally:
        browser.quit()
        viewer.close()
    return float(made.stdout), opened, statistics.median(taken), taken[int(len(taken) * 0.95)], memory


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", default="10e6")
    parser.add_argument("--ranks", default="64")
    parser.add_argument("--pattern", default="halo")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--size", default="1600x900")
    given = parser.parse_args()
    print("| pattern    | ranks | million | index s | open s | step ms | 95 % ms | page MB |", flush=True)
    print("|------------|-------|---------|---------|--------|---------|---------|---------|", flush=True)
    for pattern in given.pattern.split(","):
        for events in given.events.split(","):
            for ranks in given.ranks.split(","):
                with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
                    os.environ["WEFT_CACHE"] = f"{folder}/cache"
                    run = write(Path(folder) / "run", pattern, int(ranks), int(float(events)))
                    index, opened, median, most, memory = one(run, given.steps, given.size)
                    print(
                        f"| {pattern:10} | {ranks:>5} | {float(events) / 1e6:>7.0f} | {index:>7.2f} | {opened:>6.2f} "
                        f"| {median:>7.1f} | {most:>7.1f} | {memory:>7.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
