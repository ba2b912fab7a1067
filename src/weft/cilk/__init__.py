"""Programs in Cilk: MIT Cilk-5 by the user's own compiler, OpenCilk by gdb alone, or built as OpenMP."""
