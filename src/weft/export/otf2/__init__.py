"""Export to OTF2, the Open Trace Format."""

from weft.export.format import Format

FORMAT = Format("an OTF2 archive, for Vampir, Score-P's and Scalasca's tools", ".otf2", ("otf2",), "traces.otf2")
