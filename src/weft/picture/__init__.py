"""Pictures of a run that need no browser: as text for a terminal, as SVG for a notebook, and the colours of calls."""
