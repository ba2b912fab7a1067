"""Programs about one-sided calls and about collectives that some ranks leave early, and programs in Fortran.

See programs.py.
"""

_WINDOW = """
  MPI_Win w;
  MPI_Win_create(big, 4096, sizeof(int), MPI_INFO_NULL, comm, &w);"""
_FREE = """
  MPI_Win_free(&w);"""


def _locked(body: str) -> str:
    return f"{_WINDOW}\n  MPI_Win_lock_all(0, w);{body}\n  MPI_Win_unlock_all(w);{_FREE}"


def _fenced(body: str) -> str:
    return f"{_WINDOW}\n  MPI_Win_fence(0, w);{body}\n  MPI_Win_fence(0, w);{_FREE}"


def _types(make: str, body: str) -> str:
    return f"\n  MPI_Datatype t;\n  {make}\n  MPI_Type_commit(&t);{_fenced(body)}\n  MPI_Type_free(&t);"


C_ONESIDED = [
    ("buffer-reuse", "rget_and_rput", 2, _locked("""
  MPI_Rget(a, 2, MPI_INT, right, 0, 2, MPI_INT, w, &r);
  MPI_Rput(a <<||+ 2>>, 2, MPI_INT, right, 8, 2, MPI_INT, w, &q); /* BUG */
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Wait(&q, MPI_STATUS_IGNORE);""")),
    ("buffer-reuse", "rget_waited", 2, _locked("""
  MPI_Rget(a, 2, MPI_INT, right, 0, 2, MPI_INT, w, &r);
  <<||MPI_Wait(&r, MPI_STATUS_IGNORE);>>
  MPI_Put(a, 2, MPI_INT, right, 8, 2, MPI_INT, w); /* BUG */
  <<MPI_Wait(&r, MPI_STATUS_IGNORE);||>>""")),
    ("buffer-reuse", "get_accumulate_result", 2, _locked("""
  MPI_Get_accumulate(a, 2, MPI_INT, b, 2, MPI_INT, right, 0, 2, MPI_INT, MPI_SUM, w);
  MPI_Put(b <<||+ 2>>, 2, MPI_INT, right, 8, 2, MPI_INT, w); /* BUG */""")),
    ("invalid-argument", "get_accumulate_own", 2, _locked("""
  MPI_Get_accumulate(a, 2, MPI_INT, <<a + 1||a + 2>>, 2, MPI_INT, right, 0, 2, MPI_INT, MPI_SUM, w); /* BUG */""")),
    ("buffer-reuse", "fetch_results", 2, _locked("""
  MPI_Fetch_and_op(a, b, MPI_INT, right, 0, MPI_SUM, w);
  <<||MPI_Win_flush_local(right, w);>>
  MPI_Fetch_and_op(a, b, MPI_INT, right, 1, MPI_SUM, w); /* BUG */""")),
    ("buffer-reuse", "compare_operand", 2, _locked("""
  MPI_Compare_and_swap(a, a + 1, b, MPI_INT, right, 0, w);
  <<||MPI_Win_flush_local_all(w);>>
  MPI_Get(a + 1, 1, MPI_INT, right, 4, 1, MPI_INT, w); /* BUG */""")),
    ("buffer-reuse", "result_received", 2, _locked("""
  MPI_Fetch_and_op(a, b, MPI_INT, right, 0, MPI_SUM, w);
  <<||MPI_Win_flush(right, w);>>
  int *into = <<b||big + 2>>;
  MPI_Sendrecv(big, 1, MPI_INT, right, 1, into, 1, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE); /* BUG */""")),
    ("buffer-reuse", "raccumulate_reduced", 2, _locked("""
  MPI_Raccumulate(a, 2, MPI_INT, right, 0, 2, MPI_INT, MPI_SUM, w, &r);
  <<||MPI_Wait(&r, MPI_STATUS_IGNORE);>>
  MPI_Irecv(a, 2, MPI_INT, left, 1, comm, &q); /* BUG */
  MPI_Send(b, 2, MPI_INT, right, 1, comm);
  MPI_Wait(&q, MPI_STATUS_IGNORE);
  <<MPI_Wait(&r, MPI_STATUS_IGNORE);||>>""")),
    ("buffer-reuse", "put_of_pending", 2, _fenced("""
  MPI_Irecv(a, 2, MPI_INT, left, 1, comm, &r);
  MPI_Put(a <<||+ 2>>, 2, MPI_INT, right, 0, 2, MPI_INT, w); /* BUG */
  MPI_Send(b, 2, MPI_INT, right, 1, comm);
  MPI_Wait(&r, MPI_STATUS_IGNORE);""")),
    ("buffer-reuse", "column_and_row", 2, """
  MPI_Datatype t;
  MPI_Type_vector(4, 1, 8, MPI_INT, &t);
  MPI_Type_commit(&t);
  MPI_Irecv(big + 2, 1, t, left, 1, comm, &r);
  MPI_Irecv(big + <<25||27>>, 3, MPI_INT, left, 2, comm, &q); /* BUG */
  MPI_Send(a, 4, MPI_INT, right, 1, comm);
  MPI_Send(a, 3, MPI_INT, right, 2, comm);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Wait(&q, MPI_STATUS_IGNORE);
  MPI_Type_free(&t);"""),
    ("buffer-reuse", "two_columns", 2, """
  MPI_Datatype t;
  MPI_Type_vector(4, 1, 8, MPI_INT, &t);
  MPI_Type_commit(&t);
  MPI_Isend(big + 2, 1, t, right, 1, comm, &r);
  MPI_Irecv(big + <<10||3>>, 1, t, left, 1, comm, &q); /* BUG */
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Wait(&q, MPI_STATUS_IGNORE);
  MPI_Type_free(&t);"""),
    ("rma-race", "exposed_origin", 3, _fenced("""
  if (me == 1) MPI_Put(big + 4, 1, MPI_INT, 2, 0, 1, MPI_INT, w); /* BUG */
  if (me == 0) MPI_Put(a, 1, MPI_INT, 1, <<4||5>>, 1, MPI_INT, w); /* BUG */""")),
    ("rma-race", "exposed_result", 3, _locked("""
  if (me == 1) MPI_Fetch_and_op(a, big + 4, MPI_INT, 2, 0, MPI_SUM, w); /* BUG */
  if (me == 0) MPI_Get(a, 1, MPI_INT, 1, <<4||5>>, 1, MPI_INT, w); /* BUG */""")),
    ("rma-race", "guarded_by_locks_alone", 2, """
  MPI_Win w, g;
  MPI_Win_create(big, 64, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_create(big2, 64, sizeof(int), MPI_INFO_NULL, comm, &g);
  MPI_Win_lock_all(0, w);
  int taken = 0, one = 1, zero = 0;
  do {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, g);
    <<||MPI_Get(&taken, 1, MPI_INT, 0, 0, 1, MPI_INT, g);>>
    MPI_Win_flush(0, g);
    if (!taken) MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, g);
    MPI_Win_unlock(0, g);
  } while (taken);
  MPI_Put(&me, 1, MPI_INT, 0, 0, 1, MPI_INT, w); /* BUG */
  MPI_Win_flush(0, w);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, g);
  MPI_Put(&zero, 1, MPI_INT, 0, 0, 1, MPI_INT, g);
  MPI_Win_unlock(0, g);
  MPI_Win_unlock_all(w);
  MPI_Win_free(&g);
  MPI_Win_free(&w);"""),
    ("rma-race", "shifted_accumulates", 3, """
  MPI_Win w;
  MPI_Win_create(big, 4096, 1, MPI_INFO_NULL, comm, &w);
  MPI_Win_fence(0, w);
  if (me) MPI_Accumulate(a, 2, MPI_INT, 0, me == 1 ? 0 : <<2||4>>, 2, MPI_INT, MPI_SUM, w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);"""),
    ("rma-race", "columns", 3, _types("MPI_Type_vector(3, 1, 8, MPI_INT, &t);", """
  if (me) MPI_Put(a, 3, MPI_INT, 0, me == 1 ? 2 : <<10||11>>, 1, t, w); /* BUG */""")),
    ("rma-race", "indexed_blocks", 3, _types("MPI_Type_create_indexed_block(3, 2, (int[]) {0, 5, 9}, MPI_INT, &t);", """
  if (me == 1) MPI_Put(a, 6, MPI_INT, 0, 0, 1, t, w); /* BUG */
  if (me == 2) MPI_Get(b, 1, MPI_INT, 0, <<6||7>>, 1, MPI_INT, w); /* BUG */""")),
    ("rma-race", "struct_member", 3, _types("""MPI_Type_create_struct(2, (int[]) {1, 1}, (MPI_Aint[]) {0, 12},
    (MPI_Datatype[]) {MPI_INT, MPI_INT}, &t);""", """
  MPI_Op op = <<me == 1 ? MPI_PROD : MPI_SUM||MPI_SUM>>;
  if (me) MPI_Accumulate(a, 2, MPI_INT, 0, me == 1 ? 4 : <<7||8>>, 1, t, op, w); /* BUG */""")),
    ("rma-race", "column_and_row", 3, _types("MPI_Type_vector(4, 1, 8, MPI_INT, &t);", """
  if (me == 1) MPI_Get(b, 4, MPI_INT, 0, 3, 1, t, w); /* BUG */
  if (me == 2) MPI_Put(a, <<4||3>>, MPI_INT, 0, 16, <<4||3>>, MPI_INT, w); /* BUG */""")),
    ("rma-race", "two_operations", 3, _locked("""
  if (me) MPI_Accumulate(a, 1, MPI_INT, 0, 0, 1, MPI_INT, <<me == 1 ? MPI_PROD : MPI_SUM||MPI_SUM>>, w); /* BUG */""")),
    ("rma-race", "read_at_the_origin", 3, _locked("""
  if (me == 1) { <<MPI_Put(a||MPI_Get(b + 4>>, 1, MPI_INT, 0, 0, 1, MPI_INT, w); /* BUG */
    MPI_Win_flush_local(0, w); MPI_Send(b, 1, MPI_INT, 2, 1, comm); }
  if (me == 2) { MPI_Recv(b, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE);
    MPI_Put(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w); }""")),
    ("rma-race", "flush_local_only", 3, _locked("""
  if (me == 1) { MPI_Put(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w); /* BUG */
    <<MPI_Win_flush_local(0, w)||MPI_Win_flush(0, w)>>; MPI_Send(b, 1, MPI_INT, 2, 1, comm); }
  if (me == 2) { MPI_Recv(b, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE);
    MPI_Put(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w); }""")),
    ("epoch-misuse", "lock_in_fence", 2, f"""{_WINDOW}
  MPI_Win_set_errhandler(w, MPI_ERRORS_RETURN);
  MPI_Win_fence(0, w);
  <<||MPI_Win_fence(MPI_MODE_NOSUCCEED, w);>>
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, w); /* BUG */
  MPI_Put(a, 1, MPI_INT, right, 0, 1, MPI_INT, w);
  MPI_Win_unlock(right, w);
  <<MPI_Win_fence(0, w);||>>{_FREE}"""),
    ("epoch-misuse", "fence_in_lock", 2, f"""{_WINDOW}
  MPI_Win_set_errhandler(w, MPI_ERRORS_RETURN);
  MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w);
  <<||MPI_Win_unlock(me, w);>>
  MPI_Win_fence(0, w); /* BUG */
  <<MPI_Win_unlock(me, w);||>>{_FREE}"""),
    ("potential-deadlock", "bcast_left_early", 2, """
  if (me == 0) { MPI_Bcast(b, 1, MPI_INT, 0, comm); MPI_Send(a, 1, MPI_INT, 1, 1, comm); } /* BUG */
  else {
    <<||MPI_Bcast(b, 1, MPI_INT, 0, comm);>>
    MPI_Recv(a, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE); /* BUG */
    <<MPI_Bcast(b, 1, MPI_INT, 0, comm); /* BUG */||>>
  }"""),
    ("potential-deadlock", "scatter_left_early", 2, """
  if (me == 0) { MPI_Scatter(b, 1, MPI_INT, big, 1, MPI_INT, 0, MPI_COMM_SELF); }
  if (me == 0) { MPI_Scatter(b, 1, MPI_INT, a, 1, MPI_INT, 0, comm); MPI_Send(a, 1, MPI_INT, 1, 1, comm); } /* BUG */
  else {
    MPI_Irecv(big, 1, MPI_INT, 0, 1, comm, &r);
    <<MPI_Wait(&r, MPI_STATUS_IGNORE); /* BUG */||>>
    MPI_Scatter(NULL, 0, MPI_INT, a, 1, MPI_INT, 0, comm); /* BUG */
    <<||MPI_Wait(&r, MPI_STATUS_IGNORE);>>
  }"""),
    ("potential-deadlock", "gather_left_early", 2, """
  if (me == 1) { MPI_Gather(a, 1, MPI_INT, NULL, 0, MPI_INT, 0, comm); MPI_Send(a, 1, MPI_INT, 0, 1, comm); } /* BUG */
  else {
    <<MPI_Recv(a, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE); /* BUG */||>>
    MPI_Gather(a, 1, MPI_INT, b, 1, MPI_INT, 0, comm); /* BUG */
    <<||MPI_Recv(a, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE);>>
  }"""),
    ("potential-deadlock", "reduce_left_early", 2, """
  if (me == 1) { MPI_Reduce(a, NULL, 1, MPI_INT, MPI_SUM, 0, comm); /* BUG */
    MPI_Send_init(a, 1, MPI_INT, 0, 1, comm, &r);
    MPI_Start(&r); MPI_Wait(&r, MPI_STATUS_IGNORE); MPI_Request_free(&r); }
  else {
    <<MPI_Recv(a, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE); /* BUG */||>>
    MPI_Reduce(a, b, 1, MPI_INT, MPI_SUM, 0, comm); /* BUG */
    <<||MPI_Recv(a, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE);>>
  }"""),
    ("potential-deadlock", "allreduce_crossed", 2, """
  if (me == 0) { MPI_Send(a, 1, MPI_INT, 1, 1, comm); MPI_Allreduce(a, b, 1, MPI_INT, MPI_SUM, comm); } /* BUG */
  else {
    <<MPI_Allreduce(a, b, 1, MPI_INT, MPI_SUM, comm);||>>
    MPI_Recv(b, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
    <<||MPI_Allreduce(a, b, 1, MPI_INT, MPI_SUM, comm);>>
  }"""),
]  # fmt: skip

FORTRAN = """\
subroutine work(comm, me, n)
  include 'mpif.h'
  integer comm, me, n, left, right, r, q, ierr, st(MPI_STATUS_SIZE), w
  integer a(8), b(8)
  real*8 x(4), y(4)
  integer(kind=MPI_ADDRESS_KIND) size, at
  common /kept/ a, b, x, y
  left = mod(me + n - 1, n)
  right = mod(me + 1, n)
{body}
end subroutine
program main
  include 'mpif.h'
  integer comm, me, n, ierr
  call MPI_Init(ierr)
  {setup}
  call MPI_Comm_rank(comm, me, ierr)
  call MPI_Comm_size(comm, n, ierr)
  call work(comm, me, n)
  {teardown}
  call MPI_Finalize(ierr)
end program
"""

FORTRAN_SETUPS = {
    "world": ("comm = MPI_COMM_WORLD", ""),
    "dup": ("call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)", "call MPI_Comm_free(comm, ierr)"),
}
FORTRAN_TEMPLATES = [
    ("deadlock", "recv_recv", 2, """
  <<call MPI_Recv(b, 4, MPI_INTEGER, left, 1, comm, st, ierr) ! BUG||
  call MPI_Irecv(b, 4, MPI_INTEGER, left, 1, comm, r, ierr)>>
  call MPI_Send(a, 4, MPI_INTEGER, right, 1, comm, ierr)
  <<||call MPI_Wait(r, st, ierr)>>"""),
    ("potential-deadlock", "send_send", 2, """
  <<call MPI_Send(a, 4, MPI_INTEGER, right, 1, comm, ierr) ! BUG||
  call MPI_Isend(a, 4, MPI_INTEGER, right, 1, comm, r, ierr)>>
  call MPI_Recv(b, 4, MPI_INTEGER, left, 1, comm, st, ierr)
  <<||call MPI_Wait(r, st, ierr)>>"""),
    ("argument-mismatch", "reduce_op", 2, """
  call MPI_Allreduce(a, b, 1, MPI_INTEGER, <<MPI_SUM + me||MPI_SUM>>, comm, ierr) ! BUG"""),
    ("type-mismatch", "real_as_integer", 2, """
  if (me == 0) call MPI_Send(x, 4, MPI_DOUBLE_PRECISION, 1, 1, comm, ierr) ! BUG
  if (me == 1) call MPI_Recv(<<b, 8, MPI_INTEGER||x, 4, MPI_DOUBLE_PRECISION>>, 0, 1, comm, st, ierr)"""),
    ("truncation", "short", 2, """
  if (me == 0) call MPI_Send(a, 4, MPI_INTEGER, 1, 1, comm, ierr)
  if (me == 1) call MPI_Recv(b, <<2||4>>, MPI_INTEGER, 0, 1, comm, st, ierr) ! BUG"""),
    ("request-leak", "isend", 2, """
  if (me == 0) then
    call MPI_Isend(a, 4, MPI_INTEGER, 1, 1, comm, r, ierr) ! BUG
    <<||call MPI_Wait(r, st, ierr)>>
  else
    call MPI_Recv(b, 4, MPI_INTEGER, 0, 1, comm, st, ierr)
  end if"""),
    ("buffer-reuse", "two_receives", 2, """
  call MPI_Irecv(b, 4, MPI_INTEGER, left, 1, comm, r, ierr)
  call MPI_Irecv(b(<<3||5>>), 4, MPI_INTEGER, left, 2, comm, q, ierr) ! BUG
  call MPI_Send(a, 4, MPI_INTEGER, right, 1, comm, ierr)
  call MPI_Send(a, 4, MPI_INTEGER, right, 2, comm, ierr)
  call MPI_Wait(r, st, ierr)
  call MPI_Wait(q, st, ierr)"""),
    ("message-race", "wildcards", 3, """
  if (me == 0) then
    call MPI_Recv(b, 1, MPI_INTEGER, <<MPI_ANY_SOURCE||1>>, 1, comm, st, ierr) ! BUG
    call MPI_Recv(b, 1, MPI_INTEGER, <<MPI_ANY_SOURCE||2>>, 1, comm, st, ierr)
  else
    call MPI_Send(a, 1, MPI_INTEGER, 0, 1, comm, ierr)
  end if"""),
    ("buffer-overrun", "static", 2, """
  if (me == 0) call MPI_Send(a, 8, MPI_INTEGER, 1, 1, comm, ierr)
  if (me == 1) call MPI_Recv(b, <<30||8>>, MPI_INTEGER, 0, 1, comm, st, ierr) ! BUG"""),
    ("rma-race", "two_puts", 3, """
  size = 32
  at = <<0||me>>
  call MPI_Win_create(b, size, 4, MPI_INFO_NULL, comm, w, ierr)
  call MPI_Win_fence(0, w, ierr)
  if (me > 0) call MPI_Put(a, 1, MPI_INTEGER, 0, at, 1, MPI_INTEGER, w, ierr) ! BUG
  call MPI_Win_fence(0, w, ierr)
  call MPI_Win_free(w, ierr)"""),
]  # fmt: skip
