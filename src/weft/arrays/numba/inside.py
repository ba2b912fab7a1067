"""The process that the user's script runs in: python -m weft.arrays.numba.inside TEXTS LIBRARY script.py ARGUMENTS.

TEXTS becomes the side file of the runtime's findings; what comparing results found is written beside it.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Final

from weft.arrays.numba.program import COMPARED

THREADS: Final = "4"
"""Workers that iterations are dealt out to, where the program's user does not say."""


def begin(texts_path: Path, library: Path) -> None:
    """Have everything that Numba compiles from here on checked; what was found is written when the process ends."""
    os.environ.setdefault("NUMBA_NUM_THREADS", THREADS)
    findings = os.environ["WEFT_CHECK_FINDINGS"]
    from weft.arrays.numba.compiler import install
    from weft.arrays.numba.native import Runtime
    from weft.arrays.numba.session import Session
    from weft.arrays.texts import Texts

    texts = Texts("python")
    runtime = Runtime(library)
    session = Session(install(texts, runtime), runtime, Path(findings))
    session.install()
    process = os.getpid()

    def end() -> None:
        if os.getpid() != process:
            return  # a child of the program's: it has its parent's findings, not its own
        runtime.flush()
        texts.write(texts_path)
        held = {
            "mismatches": [asdict(one) for one in session.mismatches.values()],
            "checked": [[file, name, count] for (file, name), count in session.checked.items()],
            "ranks": session.compiler.ranks,
        }
        (texts_path.parent / COMPARED).write_text(json.dumps(held), encoding="utf-8")

    atexit.register(end)


def main() -> None:
    """Run the script as `python script.py` would."""
    texts, library, script, *arguments = sys.argv[1:]
    begin(Path(texts).resolve(), Path(library).resolve())
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except Exception as error:
        print("".join(told(error)), end="", file=sys.stderr)
        sys.exit(1)


def told(error: BaseException) -> list[str]:
    """A traceback without what Weft put between the program's lines."""
    own = (str(Path(__file__).parent), "<frozen runpy>")
    text = traceback.TracebackException.from_exception(error)
    text.stack = traceback.StackSummary.from_list([one for one in text.stack if not one.filename.startswith(own)])
    return list(text.format())


if __name__ == "__main__":
    main()
