"""gdb as Weft drives it: by its machine interface, or by a script of Weft's that runs within it."""
