"""Run one module of mpi4py's test suite on this rank and write each test's outcome to a file of its own."""

from __future__ import annotations

import json
import os
import sys
import unittest
from pathlib import Path


class Outcomes(unittest.TestResult):
    """A result that keeps one word for each test."""

    def __init__(self) -> None:
        super().__init__()
        self.words: dict[str, str] = {}

    def _note(self, test: unittest.TestCase, word: str) -> None:
        self.words[test.id()] = word

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "ok")

    def addError(self, test: unittest.TestCase, err: object) -> None:
        self._note(test, "error " + getattr(err[0], "__name__", ""))  # type: ignore[index]
        super().addError(test, err)  # type: ignore[arg-type]

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        self._note(test, "fail")
        super().addFailure(test, err)  # type: ignore[arg-type]

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._note(test, "skip " + reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: object) -> None:
        self._note(test, "expected failure")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "unexpected success")


def main() -> int:
    folder, module, out = sys.argv[1:4]
    sys.path.insert(0, folder)
    os.chdir(folder)
    suite = unittest.defaultTestLoader.loadTestsFromName(module)
    outcomes = Outcomes()
    suite.run(outcomes)
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank() if not MPI.Is_finalized() else 0
    Path(f"{out}.{rank}.json").write_text(json.dumps(outcomes.words))
    return 0


if __name__ == "__main__":
    sys.exit(main())
