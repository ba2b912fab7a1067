"""Implements `weft compare --bisect`: replays both runs and records the probe whose hash differs first in full."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.base.lifetime import temporary_folder
from weft.cli._said import say
from weft.errors import WeftError
from weft.safety.started import own_python

if TYPE_CHECKING:
    from weft.compare.values import ValueComparison
    from weft.compare.values.model import ValueDifference

LIMIT = 86_400
"""Seconds that a replay may take: Weft ends one that makes no progress long before."""


def bisect_difference(
    comparison: ValueComparison, runs: list[tuple[Path, str]], settings: dict[str, dict[str, Any]]
) -> list[str]:
    """If two runs differ first by a hash, replay both with that probe's elements recorded, and return the lines of
    their comparison. [] if the elements are known already. `runs`: each run with the hash of what its replay may
    execute. `settings`: the tolerances by probe."""
    from weft.compare.values import compare_values
    from weft.compare.values.report import render_values
    from weft.values.trace import ValueTrace

    first = comparison.found[0][0] if comparison.found else None
    if first is None or first.sort != "hash":
        return []
    with temporary_folder("bisect") as name:
        folder = Path(name)
        (folder / "probes.toml").write_text(make_probe_configuration(first))
        traces = []
        for number, (run, word) in enumerate(runs):
            say(f"replaying {run} with the elements of probe {first.after.place.name}")
            replay_with_probes(run, folder / "probes.toml", folder / str(number), word)
            traces.append(ValueTrace.open(folder / str(number)))
        return list(render_values(compare_values(traces[0], traces[1], settings)))


def make_probe_configuration(first_difference: ValueDifference) -> str:
    """Return a configuration that records the elements of one probe, in the iteration in which it differs first."""
    kept, where = first_difference.after, ""
    around = list(kept.process.scopes_around(int(kept.process.rows["parent"][kept.row])))
    if around:
        where = f'iterations = "{around[-1][1]}:{around[-1][1]}"\n'
    return f'level = "minimal"\n[probe.{json.dumps(kept.place.name)}]\nlevel = "full"\narrays = "values"\n{where}'


def replay_with_probes(run: Path, probes: Path, out: Path, consent: str) -> None:
    """Replay a run into `out` with the configuration `probes`; `consent`: the hash of what may be executed. WeftError
    if the replay leaves no values."""
    if not (run / "ranks").is_dir():
        raise WeftError(
            f'{run} has no MPI calls, so it cannot be replayed: record it again with level = "full" for its probes'
        )
    command = own_python(
        "-m", "weft.cli.main", "replay", str(run), "--probes", str(probes), "--out", str(out), "--agreed", consent
    )
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False, stdin=subprocess.DEVNULL
    )
    if not (out / "values").is_dir():
        last = done.stderr.strip().splitlines()[-1:] or ["it printed nothing"]
        raise WeftError(f"the replay of {run} recorded no values: {last[0].removeprefix('weft: ')}")
