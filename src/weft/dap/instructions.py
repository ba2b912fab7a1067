"""Names of instructions for an editor: addresses of one rank in one replay, mapped to module and offset.

Module and offset mean the same instruction in every rank and every replay, so breakpoints stay valid.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from weft.debug.debugger import Debugger
from weft.debug.gdb import NativeHand
from weft.debug.instructions import Instruction, disassemble_around
from weft.errors import DebuggerError, UsageError

MAX_INSTRUCTIONS: Final = 10_000
"""Instructions of one answer."""


class InstructionReferences:
    """Map the addresses that an editor was given to the instructions that they mean in any rank and replay."""

    def __init__(self, debugger: Debugger) -> None:
        self._debugger = debugger
        self._ranks: dict[int, int] = {}
        """The rank that an address was told of, in this stop."""
        self._known: dict[int, tuple[str, int]] = {}
        """Module and place in it."""

    def forget_ranks(self) -> None:
        """Forget which rank each address was given for, as the ranks run on."""
        self._ranks.clear()

    def make_reference(self, rank: int, address: int) -> str:
        """Return a name by which the editor can refer to the instruction at an address of a rank. The module and the
        offset in it are remembered.
        """
        maps = self._hand(rank).maps
        module = maps.module(address)
        self._ranks[address] = rank
        self._known[address] = module, address - maps.base(module)
        return f"{address:#x}"

    def breakpoint_location(self, reference: str, offset: int) -> str:
        """Return the location (`*MODULE+OFFSET`) of a breakpoint, `offset` bytes after a reference. UsageError for an
        unknown reference.
        """
        module, at = self._lookup(reference)
        return f"*{module}+{at + offset:#x}"

    def disassemble(self, reference: str, offset: int, first: int, count: int) -> list[dict[str, Any]]:
        """Return `count` instructions around a reference, as the protocol requires. The first is the one that is
        `first` instructions after the address of the reference plus `offset`; instructions that cannot be read are
        marked invalid.
        """
        module, at = self._lookup(reference)
        rank = self._ranks.get(int(reference, 0), self._debugger.focus)
        hand = self._hand(rank)
        address = hand.maps.base(module) + at + offset
        rows = disassemble_around(hand, address, first, min(count, MAX_INSTRUCTIONS))
        return [self._instruction_to_json(rank, row, address) for row in rows]

    def _lookup(self, reference: str) -> tuple[str, int]:
        """Return the module of a reference and the offset in it. UsageError if no such reference was made."""
        found = self._known.get(int(reference, 0))
        if found is None:
            raise UsageError(f"{reference}: this is not the address of an instruction that Weft has shown")
        return found

    def _hand(self, rank: int) -> NativeHand:
        """Return the debugger of a native rank. DebuggerError for a rank in Python."""
        hand = self._debugger.hand(rank)
        if not isinstance(hand, NativeHand):
            raise DebuggerError(
                f"rank {rank} runs Python: only ranks of C, C++ and Fortran have machine instructions to show"
            )
        return hand

    def _instruction_to_json(self, rank: int, row: Instruction | None, near: int) -> dict[str, Any]:
        """Return an instruction in the form of the protocol; for None an invalid instruction at the address `near`."""
        if row is None:
            return {"address": f"{near:#x}", "instruction": "?", "presentationHint": "invalid"}
        body = {"address": self.make_reference(rank, row.address), "instruction": row.text}
        place: dict[str, Any] = {"symbol": row.symbol} if row.symbol else {}
        if row.code:
            place["instructionBytes"] = row.code
        if row.file and row.line:
            place |= {"location": {"name": Path(row.file).name, "path": row.file}, "line": row.line}
        return body | place
