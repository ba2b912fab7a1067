"""The C side of the order: structures that mirror native/kernel/order.c and decided.c."""

from __future__ import annotations

import ctypes
from functools import cache

from weft.match.native import kernel as match_kernel

_P = ctypes.c_void_p
_U64 = ctypes.c_uint64
_U32 = ctypes.c_uint32


class OrderInput(ctypes.Structure):
    """struct weft_order_input. Whoever fills it keeps the arrays alive as long as the order."""

    _fields_ = (
        ("processes", _U32), ("rank_of", _P), ("event_first", _P), ("event_counts", _P), ("events", _P),
        ("process_of_rank", _P), ("thread_of", _P), ("first_process", _P),
        ("sends", _U64), ("send_of_process", _P), ("send_rows", _P), ("send_event", _P), ("send_process", _P),
        ("send_peer", _P), ("send_target", _P), ("send_known", _P),
        ("generics", _U64), ("generic_of_process", _P), ("generic_event", _P), ("generic_process", _P),
        ("generic_target", _P), ("generic_target_process", _P),
        ("colls", _U64), ("coll_of_process", _P), ("coll_rows", _P), ("coll_event", _P), ("coll_completion", _P),
        ("coll_instance", _P), ("coll_process", _P), ("coll_completion_process", _P), ("coll_place", _P),
        ("coll_role", _P), ("instances", _U64), ("instance_kind", _P), ("instance_first", _P), ("instance_rows", _P),
        ("stride", _U32),
    )  # fmt: skip


class DecidedInput(ctypes.Structure):
    """struct weft_decided_input."""

    _fields_ = (
        ("ranks", _U32), ("recv_first", _P), ("recv_event", _P), ("recv_decided", _P), ("recv_partner", _P),
        ("recv_comm", _P), ("recv_peer", _P), ("recv_tag", _P), ("recv_flags", _P),
        ("probe_first", _P), ("probe_event", _P), ("probe_decided", _P), ("probe_partner", _P),
        ("probe_comm", _P), ("probe_peer", _P), ("probe_tag", _P),
    )  # fmt: skip


@cache
def kernel() -> ctypes.CDLL:
    """The kernels, with the types of the functions used here."""
    lib = match_kernel()
    lib.weft_order_make.restype = _P
    lib.weft_order_make.argtypes = [ctypes.POINTER(OrderInput), ctypes.POINTER(_U64)]
    lib.weft_order_free.restype = None
    lib.weft_order_free.argtypes = [_P]
    lib.weft_order_past.restype = ctypes.c_int
    lib.weft_order_past.argtypes = [_P, _U32, _U32, _P]
    lib.weft_order_future.restype = ctypes.c_int
    lib.weft_order_future.argtypes = [_P, _P, _P]
    lib.weft_decided.restype = _P
    lib.weft_decided.argtypes = [ctypes.POINTER(DecidedInput), _P]
    lib.weft_pairs_count.restype = _U64
    lib.weft_pairs_count.argtypes = [_P]
    lib.weft_pairs_take.restype = None
    lib.weft_pairs_take.argtypes = [_P, _P, _P]
    return lib
