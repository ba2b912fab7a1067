"""Looks up the source lines of a run whose `weft run` was killed before it could, while its programs are unchanged."""

from __future__ import annotations

import os

from weft.launch import finish, rank_processes
from weft.trace import Trace, site_lines
from weft.trace.opening import ranks_folder


def look_up_lines(trace: Trace) -> Trace:
    """Look up the source lines of the calls of a run that was cut off, as `weft run` could not do it, and return the
    run with them. If lines stay unknown, a problem is added to the run that says why. Any other run is returned as it
    is."""
    if not is_cut_off(trace):
        return trace
    problem = None
    if trace.path.stat().st_uid != os.geteuid():
        problem = (
            "`weft run` was killed before it looked up source lines; the owner of the run can do that with `weft "
            "report`"
        )
    elif not (trace.path / "sites.json").exists():
        problem = finish.resolve_sites(trace.path, with_source_texts=trace.run.get("sources") is not False)
        trace = Trace.open(trace.path)
    trace.add_problem(*([problem] if problem else site_lines.explain_unknown_modules(trace)))
    return trace


def is_cut_off(trace: Trace) -> bool:
    """Return whether nobody finished the run, and nobody writes to it any more."""
    if trace.run.get("ended") != "running":
        return False
    return all(rank_processes.is_record_final(path) for path in ranks_folder(trace.path).glob("*.weft"))
