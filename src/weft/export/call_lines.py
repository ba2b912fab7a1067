"""Write calls as lines of text or JSON: what terms/call_text.py makes of one call, native/kernel/rows.c makes of many.

The kernel leaves rare calls to Python, one at a time; the lines are the same.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.words import escaped
from weft.export.argument_layouts import ArgumentLayouts, RankNames, TextNumbers, TextTable
from weft.export.time_order import CallRows, RankCalls
from weft.native.bridge import U8, array_addresses
from weft.native.headers.rows import RowRank, RowsInput, kernel
from weft.terms.argument_columns import indices_in, sorted_distinct
from weft.terms.call_text import ERRORS, HEADS, call_cells, error_text, event_json, site_json, task_json, task_text
from weft.trace import Event, LogicalTask, Rank, Trace
from weft.trace.conditions import comm_ids
from weft.trace.sites import CallSite

_ROOM: Final = 1 << 22
_RIGHT: Final = frozenset(("time", "rank", "event"))
_WIDEST: Final = 60


class CallTable:
    """The layout of a table of calls: its columns, and their widths, which are taken from sample rows (`some`)."""

    def __init__(self, trace: Trace, some: list[Event]) -> None:
        self.heads = tuple(head for head in HEADS if head != "task" or trace.has_tasks)
        self.threaded = any(len(rank.threads) > 1 for rank in trace.ranks)
        rows = [self.heads, *(call_cells(event, self.threaded) for event in some)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        self.widths = dict(zip(self.heads, [*(min(width, _WIDEST) for width in widths[:-1]), 0], strict=True))

    def align_cells(self, event: Event) -> list[str]:
        """Return the cells of a call, padded to the widths of their columns."""
        return [self.align_cell(*cell) for cell in zip(self.heads, call_cells(event, self.threaded), strict=True)]

    def header_cells(self) -> list[str]:
        """Return the names of the columns."""
        return [self.align_cell(head, head) for head in self.heads]

    def align_cell(self, head: str, cell: str) -> str:
        """Return a cell padded to the width of its column."""
        return cell.rjust(self.widths[head]) if head in _RIGHT else cell.ljust(self.widths[head])


class CallLineWriter:
    """Write calls as text in the columns of `table`, or as JSON lines if `table` is None."""

    def __init__(self, trace: Trace, table: CallTable | None) -> None:
        self._trace, self._table, self._json = trace, table, table is None
        self._programs = ArgumentLayouts(trace.functions, self._json)
        self._prefixes = [self._programs.object_prefix(cls) for cls in self._programs.classes]
        self._words = self._programs.words.table()
        self._ranks = (RowRank * max(1, len(trace.ranks)))()
        self._kept: dict[int, object] = {}
        self._texts = {"sites": TextNumbers(), "tasks": TextNumbers(), "comms": TextNumbers()}
        self._numbers: dict[tuple[str, int, int], int] = {}
        self._errors = TextTable([error_text(trace.system, error) for error in range(ERRORS)])
        self._buffer = np.empty(_ROOM, np.uint8)

    def render_lines(self, calls: CallRows) -> Iterator[bytes]:
        """Yield the text lines of some calls as UTF-8; each item has many lines."""
        columns = self._make_input_columns(calls)
        given = self._make_kernel_input(columns)
        done, end = 0, len(calls)
        while done < end:
            start = done
            used = ctypes.c_uint64()
            done = kernel().weft_write_rows(given, done, end, self._buffer, len(self._buffer), ctypes.byref(used))
            yield self._buffer[: used.value].tobytes()
            if done == start:
                event = self._trace.event(int(columns["rank"][done]), int(columns["index"][done]))
                yield self._render_call_in_python(event).encode("utf-8", "backslashreplace")
                done += 1

    def _render_call_in_python(self, event: Event) -> str:
        """Return the line of a call that the C kernel cannot write."""
        if self._table is None:
            return json.dumps(event_json(event), default=str) + "\n"
        return "  ".join(self._table.align_cells(event)).rstrip() + "\n"

    # Columns

    def _make_input_columns(self, calls: CallRows) -> dict[str, NDArray[Any]]:
        """Return the facts of some calls that the C kernel needs beside the records, as columns by name, in the order
        of the calls.
        """
        parts = calls.parts
        for part in parts:
            self._prepare_rank(part.rank)
        columns = {
            "rank": np.concatenate([np.full(len(part.index), part.rank.index, np.int32) for part in parts]),
            "index": np.concatenate([part.index for part in parts]),
            "enter": np.concatenate([part.enter for part in parts]),
            "leave": np.concatenate([part.leave for part in parts]),
        }
        for name, column in (
            ("site", self._site_column),
            ("task", self._make_task_column),
            ("comm", self._make_comm_column),
        ):
            columns[name] = np.concatenate([column(part) for part in parts])
        return {name: np.ascontiguousarray(column[calls.order]) for name, column in columns.items()}

    def _number_texts(
        self, text_kind: str, rank: Rank, ids: NDArray[Any], render_text: Callable[[int], str]
    ) -> NDArray[np.uint32]:
        """Return, for each id, the number of its text in the table of texts that the C kernel reads. A text that is new
        is made by `render_text` and added. `text_kind`: the table, such as "tasks" or "comms".
        """
        different = sorted_distinct(ids)
        table = np.empty(len(different), np.uint32)
        for place, id in enumerate(different.tolist()):
            key = text_kind, rank.index, id
            if key not in self._numbers:
                self._numbers[key] = self._texts[text_kind].number(render_text(id))
            table[place] = self._numbers[key]
        found: NDArray[np.uint32] = table[indices_in(different, ids)]
        return found

    def _site_column(self, part: RankCalls) -> NDArray[np.uint32]:
        column = np.ascontiguousarray(part.rank.events["site"][part.index])
        return self._number_texts("sites", part.rank, column, lambda number: self._site_text(part.rank.site(number)))

    def _site_text(self, site: CallSite) -> str:
        if self._table is None:
            return json.dumps(site_json(site), default=str)
        return self._table.align_cell("where", escaped(site.text))

    def _make_task_column(self, calls: RankCalls) -> NDArray[np.uint32]:
        """Return, for each call, the number of a text in the C kernel's table. The text names the task that made the
        call.
        """
        tasks = calls.rank.tasks
        ids = tasks.ids[calls.index] if tasks is not None else np.zeros(len(calls.index), np.int64)
        return self._number_texts(
            "tasks", calls.rank, ids, lambda number: self._task_text(tasks.get(number) if tasks else None)
        )

    def _task_text(self, task: LogicalTask | None) -> str:
        if self._table is None:
            return json.dumps(task_json(task), default=str)
        return self._table.align_cell("task", escaped(task_text(task))) if self._trace.has_tasks else ""

    def _make_comm_column(self, calls: RankCalls) -> NDArray[np.uint32]:
        """Return, for each call, the number of a text in the C kernel's table. The text names the communicator of the
        call, or of its window or file. For output as text all numbers are 0, as it does not need them.
        """
        if self._table is not None:
            return np.zeros(len(calls.index), np.uint32)

        def name(id: int) -> str:  # noqa: A002 - the domain's word
            comm = calls.rank.comm(id)
            return json.dumps(comm.name if comm else None)

        return self._number_texts("comms", calls.rank, comm_ids(calls.rank, calls.rank.events[calls.index]), name)

    # What C gets

    def _prepare_rank(self, rank: Rank) -> None:
        """Make the structures from which the C kernel reads a rank's calls and the names of its objects. Nothing
        happens if they exist already.
        """
        if rank.index in self._kept:
            return
        names = RankNames(rank, self._programs, self._json)
        events = np.ascontiguousarray(rank.events)
        threads = np.ascontiguousarray(rank.event_threads) if len(rank.threads) > 1 else None
        slots = np.array([thread.slot for thread in rank.threads], np.int32)
        tails = [np.ascontiguousarray(thread.tails) for thread in rank.threads]
        of_rank = RowRank(
            events=events, threads=threads, slots=slots, tails=array_addresses(tails, U8, "tails"),
            tail_bytes=np.array([len(tail) for tail in tails], np.uint64), names=names.structures, index=rank.index,
        )  # fmt: skip
        self._ranks[rank.index] = of_rank
        self._kept[rank.index] = of_rank, tails

    def _make_kernel_input(self, columns: dict[str, NDArray[np.generic]]) -> RowsInput:
        """Return the C kernel's input structure for some calls. `columns`: as from _make_input_columns."""
        programs, table = self._programs, self._table
        given: dict[str, Any] = {name: words.table().structure for name, words in self._texts.items()} | columns
        given |= {f"{head}_width": table.widths[head] if table else 0 for head in ("time", "rank", "event", "took")}
        return RowsInput(
            ranks=self._ranks, function_of=programs.function_of, functions=programs.functions,
            step_codes=programs.step_codes, parts=programs.parts, words=self._words.structure,
            errors=self._errors.structure, json=self._json, with_tasks=self._trace.has_tasks,
            threaded=table is not None and table.threaded, **given,
        )  # fmt: skip
