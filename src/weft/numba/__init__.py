"""Check Numba's parallel loops: the program runs unchanged, and its kernels are called one iteration at a time.

`compiler` puts the hooks into what Numba compiles (`instrument`: the LLVM text of one module; `loops`: what the runtime
must know of a parallel loop). `loop_checks` wraps the checked functions and compares their results with those of a
sequential run (`compare`); `source` reads the functions' own text to name the variable at fault. `inside` is the
process that the user's script runs in, `program` starts it.
"""

from weft.numba.program import read_comparison_findings as read_comparison_findings
from weft.numba.program import read_merged_output as read_merged_output
from weft.numba.program import read_unchecked as read_unchecked
from weft.numba.program import run_checked as run_checked
