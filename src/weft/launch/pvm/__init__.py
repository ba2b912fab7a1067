"""Starting programs of PVM: which use it, a virtual machine for each run, its group server's record put in order."""
