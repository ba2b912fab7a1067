"""Drive gdb: by its machine interface, or by a script of Weft's that runs within it."""
