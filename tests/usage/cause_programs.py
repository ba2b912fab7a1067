"""Programs for causes of false alarms that tests/evidence/right-or-silent.md lists: the right twin was alarmed once."""

_EXPOSED = """
  MPI_Win w;
  MPI_Group all, zero, some;
  int first[2] = {1, 2}, target = 0;
  MPI_Win_create(big, 4096, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Comm_group(comm, &all);
  MPI_Group_incl(all, 1, &target, &zero);"""
_FREED = """
  MPI_Group_free(&zero);
  MPI_Group_free(&all);
  MPI_Win_free(&w);"""

C_CAUSES = [
    ("invalid-argument", "count_in_place", 2, """
  MPI_Allgather(<<a||MPI_IN_PLACE>>, -1, MPI_INT, b, 1, MPI_INT, comm); /* BUG */"""),
    ("invalid-argument", "count_of_no_root", 2, """
  MPI_Gather(a, 1, MPI_INT, me ? NULL : b, me ? -1 : <<-1||1>>, MPI_INT, 0, comm); /* BUG */"""),
    ("invalid-argument", "neighbours", 2, """
  MPI_Comm line;
  int dims[1] = {2}, periods[1] = {0};
  MPI_Cart_create(comm, 1, dims, periods, 0, &line);
  MPI_Comm_set_errhandler(line, MPI_ERRORS_RETURN);
  MPI_Neighbor_alltoall(a, <<-1||1>>, MPI_INT, b, <<-1||1>>, MPI_INT, line); /* BUG */
  MPI_Comm_free(&line);"""),
    ("invalid-argument", "max_of_char", 2, """
  char x = 1, y = 0;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Allreduce(&x, &y, 1, <<MPI_CHAR||MPI_SIGNED_CHAR>>, MPI_MAX, comm); /* BUG */"""),
    ("request-misuse", "inactive_started", 2, """
  int flag;
  MPI_Recv_init(b, 1, MPI_INT, left, 1, comm, &r);
  MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
  MPI_Recv(b, 1, MPI_INT, MPI_PROC_NULL, 2, comm, MPI_STATUS_IGNORE);
  MPI_Start(&r);
  <<MPI_Start(&r);||>> /* BUG */
  MPI_Send(a, 1, MPI_INT, right, 1, comm);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Request_free(&r);"""),
    ("rma-race", "two_exposures", 3, _EXPOSED + """
  if (me == 0) {
    MPI_Group_incl(all, <<2||1>>, first, &some);
    MPI_Win_post(some, 0, w);
    MPI_Win_wait(w);
    MPI_Group_free(&some);
    <<||MPI_Group_incl(all, 1, first + 1, &some);
    MPI_Win_post(some, 0, w);
    MPI_Win_wait(w);
    MPI_Group_free(&some);>>
  } else {
    MPI_Win_start(zero, 0, w);
    MPI_Put(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w); /* BUG */
    MPI_Win_complete(w);
  }""" + _FREED),
    ("rma-race", "no_op_reads", 3, """
  MPI_Win w;
  MPI_Win_create(big, 4096, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_fence(0, w);
  if (me == 1) MPI_Fetch_and_op(a, b, MPI_INT, 0, 0, <<MPI_REPLACE||MPI_NO_OP>>, w); /* BUG */
  if (me == 2) MPI_Get(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);"""),
    ("rma-race", "accumulate_ordering", 2, """
  MPI_Win w;
  MPI_Info info;
  MPI_Info_create(&info);
  <<MPI_Info_set(info, "accumulate_ordering", "none");||>>
  MPI_Win_create(big, 4096, sizeof(int), info, comm, &w);
  MPI_Info_free(&info);
  MPI_Win_fence(0, w);
  if (me == 1) {
    MPI_Accumulate(a, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, w); /* BUG */
    MPI_Accumulate(b, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_REPLACE, w); /* BUG */
  }
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);"""),
    ("rma-race", "basic_types", 3, """
  MPI_Win w;
  MPI_Win_create(big, 4096, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_fence(0, w);
  MPI_Datatype t = <<me == 1 ? MPI_INT : MPI_UNSIGNED||MPI_INT>>;
  if (me) MPI_Accumulate(a, 1, t, 0, 0, 1, t, MPI_SUM, w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);"""),
    ("rma-race", "fetch_waited_for", 3, """
  MPI_Win w;
  MPI_Win_create(big, 4096, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_lock_all(0, w);
  if (me == 1) {
    MPI_Rget(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w, &r); /* BUG */
    <<||MPI_Wait(&r, MPI_STATUS_IGNORE);>>
    MPI_Send(b, 1, MPI_INT, 2, 1, comm);
    <<MPI_Wait(&r, MPI_STATUS_IGNORE);||>>
  } else if (me == 2) {
    MPI_Recv(b, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE);
    MPI_Put(b + 4, 1, MPI_INT, 0, 0, 1, MPI_INT, w); /* BUG */
  }
  MPI_Win_unlock_all(w);
  MPI_Win_free(&w);"""),
    ("epoch-misuse", "start_in_fence", 2, _EXPOSED + """
  (void)first, (void)some;
  MPI_Win_set_errhandler(w, MPI_ERRORS_RETURN);
  MPI_Win_fence(0, w); /* BUG */
  MPI_Put(a, 1, MPI_INT, right, 8, 1, MPI_INT, w);
  <<||MPI_Win_fence(MPI_MODE_NOSUCCEED, w);>>
  if (me == 1) {
    MPI_Win_start(zero, 0, w); /* BUG */
    MPI_Put(b, 1, MPI_INT, 0, 0, 1, MPI_INT, w);
    MPI_Win_complete(w);
  } else {
    MPI_Group_incl(all, 1, &right, &some);
    MPI_Win_post(some, 0, w);
    MPI_Win_wait(w);
    MPI_Group_free(&some);
  }
  <<MPI_Win_fence(0, w);||>>""" + _FREED),
    ("epoch-misuse", "lock_in_start", 2, _EXPOSED + """
  (void)first, (void)some;
  MPI_Win_set_errhandler(w, MPI_ERRORS_RETURN);
  if (me == 1) {
    MPI_Win_start(zero, 0, w);
    <<||MPI_Win_complete(w);>>
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w); /* BUG */
    MPI_Win_unlock(0, w);
    <<MPI_Win_complete(w);||>>
  } else {
    MPI_Group_incl(all, 1, &right, &some);
    MPI_Win_post(some, 0, w);
    MPI_Win_wait(w);
    MPI_Group_free(&some);
  }""" + _FREED),
]  # fmt: skip

PY_CAUSES = [
    ("request-leak", "beside_a_pool", 2, """
from mpi4py.futures import MPICommExecutor
with MPICommExecutor(comm, root=0) as pool:
    if pool is not None: assert list(pool.map(abs, range(-6, 0))) == [6, 5, 4, 3, 2, 1]
if me == 0:
    q = comm.Isend(a, 1)  # BUG
    <<pass||q.Wait()>>
else: comm.Recv(b, 0)
comm.Barrier()"""),
    ("buffer-overrun", "array_and_vector", 2, """
x = MPI.INT.Create_vector(<<4000||2000>>, 1, 2).Commit()
if me == 0: comm.Send([np.zeros(4000, "i"), 1, x], 1)  # BUG
else: comm.Recv(big, 0)
x.Free()"""),
]  # fmt: skip
