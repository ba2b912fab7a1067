"""Rows of iterations without hooks: a second copy of innermost loops in the compiler's assembly (x86-64).

A loop whose body is one way from its iteration call around to it again, and whose hooks get addresses that rise evenly,
is written a second time without hooks. The runtime (dataparallel/native/rows.c) proves for a number of
iterations that every access would pass, lets the second copy run them, and stamps what they wrote. Both copies have the
same registers and stack at every place, so that control may change between them: into the copy behind the iteration
call, out of it before the next one, or by any jump that leaves the loop.

Code without a loop that has many hooks gets a copy, too: a row of one iteration.

Where ways part, the runtime knows beforehand which is gone if the branch compares linear forms, or what memory holds
that the row does not write (a guard): it says of each block whether a row's iterations come to it.

Values are linear forms of what registers and stack slots hold behind the iteration call; what is not one is unknown.
"""

from weft.instrument.rows.copies import SHARED, render_copy
from weft.instrument.rows.loops import find_copied_loops

__all__ = ["SHARED", "find_copied_loops", "render_copy"]
