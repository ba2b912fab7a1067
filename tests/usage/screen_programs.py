"""Faults whose first line of a report was missing, false or stood second, as small programs."""

from __future__ import annotations

from typing import Final

PY_SCREENS: Final = [
    ("invalid-argument", "receives_into_a_copied_column", 2, """
u, column = np.zeros((6, 5)), np.empty(6)
comm.Sendrecv(np.ascontiguousarray(u[:, -2]), right, 1,  # BUG
              <<np.ascontiguousarray(u[:, 0])||column>>, left, 1)
u[:, 0] = column"""),
    ("invalid-argument", "receives_into_selected_rows", 2, """
u, rows = np.zeros((6, 5)), np.empty((2, 5))
q = comm.Isend(u[1:3], right)
if me >= 0: comm.Recv([<<u[[0, 5]]||rows>>, MPI.DOUBLE], source=left)  # BUG
q.Wait()"""),
    ("invalid-argument", "sums_into_a_converted_copy", 2, """
total = np.zeros(4, "f")
comm.Allreduce(np.ones(4), <<total.astype("d")||d[:4]>>, op=MPI.SUM)  # BUG"""),
    ("argument-mismatch", "root_of_the_other_group", 4, """
half = comm.Split(me // 2, me)
inter = half.Create_intercomm(0, comm, 2 if me < 2 else 0)
role = MPI.ROOT if me == 0 else <<0||MPI.PROC_NULL>> if me == 1 else 0
inter.Bcast(a, root=role)  # BUG
inter.Free(); half.Free()"""),
    ("argument-mismatch", "root_by_the_rank_of_the_world", 4, """
half = comm.Split(me // 2, me)
inter = half.Create_intercomm(0, comm, 2 if me < 2 else 0)
role = MPI.ROOT if me == 3 else MPI.PROC_NULL if me == 2 else <<(0 if me == 0 else 1)||1>>
inter.Reduce(a, b, root=role)  # BUG
inter.Free(); half.Free()"""),
]  # fmt: skip

C_SCREENS: Final = [
    ("argument-mismatch", "gathers_to_two_roots", 4, """
  MPI_Comm half, inter;
  MPI_Comm_split(comm, me / 2, me, &half);
  MPI_Intercomm_create(half, 0, comm, me < 2 ? 2 : 0, 5, &inter);
  int role = me == 0 ? MPI_ROOT : me == 1 ? <<MPI_ROOT||MPI_PROC_NULL>> : 0;
  MPI_Gather(a, 1, MPI_INT, b, 1, MPI_INT, role, inter); /* BUG */
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);"""),
    ("invalid-argument", "sums_on_a_freed_communicator", 2, """
  MPI_Comm part, copy;
  MPI_Comm_split(comm, me, 0, &part);
  copy = part;
  MPI_Comm_free(&part);
  MPI_Allreduce(a, b, 1, MPI_INT, MPI_SUM, <<copy||comm>>); /* BUG */"""),
    ("type-mismatch", "pairs_with_gaps", 2, """
  struct pair { double value; int place, spare; double more; };
  struct pair *pairs = calloc(8, sizeof *pairs);
  int lengths[2] = {1, 1};
  MPI_Aint places[2] = {0, 8};
  MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT}, one, all;
  MPI_Type_create_struct(2, lengths, places, types, &one);
  MPI_Type_create_resized(one, 0, <<16||sizeof *pairs>>, &all);
  MPI_Type_commit(&all);
  MPI_Bcast(pairs, 8, all, 0, comm); /* BUG */
  MPI_Type_free(&one);
  MPI_Type_free(&all);
  free(pairs);"""),
    ("type-mismatch", "bodies_without_their_forces", 2, """
  struct body { double x[3]; int id; float mass; double force[3]; };
  struct body *bodies = calloc(10, sizeof *bodies);
  int lengths[3] = {3, 1, 1};
  MPI_Aint places[3] = {0, 24, 28};
  MPI_Datatype types[3] = {MPI_DOUBLE, MPI_INT, MPI_FLOAT}, one, all;
  MPI_Type_create_struct(3, lengths, places, types, &one);
  MPI_Type_create_resized(one, 0, <<32||sizeof *bodies>>, &all);
  MPI_Type_commit(&all);
  MPI_Sendrecv_replace(bodies, 10, all, right, 1, left, 1, comm, MPI_STATUS_IGNORE); /* BUG */
  MPI_Type_free(&one);
  MPI_Type_free(&all);
  free(bodies);"""),
    ("collective-mismatch", "out_of_step_from_the_first", 2, """
  for (int i = 0; i < 3; i++) {
    if (me == 0) MPI_Bcast(a, 1, MPI_INT, 0, comm); /* BUG */
    <<||if (me) MPI_Bcast(a, 1, MPI_INT, 0, comm);>>
    MPI_Allreduce(&d[0], &d[1], 1, MPI_DOUBLE, MPI_SUM, comm); /* BUG */
    <<if (me) MPI_Bcast(a, 1, MPI_INT, 0, comm);||>>
  }"""),
    ("invalid-argument", "tag_of_a_signed_hash", 2, """
  int tag = (<<int||unsigned>>)((me + 1) * 2654435769u) % 32768;
  MPI_Irecv(b, 1, MPI_INT, left, MPI_ANY_TAG, comm, &r);
  MPI_Send(a, 1, MPI_INT, right, tag, comm); /* BUG */
  MPI_Wait(&r, MPI_STATUS_IGNORE);"""),
    ("invalid-argument", "sums_outside_of_its_group", 4, """
  MPI_Comm even;
  MPI_Comm_split(comm, me % 2 ? MPI_UNDEFINED : 0, me, &even);
  <<||if (even != MPI_COMM_NULL)>>
  MPI_Allreduce(a, b, 1, MPI_INT, MPI_SUM, even); /* BUG */
  if (even != MPI_COMM_NULL) MPI_Comm_free(&even);"""),
    ("crash", "index_of_no_request", 2, """
  int which = 0;
  MPI_Irecv(b, 1, MPI_INT, left, 1, comm, &r);
  MPI_Send(a, 1, MPI_INT, right, 1, comm);
  for (int i = 0; i < <<2||1>>; i++) {
    MPI_Waitany(1, &r, &which, MPI_STATUS_IGNORE);
    big[(long)which * 100000] = 1; /* BUG */
  }"""),
    ("type-mismatch", "cells_of_a_grid", 2, """
  struct { int rows; long *cells; } grid = {4, calloc(16, sizeof(long))}, *g = &grid;
  MPI_Bcast(g->cells, 16, <<MPI_INT||MPI_LONG>>, 0, comm); /* BUG */
  free(grid.cells);"""),
    ("type-mismatch", "second_row_of_a_member", 2, """
  struct { float *rows[2]; double *edge; } part = {{0}, calloc(8, sizeof(double))};
  MPI_Bcast(&part.edge[4], 4, <<MPI_FLOAT||MPI_DOUBLE>>, 0, comm); /* BUG */
  free(part.edge);"""),
    ("request-misuse", "starts_again_without_a_wait", 2, """
  MPI_Send_init(a, 1, MPI_INT, right, 1, comm, &r);
  MPI_Recv_init(b, 1, MPI_INT, left, 1, comm, &q);
  for (int i = 0; i < 2; i++) {
    MPI_Start(&q);
    MPI_Start(&r); /* BUG */
    if (<<i == 1||1>>) MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&r);
  MPI_Request_free(&q);"""),
]  # fmt: skip

FORTRAN_SCREENS: Final = [
    ("invalid-argument", "barrier_without_ierror", 2, """
  ierr = 0
  call MPI_Barrier(comm<<||, ierr>>) ! BUG"""),
    ("invalid-argument", "broadcast_without_ierror", 2, """
  call MPI_Bcast(a, 4, MPI_INTEGER, &
                 0, comm<<||, ierr>>) ! BUG"""),
    ("invalid-argument", "wait_without_ierror", 2, """
  call MPI_Irecv(a, 1, MPI_INTEGER, left, 1, comm, r, ierr)
  call MPI_Send(b, 1, MPI_INTEGER, right, 1, comm, ierr)
  call MPI_Wait(r, st<<||, ierr>>) ! BUG"""),
    ("invalid-argument", "status_of_three", 2, """
  call turn(comm, left, right, me)
contains
  subroutine turn(comm, left, right, me)
    integer, intent(in) :: comm, left, right, me
    integer :: r, e, s(<<3||MPI_STATUS_SIZE>>), &
               got
    call MPI_Irecv(got, 1, MPI_INTEGER, left, 1, comm, r, e)
    call MPI_Send(me, 1, MPI_INTEGER, right, 1, comm, e)
    call MPI_Wait(r, s, e) ! BUG
  end subroutine"""),
    ("invalid-argument", "one_status_for_all", 2, """
  call swap(comm, left, right, me)
contains
  subroutine swap(comm, left, right, me)
    integer :: comm, left, right, me, r(2), e, got
    integer, dimension(MPI_STATUS_SIZE<<||, 2>>) :: both
    call MPI_Irecv(got, 1, MPI_INTEGER, left, 1, comm, r(1), e)
    call MPI_Isend(me, 1, MPI_INTEGER, right, 1, comm, r(2), e)
    call MPI_Waitall(2, r, both, e) ! BUG
  end subroutine"""),
    ("invalid-argument", "plain_integer_for_a_status", 2, """
  call get(comm, left, right, me)
contains
  subroutine get(comm, left, right, me)
    integer, intent(in) :: comm, left, right, me
    integer :: got, spare(8), e
    integer :: status<<||(MPI_STATUS_SIZE)>>
    call MPI_Sendrecv(me, 1, MPI_INTEGER, right, 1, got, 1, MPI_INTEGER, left, 1, comm, status, e) ! BUG
  end subroutine"""),
    ("buffer-reuse", "row_of_a_matrix", 2, """
  call rows(comm, left, right, me)
contains
  subroutine rows(comm, left, right, me)
    integer :: comm, left, right, me, m(400, 400), above(400), below(400), s(4), e
    m = me
    call MPI_Irecv(above, 400, MPI_INTEGER, left, 7, comm, s(1), e)
    call MPI_Irecv(below, 400, MPI_INTEGER, right, 8, comm, s(2), e)
    call MPI_Isend(<<m(3, 1:400)||m(1:400, 3)>>, 400, MPI_INTEGER, right, 7, comm, s(3), e) ! BUG
    call MPI_Isend(<<m(4, 1:400)||m(1:400, 4)>>, 400, MPI_INTEGER, left, 8, comm, s(4), e)
    call MPI_Waitall(4, s, MPI_STATUSES_IGNORE, e)
  end subroutine"""),
]  # fmt: skip
