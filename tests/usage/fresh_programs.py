"""Programs of somebody who had not read the others: errors that end the program, files, epochs, matched probes.

MPI's errors are fatal here, as they are by default. See programs.py.
"""

_WINDOW = """
  MPI_Win w;
  MPI_Win_create(b, sizeof b, sizeof(int), MPI_INFO_NULL, comm, &w);"""
_FREE = """
  MPI_Win_free(&w);"""
_FILE = """
  MPI_File f;
  char name[64];
  MPI_Comm one;
  MPI_Comm_split(comm, me, 0, &one);
  sprintf(name, "fresh-%d.dat", me);
  MPI_File_open(one, name, {mode} | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &f);{body}
  MPI_File_close(&f);
  MPI_Comm_free(&one);"""

C_FRESH = [
    ("epoch-misuse", "put_that_ends_it", 2, _WINDOW + """
  <<||MPI_Win_fence(0, w);>>
  MPI_Put(a, 1, MPI_INT, right, 0, 1, MPI_INT, w); /* BUG */
  MPI_Win_fence(0, w);""" + _FREE),
    ("epoch-misuse", "free_that_ends_it", 2, _WINDOW + """
  MPI_Win_lock_all(0, w);
  <<||MPI_Win_unlock_all(w);>>
  MPI_Win_free(&w); /* BUG */"""),
    ("epoch-misuse", "rput_between_fences", 2, _WINDOW + """
  MPI_Win_<<fence||lock_all>>(0, w);
  MPI_Rput(a, 1, MPI_INT, right, 0, 1, MPI_INT, w, &r); /* BUG */
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  <<MPI_Win_fence(0, w)||MPI_Win_unlock_all(w)>>;""" + _FREE),
    ("epoch-misuse", "nothing_precedes", 2, _WINDOW + """
  MPI_Win_fence(MPI_MODE_NOPRECEDE, w);
  MPI_Put(a, 1, MPI_INT, right, 0, 1, MPI_INT, w);
  MPI_Win_fence(<<MPI_MODE_NOPRECEDE||MPI_MODE_NOSUCCEED>>, w); /* BUG */""" + _FREE),
    ("invalid-argument", "never_attached", 2, """
  MPI_Win w;
  MPI_Aint mine, theirs;
  MPI_Get_address(b, &mine);
  MPI_Sendrecv(&mine, 1, MPI_AINT, right, 1, &theirs, 1, MPI_AINT, left, 1, comm, MPI_STATUS_IGNORE);
  MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &w);
  MPI_Win_attach(w, <<d||b>>, sizeof b);
  MPI_Win_fence(0, w);
  if (me == 0) MPI_Put(a, 1, MPI_INT, 1, theirs, 1, MPI_INT, w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_detach(w, <<d||b>>);""" + _FREE),
    ("invalid-argument", "group_of_one_twice", 3, """
  MPI_Group all, some;
  MPI_Comm_group(comm, &all);
  MPI_Group_incl(all, 2, (int[]){1, <<1||2>>}, &some); /* BUG */
  MPI_Group_free(&some);
  MPI_Group_free(&all);"""),
    ("invalid-argument", "read_of_a_file_to_write", 2, _FILE.format(mode="<<MPI_MODE_WRONLY||MPI_MODE_RDWR>>", body="""
  MPI_File_write_at(f, 0, a, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_read_at(f, 0, a, 1, MPI_INT, MPI_STATUS_IGNORE); /* BUG */""")),
    ("invalid-argument", "offset_in_a_sequential_file", 2, _FILE.format(
        mode="MPI_MODE_SEQUENTIAL | MPI_MODE_WRONLY", body="""
  MPI_File_write_<<at(f, 0,||shared(f,>> a, 1, MPI_INT, MPI_STATUS_IGNORE); /* BUG */""")),
    ("invalid-argument", "closed_file", 2, _FILE.format(mode="MPI_MODE_RDWR", body="""
  MPI_File g = f;
  MPI_File_write_at(<<MPI_FILE_NULL||g>>, 0, a, 1, MPI_INT, MPI_STATUS_IGNORE); /* BUG */""")),
    ("argument-mismatch", "periods_of_one", 4, """
  MPI_Comm grid;
  int dims[2] = {2, 2}, periods[2] = {<<me == 3||1>>, 0};
  MPI_Cart_create(comm, 2, dims, periods, 0, &grid); /* BUG */
  MPI_Comm_free(&grid);"""),
    ("argument-mismatch", "counts_of_reduce_scatter", 2, """
  int counts[2] = {<<1 + me||1>>, <<2 - me||2>>};
  MPI_Reduce_scatter(a, b, counts, MPI_INT, MPI_SUM, comm); /* BUG */"""),
    ("rma-race", "window_that_is_sent", 2, _WINDOW + """
  MPI_Win_fence(0, w);
  if (me == 0) {
    MPI_Put(a, 1, MPI_INT, 1, 0, 1, MPI_INT, w); /* BUG */
    MPI_Recv(a + 4, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE);
  } else {
    MPI_Send(<<b||b + 1>>, 1, MPI_INT, 0, 1, comm); /* BUG */
  }
  MPI_Win_fence(0, w);""" + _FREE),
    ("rma-race", "window_received_into", 2, _WINDOW + """
  MPI_Win_lock_all(0, w);
  if (me == 0) {
    MPI_Put(a, 1, MPI_INT, 1, 0, 1, MPI_INT, w); /* BUG */
    <<||MPI_Win_flush(1, w);>>
    MPI_Send(a, 1, MPI_INT, 1, 2, comm);
    MPI_Send(a, 1, MPI_INT, 1, 1, comm);
    MPI_Win_flush(1, w);
  } else {
    MPI_Recv(a, 1, MPI_INT, 0, 2, comm, MPI_STATUS_IGNORE);
    MPI_Recv(b, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE); /* BUG */
  }
  MPI_Win_unlock_all(w);""" + _FREE),
    *(("request-misuse", name, 2, f"""
  if (me == 0) {{
    MPI_Psend_init(a, 2, 4, MPI_INT, 1, 1, comm, MPI_INFO_NULL, &r);
    <<{early}||>>
    MPI_Start(&r);
    MPI_Pready(0, r);
    <<{late}||>>
    MPI_Pready(1, r);
  }} else {{
    MPI_Precv_init(a, 2, 4, MPI_INT, 0, 1, comm, MPI_INFO_NULL, &r);
    MPI_Start(&r);
  }}
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Request_free(&r);""") for name, early, late in (
        ("partition_ready_twice", "", "MPI_Pready(0, r); /* BUG */"),
        ("partition_of_none", "", "MPI_Pready(2, r); /* BUG */"),
        ("partition_ready_early", "MPI_Pready(0, r); /* BUG */", ""),
    )),
    ("request-misuse", "collective_freed", 2, """
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Ibarrier(comm, &r);
  <<MPI_Request_free(&r)||MPI_Wait(&r, MPI_STATUS_IGNORE)>>; /* BUG */
  MPI_Barrier(comm);"""),
    ("unmatched-send", "probed_and_left", 2, """
  MPI_Message m = MPI_MESSAGE_NULL;
  if (me == 0) MPI_Send(a, 1, MPI_INT, 1, 1, comm);
  if (me == 1) MPI_Mprobe(0, 1, comm, &m, MPI_STATUS_IGNORE); /* BUG */
  if (me == <<2||1>>) MPI_Mrecv(b, 1, MPI_INT, &m, MPI_STATUS_IGNORE);"""),
    ("unmatched-send", "left_at_the_end", 2, """
  if (me == 0) MPI_Send(a, 1, MPI_INT, 1, 1, MPI_COMM_WORLD); /* BUG */
  <<MPI_Barrier(MPI_COMM_WORLD);||if (me == 1) MPI_Recv(b, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);>>"""),
]  # fmt: skip
