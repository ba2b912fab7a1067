"""Programs for kinds that public bug reports showed to be missed, told late or told in others' words."""


def _changed(name: str, making: str, count: int, changed: str, free: str = "") -> tuple[str, str, int, str]:
    """A send of a derived type from `big`, a byte of whose blocks the program changes, or one of its gaps."""
    return (
        "buffer-reuse",
        name,
        2,
        f"""
  MPI_Datatype t;
  {making}
  MPI_Type_commit(&t);
  if (me == 0) {{
    MPI_Isend(big, {count}, t, 1, 0, comm, &r);
    {free}
    {changed}
    MPI_Wait(&r, MPI_STATUS_IGNORE); /* BUG */
  }} else if (me == 1)
    MPI_Recv(big, {count}, t, 0, 0, comm, MPI_STATUS_IGNORE);
  {"if (me != 0) " if free else ""}MPI_Type_free(&t);""",
    )


C_REPORTED = [
    _changed("vector_changed", "MPI_Type_vector(32, 1, 34, MPI_INT, &t);", 1, "big[34 * 31 + <<0||1>>] = 5;"),
    _changed("contiguous_changed", "MPI_Type_contiguous(3000, MPI_INT, &t);", 2, "big[<<5999||6000>>] = 5;"),
    _changed(
        "freed_indexed_changed",
        "int l[3] = {1, 4, 2}, at[3] = {9, 0, 20}; MPI_Type_indexed(3, l, at, MPI_INT, &t);",
        3,
        "big[44 + <<20||19>>] = 5;",
        "MPI_Type_free(&t);",
    ),
    _changed(
        "subarray_changed",
        "int s[2] = {40, 50}, p[2] = {8, 9}, f[2] = {3, 4}; "
        "MPI_Type_create_subarray(2, s, p, f, MPI_ORDER_C, MPI_INT, &t);",
        1,
        "big[10 * 50 + <<12||13>>] = 5;",
    ),
    _changed(
        "structs_changed",
        "int l[2] = {1, 1}; MPI_Aint at[2] = {0, 8}; MPI_Datatype of[2] = {MPI_INT, MPI_INT}, one; "
        "MPI_Type_create_struct(2, l, at, of, &one); MPI_Type_create_resized(one, 0, 16, &t); "
        "MPI_Type_free(&one);",
        1000,
        "big[4 * 777 + <<2||1>>] = 5;",
    ),
    (
        "buffer-reuse",
        "one_word_of_many_changed",
        2,
        """
  if (me == 0) {
    MPI_Isend(big, 1048576, MPI_INT, 1, 0, comm, &r);
    <<||MPI_Wait(&r, MPI_STATUS_IGNORE);>>
    big[333333] = 1;
    MPI_Wait(&r, MPI_STATUS_IGNORE); /* BUG */
  } else if (me == 1)
    MPI_Recv(big, 1048576, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE);""",
    ),
    (
        "buffer-reuse",
        "one_variable_of_a_loop",
        3,
        """
  int size<<||[4]>>;
  if (me == 0) {
    for (int p = 1; p < n; p++) {
      <<size||size[p]>> = 100 * p;
      MPI_Isend(&size<<||[p]>>, 1, MPI_INT, p, 1, comm, &rs[p - 1]); /* BUG */
    }
    MPI_Waitall(n - 1, rs, MPI_STATUSES_IGNORE); /* BUG */
  } else
    MPI_Recv(a, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);""",
    ),
    (
        "buffer-reuse",
        "one_of_two_sends_of_a_wait",
        2,
        """
  if (me == 0) {
    MPI_Isend(a, 8, MPI_INT, 1, 1, comm, &rs[0]);
    MPI_Isend(b, 8, MPI_INT, 1, 2, comm, &rs[1]); /* BUG */
    <<||MPI_Wait(&rs[1], MPI_STATUS_IGNORE);>>
    b[7] = 3;
    MPI_Waitall(2, rs, MPI_STATUSES_IGNORE); /* BUG */
  } else if (me == 1) {
    MPI_Recv(a, 8, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
    MPI_Recv(a, 8, MPI_INT, 0, 2, comm, MPI_STATUS_IGNORE);
  }""",
    ),
]

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
    ("buffer-reuse", "flush_of_another_target", 3, """
w = MPI.Win.Create(a, 4, comm=comm)
comm.Barrier()
w.Lock_all()
for t in range(n):
    w.Get(b, t)  # BUG
    w.Flush(<<me||t>>)
w.Unlock_all()
w.Free()"""),
    ("buffer-overrun", "a_later_array_is_shorter", 2, """
for kind in ("i", <<"h"||"i">>):
    x = np.ones(400, kind)
    if me == 0: comm.Send([x, 400, MPI.INT], 1)  # BUG
    else: comm.Recv(np.zeros(400, "i"), 0)"""),
    ("buffer-overrun", "a_later_count_is_longer", 2, """
x, y = np.ones(400, "i"), np.ones(400, "i")
for count in (400, <<500||300>>):
    if me == 0: comm.Send([big, count, MPI.INT], 1)
    else: comm.Recv([<<x||big>>, count, MPI.INT], 0)  # BUG"""),
    ("buffer-overrun", "a_later_type_is_larger", 2, """
x = np.ones(400, "i")
for kind in (MPI.INT, <<MPI.DOUBLE||MPI.FLOAT>>):
    comm.Bcast([x, 400, kind], 0)  # BUG"""),
    ("deadlock", "one_allreduce_more", 3, """
if me == 0 or <<False||True>>: comm.allreduce(me)
x = comm.allreduce(me)  # BUG
comm.Barrier()  # BUG"""),
    ("deadlock", "one_exscan_more", 3, """
if me == 0 or <<False||True>>: comm.exscan(me)
x = comm.exscan(me)  # BUG
comm.Barrier()  # BUG"""),
    ("deadlock", "one_reduce_of_a_loop_more", 2, """
for step in range(5 + (<<me == 0||0>>)):
    comm.reduce(step)  # BUG
comm.Barrier()  # BUG"""),
    ("deadlock", "one_round_less_of_an_exchange", 3, """
for step in range(20 - (<<me == 1||0>>)):
    comm.Sendrecv(a, right, 3, b, left, 3)  # BUG
comm.Barrier()  # BUG"""),
    ("deadlock", "one_round_less_of_a_reduction", 3, """
for step in range(20 - (<<me == 1||0>>)):
    comm.Allreduce(a, b)  # BUG
comm.Barrier()  # BUG"""),
    ("deadlock", "one_object_less", 2, """
for step in range(20):
    if me == 0 and step < <<19||20>>: comm.send(step, 1, 3)
    if me == 1: comm.recv(source=0, tag=3)  # BUG
comm.Barrier()  # BUG"""),
    ("unmatched-send", "one_round_more_of_an_exchange", 2, """
for step in range(20 + (<<me == 1||0>>)):
    comm.Isend(a, right, 3).Free()  # BUG
    if step < 20: comm.Recv(b, left, 3)"""),
    ("truncation", "irecv_of_a_large_object", 2, """
x = list(range(<<40000||100>>))
if me == 0: comm.send(x, 1, 3)  # BUG
elif me == 1: comm.irecv(source=0, tag=3).wait()"""),
]  # fmt: skip
