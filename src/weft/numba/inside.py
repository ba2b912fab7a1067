"""The process that the user's script runs in: python -m weft.numba.inside TEXTS LIBRARY script.py ARGUMENTS.

TEXTS becomes the side file of the runtime's findings; what comparing results found is written beside it.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import sys
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.dataparallel import runtime_output
from weft.dataparallel.messages import NO_ROOM
from weft.dataparallel.source_map import SourceMap
from weft.errors import WeftError
from weft.numba.in_process import Runtime
from weft.numba.program import COMPARED

if TYPE_CHECKING:
    from weft.numba.loop_checks import LoopChecks

THREADS: Final = "4"
"""Workers that iterations are dealt out to, where the program's user does not say."""


@dataclass(frozen=True, slots=True)
class ProcessChecks:
    """The checks of this process; findings are written to `texts_path`, beside it, and to `findings`."""

    session: LoopChecks
    texts_path: Path
    findings: Path

    def write_results(self) -> None:
        """Write all that was found so far: the runtime's findings, the source map, and the results of comparisons."""
        self.session.runtime.flush()
        self.session.compiler.texts.write(self.texts_path)
        held = {
            "mismatches": [asdict(one) for one in self.session.mismatches.values()],
            "checked": [[file, name, count] for (file, name), count in self.session.checked.items()],
            "ranks": self.session.compiler.ranks,
            "left": list(self.session.compiler.unchecked.describe(self.session.compiler.kernels)),
        }
        path = self.texts_path.parent / COMPARED
        path.write_text(json.dumps(held), encoding="utf-8")


def begin_checks(source_map_path: Path, library: Path) -> ProcessChecks:
    """Check everything that Numba compiles from now on; the findings are written when the process ends.

    Raises WeftError if there is no memory for the shadow memory.
    """
    if "numba" not in sys.modules:  # it has made its threads when it was imported
        os.environ.setdefault("NUMBA_NUM_THREADS", THREADS)
    findings = Path(os.environ["WEFT_INTERNAL_CHECK_FINDINGS"])
    # Importing Numba makes its threads: how many is set above.
    from weft.numba.compiler import install_hooks
    from weft.numba.loop_checks import LoopChecks

    runtime = Runtime(library)  # takes the variable out of the environment: children are not to write there
    os.environ.pop("WEFT_INTERNAL_CHECK_FINDINGS", None)
    if runtime_output.read_runtime_output(findings).usage is not None:
        raise WeftError(NO_ROOM)
    texts = SourceMap("python")
    if os.environ.pop("WEFT_INTERNAL_CHECK_TRACE", None):
        # Only where values are traced.
        from weft.numba.told import TracedSourceMap

        texts = TracedSourceMap(library)
    session = LoopChecks(install_hooks(texts, runtime), runtime)
    session.install()
    watch = ProcessChecks(session, source_map_path, findings)
    process = os.getpid()

    def end() -> None:
        if os.getpid() == process:  # a child has its parent's findings, not its own
            watch.write_results()

    session.tell = end  # a program that crashes does not come to its end
    end()
    atexit.register(end)
    return watch


def main() -> None:
    """Run the user's script as `python script.py` would, after the checks of parallel loops were switched on."""
    texts, library, script, *arguments = sys.argv[1:]
    try:
        begin_checks(Path(texts).resolve(), Path(library).resolve())
    except WeftError:  # the runtime's lines say it, too
        sys.exit(1)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))  # with -P there is no working folder
    try:
        runpy.run_path(script, run_name="__main__")
    except Exception as error:
        print("".join(format_traceback(error)), end="", file=sys.stderr)
        sys.exit(1)


def format_traceback(error: BaseException) -> list[str]:
    """Return the lines of an exception's traceback, without the frames of Weft itself."""
    own = (str(Path(__file__).parent), "<frozen runpy>")
    text = traceback.TracebackException.from_exception(error)
    text.stack = traceback.StackSummary.from_list([one for one in text.stack if not one.filename.startswith(own)])
    return list(text.format())


if __name__ == "__main__":
    main()
