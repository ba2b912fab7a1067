"""Writes into docs/campaigns.md that a target of the Makefile has passed: tools/passed.py TARGET, with date and commit.

The Makefile calls it as the last line of each campaign, so that only one that has passed is written down.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "campaigns.md"


def with_passed(page: str, target: str, when: str) -> str:
    """Return the page with the time of a target's row replaced. ValueError where the target has no row."""
    row = re.compile(rf"^(\| `make {re.escape(target)}` \|.*\|) [^|]* \|$", re.MULTILINE)
    if not row.search(page):
        raise ValueError(f"docs/campaigns.md has no row for `make {target}`: add one")
    return row.sub(lambda found: f"{found[1]} {when} |", page)


def main(target: str) -> None:
    """Write the row of a target."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src", "tests"], cwd=ROOT, check=False).returncode
    when = f"{datetime.date.today().isoformat()}, {commit}{' and changes' if changed else ''}"
    PAGE.write_text(with_passed(PAGE.read_text(), target, when))


if __name__ == "__main__":
    main(*sys.argv[1:])
