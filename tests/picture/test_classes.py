"""Every function has one class."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.picture.classes import CLASSES, OTHER, class_number_of, class_table
from weft.trace.builder import Builder


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("MPI_Send", "send"),
        ("MPI_Isend_c", "send"),
        ("MPI_Ssend_init", "send"),
        ("MPI_Pready_range", "send"),
        ("MPI_Recv", "receive"),
        ("MPI_Imrecv_c", "receive"),
        ("MPI_Sendrecv_replace", "receive"),
        ("MPI_Waitall", "wait"),
        ("MPI_Testsome", "wait"),
        ("MPI_Start", "wait"),
        ("MPI_Request_get_status_all", "wait"),
        ("MPI_Mprobe", "probe"),
        ("MPI_Iprobe", "probe"),
        ("MPI_Ibcast", "collective"),
        ("MPI_Allreduce_init_c", "collective"),
        ("MPI_Comm_split", "collective"),
        ("MPI_Win_fence", "one-sided"),
        ("MPI_Rget_accumulate", "one-sided"),
        ("MPI_File_write_at_all", "io"),
        ("MPI_Init_thread", "other"),
        ("MPI_Comm_rank", "other"),
        ("MPI_Get_count", "other"),
        ("anything", "other"),
    ],
)
def test_a_function_has_the_class_that_a_person_expects(name: str, word: str) -> None:
    assert CLASSES[class_number_of(name)].word == word


def test_the_table_agrees_with_the_names_and_unknown_ids_are_other() -> None:
    functions = Builder(ranks=1).functions
    table = class_table(functions)
    assert all(table[f.id] == class_number_of(f.name) for f in functions)
    known = {f.id for f in functions}
    assert set(table[[i for i in range(1 << 16) if i not in known]]) == {OTHER}
    assert len(np.unique(table)) == len(CLASSES)


def test_no_two_classes_share_a_colour() -> None:
    for ground in ("light", "dark"):
        assert len({getattr(c, ground) for c in CLASSES}) == len(CLASSES)


def test_the_page_has_the_same_colours() -> None:
    style = (Path(weft.__file__).parent / "web" / "style.css").read_text()
    for found in CLASSES:
        assert re.findall(rf"--{found.word}: (#\w+);", style) == [found.light, found.dark]
