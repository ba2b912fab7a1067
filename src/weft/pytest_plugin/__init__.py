"""Test suites whose tests are run by all ranks of an MPI job at once."""
