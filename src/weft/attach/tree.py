"""Merge all stacks into one tree, each branch with the ranks on it (as STAT does, Arnold et al. 2007)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.attach.model import Call, Frame, RankStacks, Thread
from weft.base.words import rank_set


@dataclass(slots=True)
class Node:
    """A frame, or at an end the MPI call, that the stacks of some ranks have in common."""

    text: str = ""
    call: bool = False
    ranks: set[int] = field(default_factory=set)
    beneath: dict[str, Node] = field(default_factory=dict)
    """What was called from here, by its text."""
    calls: set[str] = field(default_factory=set)
    """The call with its arguments, as each of the ranks has it."""

    @property
    def told(self) -> str:
        """Return the node's text; of an MPI call with the arguments, if all ranks have the same."""
        return next(iter(self.calls)) if len(self.calls) == 1 else self.text + ("(...)" if self.call else "")

    @property
    def function(self) -> str:
        """Return the MPI function of a call."""
        return self.text.rpartition(" in ")[2]

    def as_dict(self) -> dict[str, Any]:
        """Return the node and all beneath it as JSON values."""
        return {"text": self.text, "call": self.call, "ranks": sorted(self.ranks),
                "beneath": [node.as_dict() for node in self.beneath.values()]}  # fmt: skip


def merge_stacks(ranks: Sequence[RankStacks], *, with_mpi_frames: bool = False) -> Node:
    """Return the root of a tree into which the stacks of all ranks, as the first look saw them, are merged.
    `with_mpi_frames`: include the frames inside MPI.
    """
    root = Node()
    for one in ranks:
        for thread in one.threads:
            _add_thread(root, one.rank, thread, with_mpi_frames)
    return root


def _add_thread(root: Node, rank: int, thread: Thread, with_mpi_frames: bool) -> None:
    """Add the stack of one thread of a rank to the tree. `with_mpi_frames`: include the frames inside MPI."""
    at = root
    at.ranks.add(rank)
    for frame in thread.stack:
        at = _add_child(at, frame_text(frame), rank)
    if with_mpi_frames:
        for frame in thread.inside:
            at = _add_child(at, frame_text(frame), rank)
    elif thread.call is not None:
        at = _add_child(at, call_key(thread.call), rank)
        at.call = True
        at.calls.add(thread.call.text)


def _add_child(node: Node, text: str, rank: int) -> Node:
    found = node.beneath.setdefault(text, Node(text))
    found.ranks.add(rank)
    return found


def frame_text(frame: Frame) -> str:
    """Return a frame as text: `exchange at hang.c:6`."""
    site, function = frame.site, frame.site.function or "?"
    if site.function and site.module and not site.known:
        return f"{function} in {Path(site.module).name}"
    return f"{function} at {site.text.removesuffix(f' {function}')}" if site.known or site.module else function


def call_key(call: Call) -> str:
    """Return a call without its arguments."""
    return f"{call.called} in {call.name}" if call.called else call.name


def render_tree(root: Node) -> list[str]:
    """Return the tree as lines of text. Frames that several ranks share are written once, and after a fork each branch
    begins with its ranks.
    """
    return list(_render_node(root, 0, None))


def _render_node(node: Node, depth: int, above: set[int] | None) -> Iterator[str]:
    """Yield the lines for a node and all nodes beneath it. `above`: the ranks of the node above, which are not
    repeated; None after a fork.
    """
    if node.ranks != above:
        yield f"{'  ' * depth}[{rank_set(node.ranks)}]"
        depth += 1
    if node.text:
        yield "  " * depth + node.told
    forks = len(node.beneath) > 1
    for below in sorted(node.beneath.values(), key=lambda node: (-len(node.ranks), min(node.ranks))):
        # A fork of one rank's own threads has the ranks of what is above it, and is one all the same.
        yield from _render_node(below, depth, None if forks else node.ranks)
