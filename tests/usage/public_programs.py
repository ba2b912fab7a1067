"""Faults of public bug reports as small programs; `tests/evidence/reports-mpi.md` has what Weft says of them.

`REPORTS` has the address of each report by the name of its program.
"""

from __future__ import annotations

from typing import Final

REPORTS: Final = {
    "sends_to_itself": "https://github.com/Chengcheng-Xiao/mpiPyMC/issues/2",
    "receives_into_nothing": "https://github.com/pmodels/mpich/issues/6584",
    "closes_after_an_error": "https://github.com/HDFGroup/hdf5/issues/118",
    "nothing_to_write": "https://github.com/h5py/h5py/issues/965",
    "rows_of_its_own": "https://github.com/h5py/h5py/issues/1108",
    "leaves_the_loop_at_an_error": "https://github.com/pmodels/mpich/issues/6585",
    "wrong_parameters_at_the_root": "https://github.com/scafacos/scafacos/pull/36",
    "finalizes_and_exits": "https://github.com/claudiopica/HiRep/pull/85",
    "splits_in_a_loop": "https://github.com/r-ccs-cms/sbd/issues/38",
    "frees_two_of_three": "https://github.com/dftbplus/dftbplus/issues/1809",
    "one_buffer_for_all": "https://github.com/dealii/dealii/pull/13206",
    "tests_and_goes_on": "https://github.com/xiaoyeli/superlu_dist/pull/117",
    "never_waits": "https://github.com/dealii/dealii/pull/15372",
    "list_of_three": "https://github.com/mpi4py/mpi4py/issues/233",
    "own_count_of_a_broadcast": "https://github.com/open-mpi/ompi/issues/126",
    "requests_thrown_away": "https://github.com/pmodels/mpich/issues/6432",
    "half_a_message": "https://github.com/m-a-d-n-e-s-s/madness/issues/113",
    "probes_and_takes_another": "https://github.com/open-mpi/ompi/issues/3807",
    "size_and_data_of_anybody": "https://github.com/OpenChemistry/stempy/pull/293",
    "sums_into_itself": "https://github.com/aryafallahi/mithra/issues/60",
    "long_total_as_int": "https://github.com/AMReX-Codes/amrex/issues/5063",
    "raises_before_a_barrier": "https://github.com/firedrakeproject/mpi-pytest/issues/12",
    "raises_before_a_gather": "https://github.com/usnistgov/fipy/issues/265",
    "flushes_after_unlock": "https://github.com/kokkos/kokkos-remote-spaces/pull/51",
    "gets_outside_an_epoch": "https://github.com/tactcomplabs/circustent/issues/8",
    "types_in_a_loop": "https://github.com/FEniCS/dolfinx/pull/3031",
    "gathers_from_its_place": "https://github.com/OpenMDAO/OpenMDAO/pull/904",
    "in_place_of_the_result": "https://github.com/CASL/Futility/pull/333",
    "in_place_at_all": "https://github.com/pmodels/mpich/issues/759",
    "checks_a_sendrecv_together": "https://github.com/KratosMultiphysics/Kratos/pull/3700",
    "frees_what_is_complete": "https://github.com/ofiwg/libfabric/issues/1195",
}

PY_PUBLIC = [
    ("deadlock", "sends_to_itself", 2, """
for worker in range(<<0||1>>, n):
    if me == worker: comm.ssend(me, dest=0)  # BUG
if me == 0:
    for worker in range(<<0||1>>, n): comm.recv(source=worker)"""),
    ("deadlock", "rows_of_its_own", 3, """
f = MPI.File.Open(comm, "rows.bin", MPI.MODE_CREATE | MPI.MODE_WRONLY)
for row in range(<<4 if me == 0 else 3||4>>):
    f.Write_at_all(row * 64 + 4 * me, a[:1])  # BUG
f.Close()  # BUG"""),
    ("deadlock", "nothing_to_write", 3, """
f = MPI.File.Open(comm, "some.bin", MPI.MODE_CREATE | MPI.MODE_WRONLY)
mine = a[:0] if me == 2 else a
if <<len(mine)||True>>: f.Write_at_all(16 * me, mine)  # BUG
f.Close()  # BUG"""),
    ("truncation", "list_of_three", 2, """
if me == 0:
    q = comm.Isend(np.zeros(4, "i"), 1, 1)  # BUG
    q.Wait()
else: comm.Recv(np.zeros(<<3||4>>, "i"), 0, 1)  # BUG"""),
    ("uncaught-exception", "raises_before_a_barrier", 2, """
if me == 0 and <<True||False>>: raise ValueError("test")  # BUG
comm.barrier()"""),
    ("uncaught-exception", "raises_before_a_gather", 3, """
if me == 1 and <<True||False>>: raise RuntimeError("on processor 1")  # BUG
print(comm.allgather(me))"""),
    ("invalid-argument", "gathers_from_its_place", 2, """
values = np.full(n, me, "d")
comm.Allgather(<<values[me:me + 1]||values[me:me + 1].copy()>>, values)  # BUG"""),
]  # fmt: skip

C_PUBLIC = [
    ("truncation", "receives_into_nothing", 2, """
  if (me == 0) {
    MPI_Isend(big, 10, MPI_INT, 1, 10, comm, &r); /* BUG */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
  } else if (me == 1) {
    MPI_Irecv(big2, <<0||10>>, MPI_INT, 0, 10, comm, &r); /* BUG */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
  }"""),
    ("deadlock", "closes_after_an_error", 3, """
  MPI_File f;
  MPI_File_open(comm, "size.bin", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
  MPI_Offset size = 0;
  int bad = me == 0 ? <<1||0>> : 0;
  if (me == 0) MPI_File_get_size(f, &size);
  if (!bad)
    MPI_Bcast(&size, 1, MPI_OFFSET, 0, comm); /* BUG */
  MPI_File_close(&f); /* BUG */"""),
    ("deadlock", "leaves_the_loop_at_an_error", 4, """
  for (int i = 0; i < 2; i++) {
    if (me == 2 && i == 1 && <<1||0>>) break;
    MPI_Alltoall(big, 1, MPI_INT, big2, 1, MPI_INT, comm); /* BUG */
  }
  MPI_Barrier(comm); /* BUG */"""),
    ("deadlock", "wrong_parameters_at_the_root", 3, """
  double cutoff = <<-1||1>>;
  if (!(me == 0 && cutoff <= 0))
    MPI_Bcast(&cutoff, 1, MPI_DOUBLE, 0, comm); /* BUG */
  MPI_Barrier(comm); /* BUG */"""),
    ("deadlock", "finalizes_and_exits", 2, """
  if (me == 0 && <<1||0>>) {
    fprintf(stderr, "no random state\\\\n");
    MPI_Finalize();
    exit(1);
  }
  MPI_Bcast(a, 4, MPI_INT, 0, comm); /* BUG */"""),
    ("resource-leak", "splits_in_a_loop", 2, """
  for (int i = 0; i < 50; i++) {
    MPI_Comm part;
    MPI_Comm_split(comm, 0, me, &part); /* BUG */
    MPI_Barrier(part);
    <<||MPI_Comm_free(&part);>>
  }"""),
    ("resource-leak", "frees_two_of_three", 2, """
  MPI_Comm group, between, node;
  MPI_Comm_split(comm, 0, me, &group);
  MPI_Comm_split(comm, me, 0, &between);
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &node); /* BUG */
  <<||MPI_Comm_free(&node);>>
  MPI_Comm_free(&between);
  MPI_Comm_free(&group);"""),
    ("buffer-reuse", "one_buffer_for_all", 3, """
  int pool[3][4];
  if (me == 0) {
    for (int p = 1, k = 0; p < n; p++, k += <<0||1>>) {
      for (int i = 0; i < 4; i++) pool[k][i] = 10 * p + i;
      MPI_Isend(pool[k], 4, MPI_INT, p, 2, comm, &rs[p - 1]); /* BUG */
    }
    MPI_Waitall(n - 1, rs, MPI_STATUSES_IGNORE); /* BUG */
  } else
    MPI_Recv(a, 4, MPI_INT, 0, 2, comm, MPI_STATUS_IGNORE);"""),
    ("buffer-reuse", "tests_and_goes_on", 2, """
  if (me == 0) {
    int done;
    MPI_Isend(big, 200000, MPI_INT, 1, 2, comm, &r); /* BUG */
    <<MPI_Test(&r, &done, MPI_STATUS_IGNORE);||MPI_Wait(&r, MPI_STATUS_IGNORE);>>
    big[7] = 1;
    (void)done;
    MPI_Wait(&r, MPI_STATUS_IGNORE); /* BUG */
  } else {
    usleep(100000);
    MPI_Recv(big2, 200000, MPI_INT, 0, 2, comm, MPI_STATUS_IGNORE);
  }"""),
    ("request-leak", "never_waits", 3, """
  for (int p = 0; p < n; p++)
    if (p != me) MPI_Isend(a, 4, MPI_INT, p, 1, comm, &rs[p]); /* BUG */
    else rs[p] = MPI_REQUEST_NULL;
  for (int p = 0; p < n; p++)
    if (p != me) MPI_Recv(b, 4, MPI_INT, p, 1, comm, MPI_STATUS_IGNORE);
  <<||MPI_Waitall(n, rs, MPI_STATUSES_IGNORE);>>"""),
    ("argument-mismatch", "own_count_of_a_broadcast", 3, """
  int count = <<me == 1 ? 1142 : 1088||1088>>;
  MPI_Bcast(big, count, MPI_INT, 0, comm); /* BUG */"""),
    ("request-leak", "requests_thrown_away", 2, """
  for (int i = 0; i < 20; i++) {
    MPI_Isend(a, 1, MPI_INT, right, 1, comm, &r); /* BUG */
    <<||MPI_Request_free(&r);>>
    MPI_Recv(b, 1, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE);
  }"""),
    ("truncation", "half_a_message", 2, """
  char *box = malloc(16);
  if (me == 1) {
    MPI_Send(box, 16, MPI_BYTE, 0, 2265, comm); /* BUG */
  } else if (me == 0) {
    MPI_Irecv(box, <<8||16>>, MPI_BYTE, 1, 2265, comm, &r); /* BUG */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
  }
  free(box);"""),
    ("message-race", "probes_and_takes_another", 3, """
  MPI_Status s;
  if (me == 0)
    for (int i = 1; i < n; i++) {
      MPI_Probe(MPI_ANY_SOURCE, 5, comm, &s);
      int count;
      MPI_Get_count(&s, MPI_INT, &count);
      MPI_Recv(big, count, MPI_INT, <<MPI_ANY_SOURCE||s.MPI_SOURCE>>, 5, comm, &s); /* BUG */
    }
  else
    MPI_Send(big, 2 * me, MPI_INT, 0, 5, comm);"""),
    ("message-race", "size_and_data_of_anybody", 3, """
  MPI_Status s;
  if (me == 0)
    for (int i = 1; i < n; i++) {
      MPI_Recv(a, 1, MPI_INT, <<MPI_ANY_SOURCE||i>>, 0, comm, &s); /* BUG */
      MPI_Recv(big, a[0], MPI_INT, <<MPI_ANY_SOURCE||i>>, 0, comm, &s);
    }
  else {
    a[0] = 10 * me;
    MPI_Send(a, 1, MPI_INT, 0, 0, comm);
    MPI_Send(big, a[0], MPI_INT, 0, 0, comm);
  }"""),
    ("invalid-argument", "sums_into_itself", 2, """
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  double low = me;
  MPI_Allreduce(<<&low||MPI_IN_PLACE>>, &low, 1, MPI_DOUBLE, MPI_MIN, comm); /* BUG */"""),
    ("type-mismatch", "long_total_as_int", 2, """
  long total = me == 0 ? 5000000000 : 0;
  MPI_Bcast(&total, 1, <<MPI_INT||MPI_LONG>>, 0, comm); /* BUG */"""),
    ("epoch-misuse", "flushes_after_unlock", 2, """
  MPI_Win w;
  MPI_Win_create(big, sizeof big, 4, MPI_INFO_NULL, comm, &w);
  MPI_Win_set_errhandler(w, MPI_ERRORS_RETURN);
  MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w);
  MPI_Put(a, 1, MPI_INT, right, me, 1, MPI_INT, w);
  <<||MPI_Win_flush(right, w);>>
  MPI_Win_unlock(right, w);
  <<MPI_Win_flush(right, w);||>> /* BUG */
  MPI_Barrier(comm);
  MPI_Win_free(&w);"""),
    ("epoch-misuse", "gets_outside_an_epoch", 2, """
  MPI_Win w;
  MPI_Win_create(big, sizeof big, 4, MPI_INFO_NULL, comm, &w);
  MPI_Win_set_errhandler(w, MPI_ERRORS_RETURN);
  <<||MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w);>>
  MPI_Get(a, 1, MPI_INT, right, 0, 1, MPI_INT, w); /* BUG */
  <<||MPI_Win_unlock(right, w);>>
  MPI_Barrier(comm);
  MPI_Win_free(&w);"""),
    ("resource-leak", "types_in_a_loop", 2, """
  for (int i = 0; i < 20; i++) {
    MPI_Datatype row;
    MPI_Type_contiguous(3, MPI_INT, &row); /* BUG */
    MPI_Type_commit(&row);
    MPI_Sendrecv(big, 1, row, right, 0, big2, 1, row, left, 0, comm, MPI_STATUS_IGNORE);
    <<||MPI_Type_free(&row);>>
  }"""),
    ("invalid-argument", "in_place_of_the_result", 2, """
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Allreduce(<<a, MPI_IN_PLACE||MPI_IN_PLACE, a>>, 1, MPI_INT, MPI_SUM, comm); /* BUG */"""),
    ("invalid-argument", "in_place_at_all", 2, """
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  double value = me;
  MPI_Reduce(<<MPI_IN_PLACE||me == 0 ? MPI_IN_PLACE : &value>>, &value, 1, MPI_DOUBLE, MPI_SUM, 0, comm); /* BUG */"""),
    ("deadlock", "checks_a_sendrecv_together", 3, """
  if (me < 2) {
    <<MPI_Gather(a, 1, MPI_INT, big, 1, MPI_INT, 0, comm);||>> /* BUG */
    MPI_Sendrecv(a, 1, MPI_INT, 1 - me, 0, b, 1, MPI_INT, 1 - me, 0, comm, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(comm); /* BUG */"""),
    ("invalid-argument", "frees_what_is_complete", 2, """
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Irecv(b, 1, MPI_INT, left, 0, comm, &r);
  MPI_Isend(a, 1, MPI_INT, right, 0, comm, &q);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Wait(&q, MPI_STATUS_IGNORE);
  <<MPI_Request_free(&r);||>> /* BUG */"""),
]  # fmt: skip
