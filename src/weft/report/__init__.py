"""All findings of a run, worst first, and the views of them: text, JSON, SARIF, HTML."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.report.analysis import Report, analyse, run_analyses
    from weft.report.context import AnalysisContext
    from weft.report.document import to_json
    from weft.report.failure import AnalysisWarning, Failure
    from weft.report.text import summary

__all__ = ["AnalysisContext", "AnalysisWarning", "Failure", "Report", "analyse", "run_analyses", "summary", "to_json"]

_PLACES = {
    "to_json": "document", "summary": "text", "Ground": "context", "AnalysisWarning": "failure", "Failure": "failure",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a name when it is used for the first time: a run that ends without findings needs none of the views."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES.get(name, 'analysis')}"), name)
