"""Buffers of Python calls: which are temporary copies, in which a received message is lost."""

from __future__ import annotations

import pytest

from weft.usage.python_temporaries import _find_buffer, _is_temporary, _parse

LOST = [
    "u[:, 0].copy()", "np.ascontiguousarray(u[1:-1, j])", "numpy.ascontiguousarray(u[::2])", "u[..., 0].ravel()",
    "np.array(rows)", "a + 0", "-a", "u[[0, 2]]", "u[u > 0]", "a.astype('d')", "a.flatten()", "np.hstack((a, b))",
]  # fmt: skip
KEPT = [
    "a", "u[0]", "u[1:3]", "u[0, 1:3]", "u[:, 0]", "np.empty(4)", "np.zeros_like(a)", "np.ascontiguousarray(a)",
    "np.ascontiguousarray(u[0])", "u.ravel()", "u[1:3].reshape(-1)", "bytearray(8)", "a.astype('d', copy=False)",
    "np.array(a, copy=False)", "self.buffer()", "(left := a.copy())", "(left := a) + 0", "memoryview(a)", "u[i]",
    "make.copy", "np.copy",
]  # fmt: skip


def _is_lost(text: str, method: str, place: int) -> bool:
    buffer = _find_buffer(_parse(text), method, place)
    return buffer is not None and _is_temporary(buffer)


@pytest.mark.parametrize("lost", [True, False])
def test_a_copy_that_has_no_name_loses_what_it_receives(*, lost: bool) -> None:
    for text in LOST if lost else KEPT:
        assert _is_lost(f"comm.Recv({text}, 0)", "Recv", 0) == lost, text
        assert _is_lost(f"if me: q = comm.Irecv([{text}, MPI.INT], source=0)", "Irecv", 0) == lost, text
        assert _is_lost(f"comm.Sendrecv(a, 1, recvbuf={text}, source=1)", "Sendrecv", 3) == lost, text
        assert _is_lost(f"while comm.Allreduce(b, {text}):", "Allreduce", 1) == lost, text


def test_a_statement_that_is_cut_or_calls_twice_tells_nothing() -> None:
    for text in ("comm.Recv(a.copy(),", "comm.Recv(a.copy()); comm.Recv(b)", "comm.Recv(*a)", "exchange(a.copy())"):
        assert _find_buffer(_parse(text), "Recv", 0) is None
