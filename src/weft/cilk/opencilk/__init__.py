"""Programs of OpenCilk, with gdb alone: the runtime's own deques and closures, and the stacks of
its workers, are read.
"""
