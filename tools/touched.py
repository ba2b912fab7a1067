"""How much of what was there some commits changed: `python tools/touched.py COMMIT...`, by room of src/weft.

Counted are lines added and taken out in files that were there before the first of the commits; a file that was moved
counts what changed in it. What the commits brought as new files is no change of what was there, and is told apart.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter

ROOT = "src/weft/"
TEXT = (".py", ".c", ".h", ".js", ".ts", ".css", ".html")


def git(*words: str) -> str:
    """What git prints."""
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def room_of(path: str) -> str:
    """The folder of src/weft that a file lies in, and which part of `native`."""
    parts = path.removeprefix(ROOT).split("/")
    return "/".join(parts[: 2 if parts[0] == "native" and len(parts) > 2 else 1]) if len(parts) > 1 else "(top)"


def sizes(commit: str) -> dict[str, int]:
    """The lines of each file of the package at a commit."""
    counted = git("grep", "-c", "", commit, "--", ROOT).splitlines()
    rows = [line.removeprefix(f"{commit}:").rpartition(":") for line in counted]
    return {path: int(lines) for path, _, lines in rows if path.endswith(TEXT)}


def touched(commits: list[str], there: dict[str, int]) -> tuple[Counter[str], Counter[str]]:
    """By file the changed lines of what was there, and the lines of new files."""
    changed, new, names = Counter[str](), Counter[str](), {path: path for path in there}
    for commit in commits:
        for line in git("show", "-M", "--numstat", "-z", "--format=", commit).replace("\0\0", "\0").split("\n"):
            words = [word for word in line.split("\0") if word]
            while words:
                added, removed, path = words.pop(0).split("\t")
                before = path or words.pop(0)
                path = path or words.pop(0)
                if added == "-" or not path.startswith(ROOT) or not path.endswith(TEXT):
                    continue
                if before in names:
                    names[path] = names[before]
                    changed[names[path]] += int(added) + int(removed)
                else:
                    new[path] += int(added) - int(removed)
    return changed, new


def main() -> None:
    """Print a row for each room that was changed, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="+", help="in the order in which they were made")
    args = parser.parse_args()
    there = sizes(f"{args.commits[0]}^")
    changed, new = touched(args.commits, there)
    rooms, files, of = Counter[str](), Counter[str](), Counter[str]()
    for path, lines in there.items():
        of[room_of(path)] += lines
    for path, lines in changed.items():
        rooms[room_of(path)] += lines
        files[room_of(path)] += 1
    print("| room | files | lines changed | of | |\n|---|---|---|---|---|")
    for room, lines in rooms.most_common():
        print(f"| `{room}` | {files[room]} | {lines:,} | {of[room]:,} | {lines / of[room]:.1%} |")
    lines, everything = sum(rooms.values()), sum(of.values())
    print(f"| all | {len(changed)} | {lines:,} | {everything:,} | {lines / everything:.1%} |")
    print(f"\nnew files: {len(new)}, {sum(new.values()):,} lines")


if __name__ == "__main__":
    main()
