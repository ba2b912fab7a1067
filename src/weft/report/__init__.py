"""All findings of a run, worst first, and the views of them: text, JSON, SARIF, HTML."""

from __future__ import annotations

from weft.report.analysis import Failure, Ground, Report, analyse, examine
from weft.report.document import to_json
from weft.report.text import summary

__all__ = ["Failure", "Ground", "Report", "analyse", "examine", "summary", "to_json"]
