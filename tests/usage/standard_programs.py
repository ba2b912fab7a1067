"""Programs of what the standard asks for and few look at: bytes that one call gives twice. See programs.py."""

_INDEXED = """
  MPI_Datatype t;
  MPI_Type_indexed(2, (int[]){{2, 2}}, (int[]){{0, {at}}}, MPI_INT, &t);
  MPI_Type_commit(&t);{body}
  MPI_Type_free(&t);"""
_COLUMN = """
  MPI_Datatype t;
  MPI_Type_vector(4, 1, 2, MPI_INT, &t);
  MPI_Type_commit(&t);{body}
  MPI_Type_free(&t);"""

_SHARED_BYTES = [
    ("invalid-argument", "sendrecv_half_of_it", 2, """
  MPI_Sendrecv(b, 2, MPI_INT, right, 1, b + <<1||2>>, 2, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE); /* BUG */"""),
    ("invalid-argument", "sendrecv_of_columns", 2, _COLUMN.format(body="""
  MPI_Sendrecv(b, 1, t, right, 1, b + <<2||1>>, <<3, MPI_INT||1, t>>, left, 1, comm, MPI_STATUS_IGNORE); /* BUG */""")),
    ("invalid-argument", "gathered_into_what_is_sent", 2, """
  MPI_Allgather(b + <<1||2>>, 1, MPI_INT, b, 1, MPI_INT, comm); /* BUG */"""),
    ("invalid-argument", "iallreduce_half_of_it", 2, """
  MPI_Iallreduce(b, b + <<3||4>>, 4, MPI_INT, MPI_SUM, comm, &r); /* BUG */
  MPI_Wait(&r, MPI_STATUS_IGNORE);"""),
    ("invalid-argument", "entries_that_overlap", 2, _INDEXED.format(at="<<1||2>>", body="""
  if (me == 0) MPI_Send(a, 4, MPI_INT, 1, 1, comm);
  else MPI_Recv(b, 1, t, 0, 1, comm, MPI_STATUS_IGNORE); /* BUG */""")),
    ("invalid-argument", "elements_that_overlap", 2, """
  MPI_Datatype t;
  MPI_Type_create_resized(MPI_DOUBLE, 0, <<4||8>>, &t);
  MPI_Type_commit(&t);
  if (me == 0) MPI_Send(d, 2, MPI_DOUBLE, 1, 1, comm);
  else MPI_Recv(d, 2, t, 0, 1, comm, MPI_STATUS_IGNORE); /* BUG */
  MPI_Type_free(&t);"""),
    ("invalid-argument", "target_that_overlaps", 2, _INDEXED.format(at="<<1||2>>", body="""
  MPI_Win w;
  MPI_Win_create(b, sizeof b, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_fence(0, w);
  MPI_Put(a, 4, MPI_INT, right, 0, 1, t, w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);""")),
    ("invalid-argument", "gatherv_blocks", 2, """
  MPI_Gatherv(a, 2, MPI_INT, b, (int[]){2, 2}, (int[]){0, <<1||2>>}, MPI_INT, 0, comm); /* BUG */"""),
    ("invalid-argument", "alltoallv_blocks", 2, """
  int sends[2] = {1, 1}, from[2] = {0, 0};
  MPI_Alltoallv(a, sends, from, MPI_INT, b, sends, (int[]){<<0||1>>, 0}, MPI_INT, comm); /* BUG */"""),
    ("invalid-argument", "ialltoallw_blocks", 2, """
  int counts[2] = {1, 1}, from[2] = {0, 0}, to[2] = {4, <<6||8>>};
  MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  MPI_Ialltoallw(a, counts, from, types, b, counts, to, types, comm, &r); /* BUG */
  MPI_Wait(&r, MPI_STATUS_IGNORE);"""),
]  # fmt: skip

_FILE = """
  MPI_File f;
  MPI_File_open(comm, "standard.dat", MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &f);
  MPI_File_set_size(f, 4096);{body}
  MPI_File_close(&f);"""

_PENDING = [
    ("buffer-reuse", "two_iallreduces_into_one", 2, """
  MPI_Iallreduce(a, b, 4, MPI_INT, MPI_SUM, comm, rs);
  MPI_Iallreduce(a, b + <<3||4>>, 4, MPI_INT, MPI_MAX, comm, rs + 1); /* BUG */
  MPI_Waitall(2, rs, MPI_STATUSES_IGNORE);"""),
    ("buffer-reuse", "reduced_into_what_is_sent", 2, """
  MPI_Isend(b, 4, MPI_INT, right, 1, comm, &r);
  MPI_Allreduce(a, b <<||+ 4>>, 4, MPI_INT, MPI_SUM, comm); /* BUG */
  MPI_Recv(big, 4, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE);
  MPI_Wait(&r, MPI_STATUS_IGNORE);"""),
    ("buffer-reuse", "written_to_a_file_and_received_into", 2, _FILE.format(body="""
  MPI_File_iwrite_at(f, 16 * me, b, 4, MPI_INT, &r);
  MPI_Sendrecv(a, 4, MPI_INT, right, 1, <<b||big>>, 4, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE); /* BUG */
  MPI_Wait(&r, MPI_STATUS_IGNORE);""")),
    ("buffer-reuse", "read_twice_into_one_buffer", 2, _FILE.format(body="""
  MPI_File_iread_at(f, 0, b, 4, MPI_INT, &r);
  MPI_File_iread_at(f, 64, b <<||+ 4>>, 4, MPI_INT, &q); /* BUG */
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Wait(&q, MPI_STATUS_IGNORE);""")),
]  # fmt: skip

_FILES = [
    ("file-race", "written_at_one_place", 2, _FILE.format(body="""
  MPI_File_write_at(f, <<0||4 * me>>, &me, 1, MPI_INT, MPI_STATUS_IGNORE); /* BUG */""")),
    ("file-race", "one_atomic_place", 2, _FILE.format(body="""
  MPI_File_set_atomicity(f, <<0||1>>);
  MPI_File_write_at(f, 0, &me, 1, MPI_INT, MPI_STATUS_IGNORE); /* BUG */""")),
    ("file-race", "views_that_overlap", 2, _FILE.format(body="""
  MPI_File_set_view(f, <<4||8>> * me, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  MPI_File_write_all(f, a, 2, MPI_INT, MPI_STATUS_IGNORE); /* BUG */""")),
    ("file-race", "interleaved_views", 2, """
  MPI_Datatype t, u;
  MPI_Type_contiguous(<<2||1>>, MPI_INT, &t);
  MPI_Type_create_resized(t, 0, 8, &u);
  MPI_Type_commit(&u);""" + _FILE.format(body="""
  MPI_File_set_view(f, 4 * me, MPI_INT, u, "native", MPI_INFO_NULL);
  MPI_File_write(f, a, 4, MPI_INT, MPI_STATUS_IGNORE); /* BUG */
  MPI_File_seek(f, 0, MPI_SEEK_SET);
  MPI_File_read(f, b, 4, MPI_INT, MPI_STATUS_IGNORE);""") + """
  MPI_Type_free(&t);
  MPI_Type_free(&u);"""),
    ("file-race", "read_without_sync", 2, _FILE.format(body="""
  if (me == 0) MPI_File_write_at(f, 8, a, 2, MPI_INT, MPI_STATUS_IGNORE); /* BUG */
  <<||MPI_File_sync(f);>>
  MPI_Barrier(comm);
  <<||MPI_File_sync(f);>>
  if (me == 1) MPI_File_read_at(f, 12, b, 1, MPI_INT, MPI_STATUS_IGNORE); /* BUG */""")),
    ("request-leak", "split_never_ended", 2, _FILE.format(body="""
  MPI_File_write_at_all_begin(f, 16 * me, a, 4, MPI_INT); /* BUG */
  <<||MPI_File_write_at_all_end(f, a, MPI_STATUS_IGNORE);>>""")),
    ("request-misuse", "collective_in_a_split_one", 2, """
  MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);""" + _FILE.format(body="""
  MPI_File_read_at_all_begin(f, 16 * me, a, 4, MPI_INT);
  <<||MPI_File_read_at_all_end(f, a, MPI_STATUS_IGNORE);>>
  MPI_File_read_at_all(f, 32, b, 4, MPI_INT, MPI_STATUS_IGNORE); /* BUG */
  <<MPI_File_read_at_all_end(f, a, MPI_STATUS_IGNORE);||>>""")),
    ("request-misuse", "closed_before_the_wait", 2, _FILE.replace("MPI_File_close(&f);", "").format(body="""
  MPI_File_iwrite_at(f, 16 * me, a, 4, MPI_INT, &r);
  <<MPI_File_close(&f); /* BUG */||>>
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  <<||MPI_File_close(&f);>>""")),
]  # fmt: skip

_GRID = """
  MPI_Comm grid;
  MPI_Cart_create(comm, 2, (int[]){{3, 2}}, (int[]){{1, 0}}, 0, &grid);{body}
  MPI_Comm_free(&grid);"""

_LEFT = [
    ("resource-leak", "session", 2, """
  MPI_Session s;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s); /* BUG */
  <<||MPI_Session_finalize(&s);>>"""),
    ("resource-leak", "key_of_attributes", 2, """
  int key;
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL); /* BUG */
  <<||MPI_Type_free_keyval(&key);>>"""),
    ("resource-leak", "memory_of_mpi", 2, """
  int *x, *y;
  MPI_Alloc_mem(64, MPI_INFO_NULL, &x);
  MPI_Free_mem(x);
  MPI_Alloc_mem(64, MPI_INFO_NULL, &x); /* BUG */
  MPI_Alloc_mem(64, MPI_INFO_NULL, &y); /* BUG */
  MPI_Free_mem(y);
  <<||MPI_Free_mem(x);>>"""),
]  # fmt: skip

_NEIGHBOURS = [
    ("argument-mismatch", "neighbours_of_a_grid", 6, _GRID.format(body="""
  MPI_Neighbor_allgather(a, <<1 + (me == 2)||1>>, MPI_INT, b, 1, MPI_INT, grid); /* BUG */""")),
    ("argument-mismatch", "neighbours_one_by_one", 6, _GRID.format(body="""
  int sends[4] = {1, 2, 1, 2}, from[4] = {0, 1, 3, 4}, gets[4] = {<<1, 2||2, 1>>, 2, 1}, to[4] = {0, 2, 3, 5};
  MPI_Neighbor_alltoallv(a, sends, from, MPI_INT, b, gets, to, MPI_INT, grid); /* BUG */""")),
    ("argument-mismatch", "edges_of_one_end", 3, """
  MPI_Comm graph;
  int from[2] = {left, right}, to[1] = {right}, in = <<1 + (me == 2)||1>>, *alike = MPI_UNWEIGHTED;
  MPI_Dist_graph_create_adjacent(comm, in, from, alike, 1, to, alike, MPI_INFO_NULL, 0, &graph); /* BUG */
  MPI_Comm_free(&graph);"""),
]  # fmt: skip

_ASSERTED = [
    ("argument-mismatch", "fence_of_one_rank", 2, """
  MPI_Win w;
  MPI_Win_create(b, sizeof b, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_fence(<<me ? MPI_MODE_NOPRECEDE : 0||MPI_MODE_NOPRECEDE | (me ? MPI_MODE_NOSTORE : 0)>>, w); /* BUG */
  MPI_Win_fence(MPI_MODE_NOSUCCEED, w);
  MPI_Win_free(&w);"""),
    ("epoch-misuse", "put_that_is_denied", 2, """
  MPI_Win w;
  MPI_Win_create(b, sizeof b, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_fence(<<MPI_MODE_NOPUT||me ? 0 : MPI_MODE_NOPUT>>, w); /* BUG */
  if (me == 0) MPI_Put(a, 1, MPI_INT, 1, 0, 1, MPI_INT, w); /* BUG */
  else MPI_Get(a, 1, MPI_INT, 0, 4, 1, MPI_INT, w);
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);"""),
    ("argument-mismatch", "place_of_all_in_a_file", 2, _FILE.format(body="""
  MPI_File_set_errhandler(f, MPI_ERRORS_RETURN);
  MPI_File_seek_shared(f, <<4 * me||4>>, MPI_SEEK_SET); /* BUG */""")),
    ("invalid-argument", "operation_that_was_freed", 2, """
  MPI_Op sum, copy;
  MPI_Op_create((MPI_User_function *)(void *)abs, 1, &sum);
  copy = <<sum||MPI_SUM>>;
  MPI_Op_free(&sum);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Allreduce(a, b, <<0||1>>, MPI_INT, copy, comm); /* BUG */"""),
    ("invalid-argument", "info_that_was_freed", 2, """
  MPI_Info one, copy;
  int flag;
  char text[8];
  MPI_Info_create(&one);
  copy = one;
  <<MPI_Info_free(&one);||>>
  MPI_Info_get(copy, "a", 7, text, &flag); /* BUG */
  <<||MPI_Info_free(&one);>>"""),
    ("invalid-argument", "type_that_was_freed", 2, """
  MPI_Datatype pair, copy;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  copy = pair;
  <<MPI_Type_free(&pair);||>>
  if (me == 0) MPI_Send(a, 1, copy, 1, 1, comm); /* BUG */
  else MPI_Recv(b, 2, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
  <<||MPI_Type_free(&pair);>>"""),
    ("invalid-argument", "packed_over_the_end", 2, """
  int at = 0;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Pack(a, 2, MPI_INT, big, 12, &at, comm);
  MPI_Pack(a, <<2||1>>, MPI_INT, big, 12, &at, comm); /* BUG */"""),
    ("invalid-argument", "ready_too_early", 2, """
  if (me == 0) {
    <<||MPI_Recv(b, 1, MPI_INT, 1, 2, comm, MPI_STATUS_IGNORE);>>
    MPI_Rsend(a, 1, MPI_INT, 1, 1, comm); /* BUG */
    <<MPI_Send(a, 1, MPI_INT, 1, 2, comm);||>>
  } else {
    <<MPI_Recv(b, 1, MPI_INT, 0, 2, comm, MPI_STATUS_IGNORE);||>>
    MPI_Irecv(b, 1, MPI_INT, 0, 1, comm, &r); /* BUG */
    <<||MPI_Send(a, 1, MPI_INT, 0, 2, comm);>>
    MPI_Wait(&r, MPI_STATUS_IGNORE);
  }"""),
    ("invalid-argument", "ready_by_chance", 2, """
  if (me) MPI_Irecv(b, 1, MPI_INT, 0, 1, comm, &r); /* BUG */
  <<||MPI_Barrier(comm);>>
  if (me == 0) { usleep(50000); MPI_Rsend(a, 1, MPI_INT, 1, 1, comm); } /* BUG */
  else MPI_Wait(&r, MPI_STATUS_IGNORE);"""),
]  # fmt: skip

C_STANDARD = [*_SHARED_BYTES, *_PENDING, *_FILES, *_LEFT, *_NEIGHBOURS, *_ASSERTED]

PY_STANDARD = [
    ("invalid-argument", "gatherv_blocks", 2, """
comm.Gatherv([a, 2, MPI.INT], [b, (2, 2), (0, <<1||2>>), MPI.INT], 0)  # BUG"""),
    ("file-race", "written_at_one_place", 2, """
f = MPI.File.Open(comm, "standard.dat", MPI.MODE_RDWR | MPI.MODE_CREATE | MPI.MODE_DELETE_ON_CLOSE)
f.Write_at(<<0||16 * me>>, a)  # BUG
f.Close()"""),
]  # fmt: skip

FORTRAN_STANDARD = [
    ("invalid-argument", "sendrecv_half_of_it", 2, """
  call MPI_Sendrecv(b, 4, MPI_INTEGER, right, 1, b(<<3||5>>), 4, MPI_INTEGER, left, 1, comm, st, ierr) ! BUG"""),
]  # fmt: skip
