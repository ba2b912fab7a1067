"""What mkdocs asks while it builds the site: pages that no file below docs/ holds, and links that leave docs/.

The indexes of commands, findings and decisions are made of what is there, so that none can be forgotten; the page of
all functions of MPI is made of the table by which they are recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from weft.cli import main
from weft.kinds import KINDS, SEVERITIES
from weft.mpi import coverage
from weft.report import evidence

ROOT: Final = Path(__file__).parents[1]
OUTSIDE: Final = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages at the root of the repository, and what they are called on the site."""
LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Put all pages of a folder where the navigation names the folder."""
    config.nav = unfolded(config.nav)
    return config


def unfolded(entries: list[Any]) -> list[Any]:
    """The navigation with `findings/` as the list of its pages, the index first."""
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            [(name, below)] = entry.items()
            found.append({name: unfolded(below) if isinstance(below, list) else folder(below)})
        else:
            found.append(entry)
    return found


def folder(place: str) -> str | list[str]:
    """The pages of a folder; a page as it is."""
    if not place.endswith("/"):
        return place
    held = sorted(path.name for path in (ROOT / "docs" / place).glob("*.md"))
    return [f"{place}{name}" for name in ("index.md", *held)]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for place, text in made():
        files.append(File.generated(config, place, content=text))
    return files


def made() -> Iterator[tuple[str, str]]:
    """The pages that no file below docs/ holds: where they are, and their text."""
    for source, place in OUTSIDE.items():
        yield place, LINK.sub(_from_root, (ROOT / source).read_text(encoding="utf-8"))
    yield "findings/index.md", "\n".join(findings())
    yield "commands/index.md", "\n".join(commands())
    yield "decisions/index.md", "\n".join(decisions())
    yield "coverage.md", coverage.render_page()
    yield "evidence.md", evidence.render_page()


def findings() -> Iterator[str]:
    """The index of the kinds of findings, from their records."""
    yield from ("# Kinds of findings", "")
    yield from ("| kind | | what it means | what helps | found by |", "|---|---|---|---|---|")
    for kind in sorted(KINDS.values(), key=lambda one: (SEVERITIES.index(one.severity), one.slug)):
        told = (kind.severity, kind.title, kind.remedy, ", ".join(kind.analyses))
        yield f"| [{kind.slug}]({kind.slug}.md) | " + " | ".join(text.replace("|", "\\|") for text in told) + " |"


def commands() -> Iterator[str]:
    """The index of the commands, from their docstrings."""
    yield from ("# Commands", "", "| command | |", "|---|---|")
    for name in main.command_names():
        first = (main.load_command(name).__doc__ or "").split("\n\n")[0]
        yield f"| [weft {name}]({name}.md) | {' '.join(first.split())} |"


def decisions() -> Iterator[str]:
    """The index of the decisions, from their titles."""
    yield from ("# Decisions", "", "What was chosen, and what was refused, and why.", "")
    for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        yield f"- [{path.read_text(encoding='utf-8').splitlines()[0].removeprefix('# ')}]({path.name})"


def _from_root(link: re.Match[str]) -> str:
    """A link of a page at the root as one of the site."""
    target = link[3]
    if target in OUTSIDE:
        target = OUTSIDE[target]
    elif target.endswith("/") and target.startswith("docs/"):
        target = f"{target}index.md"
    return f"{link[1]}[{link[2]}]({target.removeprefix('docs/')}{link[4] or ''})"


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Links into the repository's sources become their text, once it is sure that they lead somewhere."""
    home = ROOT / "docs" / Path(page.file.src_uri).parent

    def within(link: re.Match[str]) -> str:
        if "://" in link[3]:
            return link[0]
        place = (home / link[3]).resolve()
        if place.is_relative_to(ROOT / "docs"):
            index = link[3].endswith("/") and (place / "index.md").name
            return f"{link[1]}[{link[2]}]({link[3]}{index}{link[4] or ''})" if index else link[0]
        if not place.exists():
            raise PluginError(f"docs/{page.file.src_uri}: {link[3]} leads nowhere")
        return link[2]

    return LINK.sub(within, markdown)
