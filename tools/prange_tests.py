"""Numba's own tests of parallel loops, as they are and under `weft check`: what comes of each, and what is found.

    python tools/prange_tests.py [--seconds 300] [--list] [WORD]...

Takes the classes of the installed package's tests (numba/tests) in which `prange` stands, or those with a WORD in their
name, and of each the tests that use it: all of them where it stands outside of tests. A line a class: whether each
test came out alike, plain and checked, and below it what was found. The status is 1 where any did not.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from trials import trial

DRIVER: Final = '''\
"""Runs tests and prints what came of each."""
import io, os, sys, unittest, warnings

os.environ["SUBPROC_TEST"] = "1"  # tests that want a process of their own run in this one


class Told(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        self.outcome = "passed"

    def addError(self, test, error):
        self.outcome = f"error: {error[0].__name__}"

    def addFailure(self, test, error):
        self.outcome = "failed"

    def addSkip(self, test, reason):
        self.outcome = "skipped"

    def addSubTest(self, test, part, error):
        if error:
            self.outcome = "failed in a part"

    def stopTest(self, test):
        super().stopTest(test)
        outcomes.append(f"{test.id()}: {self.outcome}")


outcomes = []
names = NAMES
out, sys.stdout = sys.stdout, io.StringIO()
unittest.TestLoader().loadTestsFromNames(names).run(Told())
sys.stdout = out
print("\\n".join(outcomes))
'''


def classes(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The name of each class, and its tests, by the names that unittest loads them by."""
    found = find_spec("numba.tests")
    assert found is not None
    assert found.submodule_search_locations
    root = Path(found.submodule_search_locations[0])
    for path in sorted(root.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        module = ".".join(("numba", "tests", *path.relative_to(root).with_suffix("").parts))
        for one in ast.parse(text).body if "prange" in text else ():
            if isinstance(one, ast.ClassDef) and (tests := chosen(one, text)):
                name = f"{module}.{one.name}"
                if not words or any(word in name for word in words):
                    yield name, [f"{name}.{test}" for test in tests]


def chosen(one: ast.ClassDef, text: str) -> list[str]:
    """The tests of a class that use prange: all where something else of the class does."""
    lines = text.split("\n")

    def uses(node: ast.stmt) -> bool:
        return any("prange" in line for line in lines[node.lineno - 1 : node.end_lineno])

    methods = [node for node in one.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test")]
    every = any(uses(node) for node in one.body if node not in methods)
    return [node.name for node in methods if every or uses(node)]


def main() -> int:
    """Print a line a class, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--seconds", type=float, default=300, help="of processor time of a class's plain tests")
    parser.add_argument("--list", action="store_true", help="only name the classes and how many tests each has")
    args = parser.parse_args()
    differing = 0
    for name, tests in classes(args.words):
        if args.list:
            print(f"{len(tests):4} {name}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            driver = Path(folder, f"{name.rpartition('.')[2]}.py")
            driver.write_text(DRIVER.replace("NAMES", repr(tests)))
            one = trial(driver, (), "", args.seconds)
        differing += one.outcome != "same"
        print(f"{one.outcome:8} {name} ({len(tests)} tests): {one.said}", flush=True)
        for line in (*one.differing, *one.findings):
            print(f"         {line}", flush=True)
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
