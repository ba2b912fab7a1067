"""Programs for kinds that public bug reports showed to be missed, told late or told in others' words."""

C_REPORTED: list[tuple[str, str, int, str]] = []

PY_REPORTED = [
    ("resource-leak", "communicator_behind_allgather", 2, """
x = comm.Split(0, me)  # BUG
comm.allgather(me)
<<pass||x.Free()>>"""),
    ("resource-leak", "type_behind_alltoall", 2, """
comm.alltoall([1] * n)
x = MPI.INT.Create_contiguous(3).Commit()  # BUG
<<pass||x.Free()>>"""),
    ("resource-leak", "window_behind_pickled_scan", 2, """
comm.scan(me)
x = MPI.Win.Create(a, 1, comm=comm)  # BUG
<<pass||x.Free()>>"""),
]  # fmt: skip
