"""The directives of C-DVMH and Fortran-DVM, read into the syntax tree: c.py and fortran.py begin."""
