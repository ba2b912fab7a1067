"""The values of a run while it is recorded: what the ranks are told before, and what is put in order behind them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.errors import UsageError, WeftError
from weft.safety.folders import Held
from weft.values.folder import CONFIGURATION, FOLDER, PLAN, PROCESSORS, SUFFIX, WATCHES, Recorded

INCLUDE: Final = Path(__file__).parent / "native" / "include"


def library() -> Path | None:
    """What keeps values in a program, None where it was not built."""
    return next(Path(__file__).parent.glob("_values*.so"), None)


def begin(run: Path, configuration: Path | None) -> dict[str, str]:
    """Make room in a run; return what the ranks need in their environment.

    `configuration`: where what to keep is said; all is kept without, and where there is no such file yet.
    UsageError where it is wrong, WeftError where there is no room.
    """
    built = library()
    if built is None:
        if configuration is not None:
            raise WeftError("what keeps values is not built (python setup.py build_ext --inplace)")
        return {}
    try:
        (run / FOLDER).mkdir(exist_ok=True)  # of a job step, each task comes here
        if configuration is not None and configuration.exists():
            # Only where it is asked for: numpy takes longer to come than all of a start.
            from weft.values.configuration import read

            (run / FOLDER / PLAN).write_text(read(configuration).plan())
            (run / FOLDER / CONFIGURATION).write_bytes(configuration.read_bytes())
    except OSError as error:
        raise WeftError(f"cannot write the values of the run: {error}") from error
    return {"WEFT_INTERNAL_VALUES": str(run.absolute() / FOLDER), "WEFT_INTERNAL_VALUES_LIBRARY": str(built)}


def end(run: Path, configuration: Path | None, *, watched: bool = False) -> Recorded:
    """The job has ended: make its files small, look up lines, write the configuration if it is new."""
    folder = run / FOLDER
    files = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    notes = []
    if not files:
        with suppress(OSError):  # a link has taken its place
            discard(Held(run))
        if configuration is not None and not watched:
            notes.append(f"--probes {configuration}: the program has no probes (weft.probe, weft.h, module weft)")
        return Recorded(0, 0, notes, [])
    try:
        # Only where there are values: numpy takes longer to come than all of a start.
        from weft.values.ended import conclude

        return conclude(run, configuration)
    except WeftError as error:
        return Recorded(0, len(files), [f"the values of the run cannot be read: {error}"], [])


def discard(run: Held) -> None:
    """Take away what was made for a run that kept nothing."""
    with suppress(OSError):
        run.inside(FOLDER).remove(PLAN, CONFIGURATION, PROCESSORS, WATCHES)
        run.remove_folders(FOLDER)


def check(configuration: Path | None) -> None:
    """UsageError where a configuration is wrong, before anything slow is done."""
    if configuration is None:
        return
    if configuration.exists():
        # Only where it is asked for: numpy takes longer to come than all of a start.
        from weft.values.configuration import read

        read(configuration)
    elif not configuration.absolute().parent.is_dir():
        raise UsageError(f"--probes {configuration}: there is no folder {configuration.absolute().parent}")
