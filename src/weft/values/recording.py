"""Record values in a run: the environment of the ranks before it, and the files after it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.errors import UsageError, WeftError
from weft.safety.folders import OpenFolder
from weft.values.folder import CONFIGURATION, FOLDER, PLAN, PROCESSORS, SUFFIX, WATCHES, RecordedValues

INCLUDE: Final = Path(__file__).parent / "native" / "include"


NOT_BUILT: Final = (
    "Weft's extension that records values is not built: run `python setup.py build_ext --inplace` in Weft's source "
    "folder, or install Weft again"
)


def library() -> Path | None:
    """Return the path of the native library that records values; None if it was not built."""
    return next(Path(__file__).parent.glob("_values*.so"), None)


def prepare_values(run: Path, configuration: Path | None) -> dict[str, str]:
    """Create the folder of values in a run, and return the environment variables by which the ranks record values.

    `configuration`: the file that says what to keep; without it, or if it does not exist yet, everything is kept.
    Raises UsageError if the file is wrong, WeftError if the folder cannot be made.
    """
    built = library()
    if built is None:
        if configuration is not None:
            raise WeftError(NOT_BUILT)
        return {}
    try:
        (run / FOLDER).mkdir(exist_ok=True)  # of a job step, each task comes here
        if configuration is not None and configuration.exists():
            # Only where it is asked for: numpy takes longer to come than all of a start.
            from weft.values.configuration import read_configuration

            (run / FOLDER / PLAN).write_text(read_configuration(configuration).plan_text())
            (run / FOLDER / CONFIGURATION).write_bytes(configuration.read_bytes())
    except OSError as error:
        raise WeftError(f"cannot write the values of the run: {error}") from error
    return {"WEFT_INTERNAL_VALUES": str(run.absolute() / FOLDER), "WEFT_INTERNAL_VALUES_LIBRARY": str(built)}


def finish_values(run: Path, configuration: Path | None, *, watched: bool = False) -> RecordedValues:
    """After the end of a job, cut its files of values to their contents, look up source lines, and write the
    configuration if it is new. Return what was recorded. `watched`: lines were watched, so that a program without
    probes is no problem.
    """
    folder = run / FOLDER
    files = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    notes = []
    if not files:
        with suppress(OSError):  # a link has taken its place
            remove_value_folder(OpenFolder(run))
        if configuration is not None and not watched:
            notes.append(
                f"--probes {configuration}: the program has no probes; `weft probes --help` shows how to add them"
            )
        return RecordedValues(0, 0, notes, [])
    try:
        # Only where there are values: numpy takes longer to come than all of a start.
        from weft.values.finalization import finalize_values

        return finalize_values(run, configuration)
    except WeftError as error:
        return RecordedValues(0, len(files), [f"the values of the run cannot be read: {error}"], [])


def remove_value_folder(run: OpenFolder) -> None:
    """Remove the folder of values from a run that recorded no values."""
    with suppress(OSError):
        run.inside(FOLDER).remove(PLAN, CONFIGURATION, PROCESSORS, WATCHES)
        run.remove_folders(FOLDER)


def check_configuration(configuration: Path | None) -> None:
    """Raise UsageError if a configuration is wrong, before anything slow is done. A file that does not exist yet is
    right if its folder exists.
    """
    if configuration is None:
        return
    if configuration.exists():
        # Only where it is asked for: numpy takes longer to come than all of a start.
        from weft.values.configuration import read_configuration

        read_configuration(configuration)
    elif not configuration.absolute().parent.is_dir():
        raise UsageError(f"--probes {configuration}: there is no folder {configuration.absolute().parent}")
