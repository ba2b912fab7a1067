"""Get the recorder for a plan, built on first use, and the variables that load it into the ranks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import UsageError, WeftError
from weft.launch.launcher_line import PRELOAD
from weft.launch.plan import LaunchPlan
from weft.launch.rundir import RunDirectory, unwritable_error
from weft.mpi import prebuilt

if TYPE_CHECKING:
    from weft.mpi.prebuilt import BuiltRecorder

WITHOUT = "WEFT_WITHOUT"
"""The variable that leaves parts of the recorder out, for the time until a fault in one is mended."""
PARTS = ("heap", "buffers", "hashes", "accesses", "halo", "lines")
"""Those parts: recorder/process.c has the same names."""
PVM_PRELOAD = "WEFT_INTERNAL_PVM_PRELOAD"
"""The variable by which a virtual machine of PVM learns what to preload into tasks."""


def build_recorder(plan: LaunchPlan) -> BuiltRecorder:
    """Return the recorder for the plan's MPI, building it if neither the cache nor the wheel has one."""
    if plan.pvm is not None:
        # Few runs are of PVM.
        from weft.pvm import recorder as of_pvm

        return of_pvm.build_recorder(lambda: announce_build(plan.library.path))
    known = prebuilt.find_recorder(plan.library.path)
    if known is not None:
        return known
    try:
        # It needs what a broken installation may lack, which is reported.
        from weft.mpi import shim
    except ImportError as error:
        raise WeftError(f"this installation of Weft has no recorder ({error}): install weft-debugger again") from error
    try:
        built = shim.build_shim(str(plan.mpicc), announce=announce_build)
    except OSError as error:
        raise WeftError(f"cannot build the recorder with {plan.mpicc}: {error}") from error
    prebuilt.remember_recorder(plan.library.path, built)  # the compiler may link a copy of it
    return built


def announce_build(library: Path) -> None:
    """Tell the user at a first use that the recorder is being built; nothing else of ours appears in the program's
    output.
    """
    print(f"weft: building the recorder for {library} (first use) ...", file=sys.stderr, flush=True)


def make_recorder_variables(
    shim: BuiltRecorder, run: RunDirectory, level: str, *, whole_buffers: bool = False, hash_messages: bool = False,
    keep: float | None = None, patient: bool = False,
) -> dict[str, str]:  # fmt: skip
    """Return the environment variables that the recorder needs in the ranks. It removes them again for their children.

    `level`: `trace` or `outcomes`. `keep`: how many last seconds of calls the record keeps, None for all. `patient`:
    wait for a slow disk.
    """
    preload = PVM_PRELOAD if shim.library == "PVM" else PRELOAD  # there the machine preloads it
    more = {"WEFT_INTERNAL_BUFFERS": "all"} if whole_buffers else {}
    more |= {"WEFT_INTERNAL_HASH": "1"} if hash_messages else {}
    more |= {"WEFT_INTERNAL_KEEP": str(max(1, round(keep * 1e9)))} if keep is not None else {}
    more |= {"WEFT_INTERNAL_PATIENT": "1"} if patient else {}
    more |= {WITHOUT: ",".join(left)} if (left := read_left_out_parts()) else {}
    return {preload: str(shim.path), "WEFT_INTERNAL_RUN": str(run.path), "WEFT_INTERNAL_LEVEL": level} | more


def read_left_out_parts() -> list[str]:
    """Return the parts of the recorder that the user leaves out. Raises UsageError for a word that names no part."""
    left = [word.strip() for word in os.environ.get(WITHOUT, "").split(",") if word.strip()]
    for word in left:
        if word not in PARTS:
            raise UsageError(f"{WITHOUT}: `{word}` is not a part of the recorder; its parts are {', '.join(PARTS)}")
    return left


def write_recorder_facts(plan: LaunchPlan, shim: BuiltRecorder, run: RunDirectory) -> None:
    """Write into the run what a reader on another machine needs: the facts of the MPI, and the
    table of its functions."""
    if plan.pvm is not None:
        run.facts["system"] = "pvm"
    run.facts["mpi"] = {
        "library": str(plan.library.path),
        "soname": shim.soname,
        "abi": plan.library.abi,
        "mpicc": str(plan.mpicc) if plan.mpicc else None,
        "launcher": [word for word in plan.line.argv()[:1] if plan.line.launcher],
    }
    try:
        run.open_folder().write_whole("functions.json", Path(shim.functions_json_path).read_bytes())
    except OSError as error:
        raise unwritable_error(run.path, error) from error
    run.write()
