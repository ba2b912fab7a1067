"""`mpiexec -n 4 pytest --weft`: reports one summary of all ranks, failures of any rank, and tests that hang."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from weft.pytest_plugin.hang import Hang

OPTION: Final = "--weft"
PATIENCE: Final = 60.0
"""Seconds for all ranks to come to the start of the suite."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin to pytest."""
    group = parser.getgroup("weft", "Weft, the debugger for parallel programs")
    group.addoption(OPTION, action="store_true", dest="weft_suite",
                    help="run each test on all ranks: mpiexec -n 4 python -m pytest --weft")  # fmt: skip
    group.addoption("--weft-timeout", type=float, default=60.0, metavar="SECONDS",
                    help="with --weft: a test that takes a rank more than SECONDS hangs (default: 60)")  # fmt: skip
    group.addoption("--weft-from", metavar="TEST", help="with --weft: leave out all tests before this one")
    group.addoption("--weft-folder", type=Path, metavar="FOLDER",
                    help="with --weft: the folder in which the ranks meet; all hosts must see it")  # fmt: skip


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin if `--weft` is given; this waits for the other ranks."""
    if config.getoption("weft_suite", default=False) and not config.option.collectonly:
        config.pluginmanager.register(Suite(config), "weft-suite-ranks")


class Suite:
    """This rank's part of a suite: pytest's hooks under `--weft`."""

    def __init__(self, config: pytest.Config) -> None:
        # pytest imports the plugin in every suite of the environment: it is to cost nothing where nothing is asked for.
        from weft.base.words import rank_words
        from weft.launch import job_step
        from weft.pytest_plugin.hang import HangMonitor
        from weft.pytest_plugin.meeting import SuiteMeeting

        if getattr(config.option, "numprocesses", None):
            raise pytest.UsageError(
                "weft: --weft runs each test on all ranks, and -n of pytest-xdist distributes tests: leave out one of "
                "them"
            )
        own = job_step.find_own_step()
        self.rank, self.size = (own.rank, own.size) if own is not None else (0, 1)
        self._config, self._words = config, rank_words
        name = own.name if own is not None else str(os.getpid())
        folder = config.getoption("weft_folder") or config.rootpath / ".weft-suite"
        self._folder = Path(folder, name)
        try:
            self._meeting = SuiteMeeting(self._folder, self.rank, self.size)
        except OSError as error:
            raise pytest.UsageError(
                f"weft: the ranks cannot meet in {folder} ({error.strerror}): name another folder with --weft-folder"
            ) from error
        if missing := self._meeting.meet_all_ranks(PATIENCE):
            raise pytest.UsageError(
                f"weft: {rank_words(missing)} of {self.size} did not start the test suite; on several hosts, name a "
                "folder that all of them see with --weft-folder"
            )
        self._reporter: Any = config.pluginmanager.getplugin("terminalreporter")
        if self.rank and self._reporter is not None:
            # Rank 0 tells of all.
            self._reporter._tw._file = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        self._guard = HangMonitor(self._meeting, config.getoption("weft_timeout"), rank_words, self._report_before_end)
        self._guard.start()
        self._number = -1
        self._items: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out the tests before --weft-from, and check that all ranks have the same tests in the same order."""
        begin = config.getoption("weft_from")
        if begin:
            names = [item.nodeid for item in items]
            if begin not in names:
                raise pytest.UsageError(f"weft: --weft-from {begin}: pytest collected no test of this name")
            at = names.index(begin)
            config.hook.pytest_deselected(items=items[:at])
            items[:] = items[at:]
        self._items = [item.nodeid for item in items]
        self._meeting.publish(items=self._items, collected=True)
        self._meeting.wait_for_all_ranks("collected", True)
        for rank, said in enumerate(self._meeting.said):
            if said["items"] != self._items:
                only = sorted(set(said["items"]) ^ set(self._items))[:3] or ["the same in another order"]
                raise pytest.UsageError(
                    f"weft: rank {rank} has collected other tests than rank {self.rank}: {', '.join(only)}"
                )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test, wait for the other ranks, and report the merged result."""
        # As in __init__.
        from _pytest.runner import runtestprotocol

        from weft.pytest_plugin.merge import merge_reports

        hook = self._config.hook
        self._number += 1
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self._guard.start_test(self._number, item.nodeid)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        self._guard.mark_rank_done()
        data = [hook.pytest_report_to_serializable(config=self._config, report=report) for report in reports]
        self._meeting.publish(reports=data, done=self._number)
        self._meeting.wait_for_all_ranks("done", self._number)
        self._guard.end_test()
        every = [
            [hook.pytest_report_from_serializable(config=self._config, data=one) for one in said["reports"]]
            for said in self._meeting.said
        ]
        hang = self._guard.hangs.get(self._number)
        for report in merge_reports(every, self._words):
            if hang is not None and report.when == "call":
                report.sections.append(("weft: where the ranks were", hang.text))
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        self._meeting.publish(told=self._number)
        self._meeting.wait_for_all_ranks("told", self._number)
        return True

    def _report_before_end(self, hang: Hang) -> None:
        """Print the summary of the suite so far, before the job is ended because of a hang."""
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)
        tell = self._reporter
        if tell is None:
            return
        tell.ensure_newline()
        tell.summary_failures()
        tell.section("weft: a test hangs and cannot be interrupted: the job ends here", sep="=", red=True)
        for line in hang.text.splitlines():
            tell.line(line)
        counts = ", ".join(
            f"{len(tell.stats[key])} {key}" for key in ("passed", "failed", "skipped") if tell.stats.get(key)
        )
        left = self._items[hang.test + 1 :]
        tell.line(f"before it: {counts or 'no test'}; not run: {len(left)}")
        if left:
            tell.line(f"continue after it with: --weft-from '{left[0]}'")
        tell._tw.flush()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Remove the folder of the meeting on rank 0. The other ranks have read what they need."""
        if self.rank == 0:
            shutil.rmtree(self._folder, ignore_errors=True)
