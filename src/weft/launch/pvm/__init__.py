"""Start PVM programs: detect which use PVM, run a virtual machine for each run, close its group server's record."""
