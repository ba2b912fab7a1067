"""Export to Perfetto's trace format."""

from weft.export.format import Format

FORMAT = Format("a trace file for ui.perfetto.dev and the trace processor", ".perfetto-trace")
