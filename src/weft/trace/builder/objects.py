"""Communicators and datatypes that a built run makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.trace.builder.calls import RankCalls
from weft.trace.builder.handles import (
    Handle,
    Type,
)
from weft.trace.layout import (
    Def,
)
from weft.trace.varint import encode_signed, encode_string, encode_unsigned


class Objects(RankCalls):
    """Records a rank's calls that make communicators and datatypes."""

    def make_comm(
        self, function: str, parent: Handle, members: Sequence[int], *, remote: Sequence[int] = (), key: str = "",
        name: str | None = None, inter: bool | None = None, **kw: Any,
    ) -> int:  # fmt: skip
        """Record this rank's part of making a communicator: the call and the communicator's definition. Return the id
        that the record has for it.
        """
        id = self.new_id("COMM")
        parent_id = self._object_id("COMM", parent)
        entry = self.builder.functions[function]
        names = {p.place: p.name for p in entry.parameters if p.handle == "COMM"}
        if "object" in names:
            self.call(function, **{names["comm"]: parent_id, names["object"]: id, **kw})
        self._children[parent_id] = self._children.get(parent_id, 0) + 1
        group = members if self.index in members else remote
        inter = bool(remote) if inter is None else inter
        payload = [encode_unsigned(v) for v in (id, parent_id, entry.id, self._children[parent_id] - 1, inter)]
        payload += [encode_signed(list(group).index(self.index)), encode_string(key)]
        sides = (members, remote) if self.index in members else (remote, members)
        payload += [self.builder.encode_members(self, side) for side in sides]
        self.define(Def.COMM, b"".join(payload))
        if name:
            self.define(Def.NAME, encode_unsigned(1) + encode_unsigned(id) + encode_string(name))
        return id

    def comm_free(self, comm: Handle, **kw: Any) -> int:
        """Record a call of MPI_Comm_free."""
        return self.call("MPI_Comm_free", comm=comm, **kw)

    def define_datatype(
        self, combiner: str, *, types: Sequence[Handle], integers: Sequence[int] = (), addresses: Sequence[int] = (),
        size: int, extent: int, lb: int = 0,
    ) -> Type:  # fmt: skip
        """Define a derived datatype without recording a call."""
        id = self.new_id("DATATYPE")
        ids = [self._object_id("DATATYPE", t) for t in types]
        payload = [encode_unsigned(id), encode_unsigned(size), encode_signed(lb), encode_signed(extent)]
        payload += [encode_unsigned(self.builder.functions.combiners.index(combiner)), encode_unsigned(len(integers))]
        payload += [
            *map(encode_signed, integers),
            encode_unsigned(len(addresses)),
            *map(encode_signed, addresses),
            encode_unsigned(len(ids)),
            *map(encode_unsigned, ids),
        ]
        self.define(Def.DATATYPE, b"".join(payload))
        return Type(id, size, extent)

    def extent_of(self, datatype: Handle) -> int:
        """Return the extent of a datatype in bytes."""
        return datatype.extent if isinstance(datatype, Type) else self.count_bytes(datatype, 1)

    def type_contiguous(self, count: int, oldtype: Handle, **kw: Any) -> Type:
        """Record a call of MPI_Type_contiguous."""
        made = self.define_datatype(
            "CONTIGUOUS", types=[oldtype], integers=[count], size=self.count_bytes(oldtype, count),
            extent=count * self.extent_of(oldtype),
        )  # fmt: skip
        self.call("MPI_Type_contiguous", count=count, oldtype=oldtype, newtype=made, **kw)
        return made

    def type_vector(self, count: int, blocklength: int, stride: int, oldtype: Handle, **kw: Any) -> Type:
        """Record a call of MPI_Type_vector."""
        made = self.define_datatype(
            "VECTOR", types=[oldtype], integers=[count, blocklength, stride],
            size=self.count_bytes(oldtype, count * blocklength),
            extent=((count - 1) * stride + blocklength) * self.extent_of(oldtype),
        )  # fmt: skip
        self.call(
            "MPI_Type_vector", count=count, blocklength=blocklength, stride=stride, oldtype=oldtype, newtype=made, **kw
        )
        return made

    def type_struct(
        self, blocklengths: Sequence[int], displacements: Sequence[int], types: Sequence[Handle], **kw: Any
    ) -> Type:
        """Record a call of MPI_Type_create_struct."""
        blocks = list(zip(blocklengths, displacements, types, strict=True))
        made = self.define_datatype(
            "STRUCT", types=types, integers=[len(types), *blocklengths], addresses=displacements,
            size=sum(self.count_bytes(t, n) for n, _, t in blocks),
            extent=max((d + n * self.extent_of(t) for n, d, t in blocks), default=0),
        )  # fmt: skip
        self.call(
            "MPI_Type_create_struct", count=len(types), array_of_blocklengths=blocklengths,
            array_of_displacements=displacements, array_of_types=types, newtype=made, **kw,
        )  # fmt: skip
        return made

    def type_commit(self, datatype: Handle, **kw: Any) -> int:
        """Record a call of MPI_Type_commit."""
        return self.call("MPI_Type_commit", datatype=datatype, **kw)

    def type_free(self, datatype: Handle, **kw: Any) -> int:
        """Record a call of MPI_Type_free."""
        return self.call("MPI_Type_free", datatype=datatype, **kw)
