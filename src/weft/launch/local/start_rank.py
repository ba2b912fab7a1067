"""The start of a rank on its host (`entry.py` SETUP -- PROGRAM ARGS).

It makes the run's folder there, sees to the recorder of this host's own MPI, and becomes the program. The first one on
a host also starts the watcher, which is no child of the program and holds none of its files.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.base.lifetime import die_with_parent, start_time
from weft.errors import WeftError
from weft.launch.launcher_line import PRELOAD
from weft.launch.local.rank_setup import SECRET, Setup, make_folder, of_word
from weft.mpi import prebuilt
from weft.mpi.prebuilt import Shim
from weft.safety.started import own_python

PATIENCE: Final = 15.0
"""Seconds that the program waits for its host's watcher: from then on `weft run` knows of this host."""


def main(words: Sequence[str]) -> int:
    """Become the program; returns only where there is none."""
    setup, program = of_word(words[0]), list(words[2:])
    secret = os.environ.pop(SECRET, "")
    environment = dict(os.environ)
    try:
        environment = prepared(setup, secret, environment)
    except (WeftError, OSError) as error:
        # The program is never kept from running.
        print(f"weft: {os.uname().nodename}: this rank is not recorded: {error}", file=sys.stderr, flush=True)
    try:
        os.execvpe(program[0], program, environment)
    except OSError as error:
        print(f"weft: cannot start {program[0]}: {error.strerror}", file=sys.stderr, flush=True)
        return 126 if isinstance(error, PermissionError) else 127


def prepared(setup: Setup, secret: str, environment: dict[str, str]) -> dict[str, str]:
    """The program's environment, once all is there that it is recorded with."""
    make_folder(setup.folder)
    if setup.run is not None:
        die_with_parent()  # launchers know only the task that started the program
    (setup.folder / "tasks" / str(os.getpid())).write_text(start_time(os.getpid()) or "")
    shim = recorder(setup)
    with suppress(FileExistsError):
        os.close(os.open(setup.folder / "watcher", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        start_watcher(setup, secret, shim)
    preload = ":".join(filter(None, [str(shim.path), environment.get(PRELOAD)]))
    return {**environment, **setup.variables, PRELOAD: preload, "WEFT_INTERNAL_RUN": str(setup.folder)}


def recorder(setup: Setup) -> Shim:
    """The recorder for the MPI of this host, built here where there is none. WeftError where it cannot be."""
    library = Path(setup.library)
    if not library.exists():
        raise WeftError(
            f"there is no {library} on this host: the program's MPI must lie in the same place on all hosts"
        )
    if (known := prebuilt.look(library)) is not None:
        return known
    # Only where it is built: what builds it takes longer to come than all of a start.
    from weft.launch.compiler import compiler_for
    from weft.launch.library import Library
    from weft.mpi import shim

    mpicc = setup.mpicc or compiler_for(Library(library))
    if mpicc is None:
        raise WeftError(f"no mpicc on this host builds for {library} (run `weft doctor` there)")
    return shim.build(str(mpicc))


def start_watcher(setup: Setup, secret: str, shim: Shim) -> None:
    """Start the watcher of this host, and wait until `weft run` knows it or it has given up."""
    told, tell = os.pipe()
    between = os.fork()  # so that the program gets no child that it did not make
    if not between:
        try:
            launch(json.dumps({"setup": setup.word(), "secret": secret, "functions": str(shim.functions_json_path)}),
                   setup.folder, tell)  # fmt: skip
        finally:
            os._exit(0)
    os.waitpid(between, 0)
    os.close(tell)
    select.select([told], [], [], PATIENCE)
    os.close(told)


def launch(facts: str, folder: Path, tell: int) -> None:
    """The watcher's process; `tell` is closed when it has begun, or has failed to."""
    environment = {name: value for name, value in os.environ.items() if name != PRELOAD}
    with (folder / "watcher").open("ab") as log:
        process = subprocess.Popen(
            own_python("-m", "weft.launch.local.watcher"), stdin=subprocess.PIPE, stdout=tell, stderr=log,
            cwd="/", env=environment, start_new_session=True,
        )  # fmt: skip
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(facts.encode())
