"""PVM, the second message-passing system: its functions, its recorder, a virtual machine for each run."""
