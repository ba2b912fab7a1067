"""Export a run to the formats of other tools. Runs larger than memory are exported in blocks.

`write(trace, "perfetto", path)`; docs/commands/export.md describes what each format holds.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.errors import UsageError
from weft.export.format import Format

if TYPE_CHECKING:
    from weft.export.output import ExportCount
    from weft.trace import Trace

__all__ = ["FORMATS", "Format", "default_path", "write"]


def _find_formats() -> Iterator[tuple[str, Format]]:
    """Yield the name and the Format of every package in this folder."""
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            yield module.name, importlib.import_module(f"{__name__}.{module.name}").FORMAT


FORMATS: Final[Mapping[str, Format]] = dict(_find_formats())
"""The formats by their names, which are the words after `--format`."""


def default_path(trace: Trace, format_name: str) -> Path:
    """Return the path of an export if the user names none: the run's name with the format's ending, in the current
    directory.
    """
    return Path(trace.path.resolve().name + FORMATS[format_name].suffix)


def write(
    trace: Trace, format_name: str, out: Path, progress: Callable[[float], None] | None = None
) -> list[ExportCount]:
    """Export a run to `out`, and return how many calls, messages and so on were written.

    `format_name`: a key of FORMATS; `progress`: called with the share of the calls written so far. Raises UsageError if
    `out` exists, if the run has no calls, or if a package is missing.
    """
    # The command line asks here for the formats, to print its help.
    from weft.export.output import stage_output
    from weft.trace import Level

    if trace.level == Level.OUTCOMES:
        raise UsageError(f"{trace.path} is a run of level outcomes, which holds no calls: record it with --level trace")
    for package in FORMATS[format_name].needs:
        _require_package(package, format_name)
    writing = importlib.import_module(f"{__name__}.{format_name}.writing")
    with stage_output(out) as staging, _reporting_progress(trace, progress):
        told: list[ExportCount] = writing.write(trace, staging)
    return told


@contextmanager
def _reporting_progress(trace: Trace, progress: Callable[[float], None] | None) -> Iterator[None]:
    """Within this context, an export calls `progress` after each block with the share of the run's calls written so
    far. With None nothing is called.
    """
    if progress is None:
        yield
        return
    # As in write.
    from weft.export.blocks import progress_callback

    done, tell = 0, progress

    def count(events: int) -> None:
        nonlocal done
        done += events
        tell(done / max(trace.event_count, 1))

    token = progress_callback.set(count)
    try:
        yield
    finally:
        progress_callback.reset(token)


def _require_package(package: str, format_name: str) -> None:
    """Import a package that an export needs. UsageError says how to install it if it is missing."""
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise UsageError(
            f"an export to {format_name} needs the package {package} ({error}): pip install 'weft-debugger[export]'"
        ) from None
