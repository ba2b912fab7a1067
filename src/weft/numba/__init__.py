"""Check Numba's parallel loops: the program runs unchanged, its kernels are called one iteration at a time.

`compiler` puts the hooks into what Numba compiles (`instrument`: the LLVM text of one module; `loops`: what the
runtime must know of a parallel loop), `session` stands between Python and the checked functions and compares their
results with those of the same functions run sequentially (`compare`), `source` reads the functions' own text to say
which variable is at fault. `inside` is the process that the user's script runs in, `program` starts it.
"""

from weft.numba.program import compared as compared
from weft.numba.program import left as left
from weft.numba.program import run as run
from weft.numba.program import tidied as tidied
