"""Prepare a rank's host and become the program (`entry.py` SETUP -- PROGRAM ARGS).

The process makes the run's folder on its host, finds the recorder for this host's own MPI, and becomes the program. The
first rank of a host also starts the watcher, which is no child of the program and holds none of its files.
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
from weft.launch.local.rank_setup import SECRET, RankSetup, decode_setup, make_host_folder
from weft.mpi import prebuilt
from weft.mpi.prebuilt import BuiltRecorder
from weft.safety.started import own_python

PATIENCE: Final = 15.0
"""Seconds that the program waits for its host's watcher: from then on `weft run` knows of this host."""


def main(words: Sequence[str]) -> int:
    """Prepare the recording on this host, then replace this process by the program of the rank. Returns only if the
    program cannot be started, with the exit status for that."""
    setup, program = decode_setup(words[0]), list(words[2:])
    secret = os.environ.pop(SECRET, "")
    environment = dict(os.environ)
    try:
        environment = prepare_environment(setup, secret, environment)
    except (WeftError, OSError) as error:
        # The program is never kept from running.
        print(f"weft: {os.uname().nodename}: this rank is not recorded: {error}", file=sys.stderr, flush=True)
    try:
        os.execvpe(program[0], program, environment)
    except OSError as error:
        print(f"weft: cannot start {program[0]}: {error.strerror}", file=sys.stderr, flush=True)
        return 126 if isinstance(error, PermissionError) else 127


def prepare_environment(setup: RankSetup, secret: str, environment: dict[str, str]) -> dict[str, str]:
    """Prepare everything that records the program on this host, and return the program's environment."""
    make_host_folder(setup.folder)
    if setup.run is not None:
        die_with_parent()  # launchers know only the task that started the program
    (setup.folder / "tasks" / str(os.getpid())).write_text(start_time(os.getpid()) or "")
    shim = find_recorder(setup)
    with suppress(FileExistsError):
        os.close(os.open(setup.folder / "watcher", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        start_watcher(setup, secret, shim)
    preload = ":".join(filter(None, [str(shim.path), environment.get(PRELOAD)]))
    return {**environment, **setup.variables, PRELOAD: preload, "WEFT_INTERNAL_RUN": str(setup.folder)}


def find_recorder(setup: RankSetup) -> BuiltRecorder:
    """Return the recorder for this host's MPI, built here if there is none. Raises WeftError if it cannot be built."""
    library = Path(setup.library)
    if not library.exists():
        raise WeftError(
            f"there is no {library} on this host: the program's MPI must lie in the same place on all hosts"
        )
    if (known := prebuilt.find_recorder(library)) is not None:
        return known
    # Only where it is built: what builds it takes longer to come than all of a start.
    from weft.launch.compiler import find_compiler
    from weft.launch.library import MPILibrary
    from weft.mpi import shim

    mpicc = setup.mpicc or find_compiler(MPILibrary(library))
    if mpicc is None:
        raise WeftError(f"no mpicc on this host builds for {library} (run `weft doctor` there)")
    return shim.build_shim(str(mpicc))


def start_watcher(setup: RankSetup, secret: str, shim: BuiltRecorder) -> None:
    """Start this host's watcher, and wait until `weft run` knows it or it has given up."""
    told, tell = os.pipe()
    between = os.fork()  # so that the program gets no child that it did not make
    if not between:
        try:
            facts = {"setup": setup.encode(), "secret": secret, "functions": str(shim.functions_json_path)}
            spawn_watcher(json.dumps(facts), setup.folder, tell)
        finally:
            os._exit(0)
    os.waitpid(between, 0)
    os.close(tell)
    select.select([told], [], [], PATIENCE)
    os.close(told)


def spawn_watcher(facts: str, folder: Path, ready_pipe: int) -> None:
    """Spawn the watcher's process with `facts` as its input; it closes `ready_pipe` once it is connected, or has
    failed.
    """
    environment = {name: value for name, value in os.environ.items() if name != PRELOAD}
    with (folder / "watcher").open("ab") as log:
        process = subprocess.Popen(
            own_python("-m", "weft.launch.local.watcher"), stdin=subprocess.PIPE, stdout=ready_pipe, stderr=log,
            cwd="/", env=environment, start_new_session=True,
        )  # fmt: skip
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(facts.encode())
