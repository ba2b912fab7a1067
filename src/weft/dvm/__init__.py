"""DVM programs in C and Fortran: the directives as one syntax tree, and a front end for each language."""
