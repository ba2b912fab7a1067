"""The C side of the races: the structure that mirrors native/kernel/races.c."""

from __future__ import annotations

import ctypes
from functools import cache

from weft.order.native import kernel as order_kernel

_P = ctypes.c_void_p
_U64 = ctypes.c_uint64


class RacesInput(ctypes.Structure):
    """struct weft_races_input."""

    _fields_ = (
        ("ranks", ctypes.c_uint32), ("recv_first", _P), ("recv_event", _P), ("recv_decided", _P), ("recv_known", _P),
        ("recv_partner", _P), ("recv_reach", _P), ("recv_comm", _P), ("recv_peer", _P), ("recv_tag", _P),
        ("recv_flags", _P), ("probe_first", _P), ("probe_event", _P), ("probe_partner", _P), ("probe_comm", _P),
        ("probe_peer", _P), ("probe_tag", _P), ("probe_flags", _P), ("send_known", _P), ("send_comm", _P),
        ("send_tag", _P), ("send_source", _P), ("to_first", _P), ("to_rows", _P), ("most", ctypes.c_uint32),
    )  # fmt: skip


@cache
def kernel() -> ctypes.CDLL:
    """The kernels, with the types of the functions used here."""
    lib = order_kernel()
    lib.weft_reach.restype = None
    lib.weft_reach.argtypes = [_U64, _P, _P, _U64, _P, _P, _P]
    lib.weft_races_find.restype = _P
    lib.weft_races_find.argtypes = [ctypes.POINTER(RacesInput), _U64, ctypes.POINTER(_U64 * 2)]
    lib.weft_races_take.restype = None
    lib.weft_races_take.argtypes = [_P, _P, _P, _P, _P, _P]
    return lib
