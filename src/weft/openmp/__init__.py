"""OpenMP in C, C++ and Fortran: run once by a simulated runtime, in which each iteration and task is a strand."""
