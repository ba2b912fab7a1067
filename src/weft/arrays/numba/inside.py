"""The process that the user's script runs in: python -m weft.arrays.numba.inside FOLDER script.py ARGUMENTS.

FOLDER gets the side file of the runtime's findings (texts.json) and what comparing results found (numba.json).
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import sys
from dataclasses import asdict
from pathlib import Path

TEXTS = "texts.json"
COMPARED = "numba.json"


def begin(folder: Path, library: Path) -> None:
    """Have everything that Numba compiles from here on checked; at the end of the process `folder` has the findings."""
    os.environ.setdefault("NUMBA_NUM_THREADS", "4")
    from weft.arrays.numba.compiler import install
    from weft.arrays.numba.native import Runtime
    from weft.arrays.numba.session import Session
    from weft.arrays.texts import Texts

    texts = Texts(language="python")
    runtime = Runtime(library)
    session = Session(install(texts, runtime), runtime)
    session.install()
    process = os.getpid()

    def end() -> None:
        if os.getpid() != process:
            return  # a child of the program's: it has its parent's findings, not its own
        runtime.flush()
        texts.write(folder / TEXTS)
        compared = [asdict(one) for one in session.mismatches.values()]
        checked = [[file, name, count] for (file, name), count in session.checked.items()]
        (folder / COMPARED).write_text(json.dumps({"mismatches": compared, "checked": checked}), encoding="utf-8")

    atexit.register(end)


def main() -> None:
    """Run the script as `python script.py` would."""
    folder, library, script, *arguments = sys.argv[1:]
    begin(Path(folder).resolve(), Path(library))
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
