"""Builds real run directories for tests and benchmarks, through the C writer.

    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.send(1, tag=7, site=("step.py", 9, "exchange"))
    r1.recv(ANY, got=0, tag=7)
    r2.open.recv(0)                      # never returned
    trace = b.open()

Every call takes `site=(file, line, function)`, `error=class`, `enter=ns, exit=ns` (else a logical clock that all ranks
share: a call a microsecond), `thread=slot`, `ticket=n`, `open=True`. Other keywords are arguments by their names in
the standard. Communicators, datatypes and requests are what the methods return, or ids, or (predefined) names.
"""

from weft.trace.builder.handles import ANY, PROC_NULL, SELF, WORLD, Comm, Request, Type
from weft.trace.builder.run import Builder, RankBuilder, standard_functions

__all__ = [
    "ANY", "PROC_NULL", "SELF", "WORLD", "Builder", "Comm", "RankBuilder", "Request", "Type", "standard_functions",
]  # fmt: skip
