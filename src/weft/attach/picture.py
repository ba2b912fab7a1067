"""Draw the tree of all stacks as an SVG picture: a box for frames that the same ranks are in, callers to the left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from weft.attach import sentences, tree
from weft.attach.model import Job
from weft.attach.tree import Node
from weft.base.words import plural, rank_set
from weft.picture.classes import class_number_of
from weft.picture.svg_base import Picture, escape_text, svg_head

SMALL, LARGE = 6.2, 8.4
"""Pixels of a letter, more than the usual ones need on the average."""
LINE: Final = 16
GAP: Final = 40
BETWEEN: Final = 14
MARGIN: Final = 14
WIDEST: Final = 64
"""Letters of a line."""
TOLD: Final = 14
"""Sentences above the tree."""


@dataclass(slots=True)
class Box:
    """The frames that the same ranks are in, one below the other, and the position of the box."""

    nodes: list[Node]
    beneath: list[Box] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0

    @property
    def ranks(self) -> set[int]:
        """Return the ranks that are in these frames."""
        return self.nodes[0].ranks

    @property
    def lines(self) -> list[str]:
        """Return the lines of text in the box, one for each frame."""
        return [shorten(node.told) for node in self.nodes]

    @property
    def width(self) -> float:
        """In pixels."""
        return max(measure_text(line) for line in (*self.lines, self.label)) + 16

    @property
    def height(self) -> int:
        """In pixels, with the ranks above it."""
        return LINE * (len(self.nodes) + 1) + 8

    @property
    def label(self) -> str:
        """Return who is here, in words that are not long."""
        return rank_set(self.ranks)


def draw_tree(job: Job, *, with_mpi_frames: bool = False) -> Picture:
    """Return a picture of the stacks of a job, with its sentences above. `with_mpi_frames`: also the frames inside
    MPI.
    """
    said = [sentences.render_headline(job), *sentences.describe_job(job)]
    if len(said) > TOLD:
        said = [*said[: TOLD - 1], f"and {len(said) - TOLD + 1} more sentences: weft attach prints all of them as text"]
    top = 2 * MARGIN + LINE * len(said)
    boxes = [
        make_box(node)
        for node in sort_by_size(tree.merge_stacks(job.ranks, with_mpi_frames=with_mpi_frames).beneath.values())
    ]
    place_column(boxes, MARGIN, top)
    drawn = list(iterate_boxes(boxes))
    odd = {rank for group in sentences.group_ranks(job.ranks) if group.odd for rank in group.ranks}
    width = max([one.x + one.width for one in drawn] + [1.2 * measure_text(line) for line in said]) + MARGIN
    height = max([one.y + one.height for one in drawn], default=top) + MARGIN
    parts = [svg_head(int(width) + 1, int(height) + 1), f"<title>{escape_text(said[0])}</title>"]
    for number, line in enumerate(said):
        kind = ' class="title"' if number == 0 else ""
        parts.append(f'<text x="{MARGIN}" y="{MARGIN + LINE * (number + 1) - 4}"{kind}>{escape_text(line)}</text>')
    for one in drawn:
        parts += [_draw_branches(one), _draw_box(one, is_odd=one.ranks <= odd)]
    return Picture("".join([*parts, "</svg>"]))


def make_box(node: Node) -> Box:
    """Return the box for a node of the tree of stacks. All nodes that follow it are in the same box, up to a fork or a
    change of ranks; the branches behind get boxes of their own.
    """
    box = Box([node])
    while len(beneath := sort_by_size(box.nodes[-1].beneath.values())) == 1 and beneath[0].ranks == node.ranks:
        box.nodes.append(beneath[0])
    box.beneath = [make_box(one) for one in beneath]
    return box


def sort_by_size(nodes: Iterable[Node]) -> list[Node]:
    """Return nodes sorted by their number of ranks, the largest first."""
    return sorted(nodes, key=lambda node: (-len(node.ranks), min(node.ranks)))


def place_column(boxes: Sequence[Box], x: float, y: float) -> float:
    """Place boxes below each other in one column, and all boxes that branch off from them in the columns to the right.
    Return the y below all of them, where the next box may begin.
    """
    for box in boxes:
        box.x, box.y = x, y
        end = place_column(box.beneath, x + box.width + GAP, y)
        y = max(end, y + box.height + BETWEEN)
    return y


def iterate_boxes(boxes: Sequence[Box]) -> Iterator[Box]:
    """Yield the boxes and all boxes to their right. Each box comes before those that branch off from it."""
    for box in boxes:
        yield box
        yield from iterate_boxes(box.beneath)


def _draw_branches(box: Box) -> str:
    """Return SVG lines from a box to the boxes that branch off from it."""
    x, y = box.x + box.width, box.y + LINE + 12
    middle, ends = x + GAP / 2, [(one.x, one.y + LINE + 12) for one in box.beneath]
    return "".join(
        f'<path class="message" d="M{x:.1f} {y:.1f}C{middle:.1f} {y:.1f} {middle:.1f} {low:.1f} {end:.1f} {low:.1f}"/>'
        for end, low in ends
    )


def _draw_box(box: Box, *, is_odd: bool) -> str:
    """Return a box as SVG, with its text, and a tip that lists all its ranks and frames. `is_odd`: draw it in the
    colour of alarms.
    """
    kind = "trouble" if is_odd else "line"
    colour = ' class="alarm"' if is_odd else ' class="faint"'
    tip = "\n".join([f"{plural(len(box.ranks), 'rank')}: {rank_set(box.ranks)}", *(node.told for node in box.nodes)])
    parts = [
        f"<g><title>{escape_text(tip)}</title>"
        f'<text{colour} x="{box.x + 2:.1f}" y="{box.y + LINE - 5:.1f}">{escape_text(box.label)}</text>'
        f'<rect class="{kind}" x="{box.x:.1f}" y="{box.y + LINE:.1f}" width="{box.width:.1f}" '
        f'height="{box.height - LINE}" rx="4" style="fill:var(--band)"/>'
    ]
    for number, (node, line) in enumerate(zip(box.nodes, box.lines, strict=True)):
        y = box.y + LINE * (number + 2)
        if node.call:
            kind = f"c{class_number_of(node.function)}"
            parts.append(f'<rect class="{kind}" x="{box.x:.1f}" y="{y - 11:.1f}" width="4" height="14"/>')
        parts.append(f'<text x="{box.x + 8:.1f}" y="{y:.1f}">{escape_text(line)}</text>')
    return "".join([*parts, "</g>"])


def shorten(text: str) -> str:
    """Return a line that is not too long; the picture's tip has it whole."""
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def measure_text(text: str) -> float:
    """Return the pixels that a text needs."""
    return sum(LARGE if letter.isupper() else SMALL for letter in text)
