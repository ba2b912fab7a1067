"""Programs about the memory behind buffers: longer than it, of another type, given back too early. See programs.py."""

C_MEMORY = [
    ("buffer-overrun", "stack_send", 2, """
  int few[4] = {0};
  if (me == 0) MPI_Send(few, <<6||4>>, MPI_INT, 1, 1, comm); /* BUG */
  else MPI_Recv(a, 8, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);"""),
    ("buffer-overrun", "stack_receive", 2, """
  int few[4] = {0}, *room = malloc(64);
  if (me == 0) MPI_Send(a, 4, MPI_INT, 1, 1, comm);
  else MPI_Recv(few, <<6||4>>, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE); /* BUG */
  free(room);"""),
    ("buffer-overrun", "static_bcast", 2, """
  static double few[10];
  MPI_Bcast(few, <<11||10>>, MPI_DOUBLE, 0, comm); /* BUG */"""),
    ("buffer-overrun", "static_middle", 2, """
  static double few[10];
  if (me == 0) MPI_Send(few + 5, <<6||5>>, MPI_DOUBLE, 1, 1, comm); /* BUG */
  else MPI_Recv(d, 8, MPI_DOUBLE, 0, 1, comm, MPI_STATUS_IGNORE);"""),
    ("buffer-overrun", "heap_send", 2, """
  int *few = malloc(40);
  for (int i = 0; i < 10; i++) few[i] = i;
  if (me == 0) MPI_Send(few, <<40||10>>, MPI_INT, 1, 1, comm); /* BUG */
  else MPI_Recv(big, 40, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
  free(few);"""),
    ("buffer-overrun", "heap_middle_isend", 2, """
  int *few = calloc(100, sizeof(int));
  if (me == 0) {
    MPI_Isend(few + 60, <<60||40>>, MPI_INT, 1, 1, comm, &r); /* BUG */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
  } else MPI_Recv(big, 60, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
  free(few);"""),
    ("buffer-overrun", "heap_mapped", 2, """
  double *few = malloc(100000 * sizeof(double));
  for (int i = 0; i < 100000; i++) few[i] = i;
  MPI_Allreduce(MPI_IN_PLACE, few, <<100700||100000>>, MPI_DOUBLE, MPI_SUM, comm); /* BUG */
  free(few);"""),
    ("buffer-overrun", "heap_of_a_thread", 2, """
  static int *few;
  void *make(void *unused) {
    void *others[50];
    for (int i = 0; i < 50; i++) others[i] = malloc(64 + 32 * i);
    few = calloc(10, sizeof(int));
    for (int i = 0; i < 50; i += 2) free(others[i]);
    return unused;
  }
  pthread_t thread;
  pthread_create(&thread, NULL, make, NULL);
  pthread_join(thread, NULL);
  if (me == 0) MPI_Send(few, <<40||10>>, MPI_INT, 1, 1, comm); /* BUG */
  else MPI_Recv(big, 40, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);"""),
    ("buffer-overrun", "gather_root", 3, """
  int *all = malloc(<<1||n>> * 4 * sizeof(int));
  MPI_Gather(a, 4, MPI_INT, all, 4, MPI_INT, 0, comm); /* BUG */
  free(all);"""),
    ("buffer-overrun", "gatherv", 3, """
  int counts[3] = {2, 2, 2}, at[3] = {0, 2, <<14||4>>};
  static int all[8];
  MPI_Gatherv(a, 2, MPI_INT, all, counts, at, MPI_INT, 0, comm); /* BUG */"""),
    ("buffer-overrun", "alltoall", 3, """
  int few[<<2||3>>] = {0};
  MPI_Alltoall(a, 1, MPI_INT, few, 1, MPI_INT, comm); /* BUG */"""),
    ("buffer-overrun", "vector_send", 2, """
  double column[4][4] = {{0}};
  MPI_Datatype t;
  MPI_Type_vector(4, 1, <<5||4>>, MPI_DOUBLE, &t); MPI_Type_commit(&t);
  if (me == 0) MPI_Send(&column[0][<<2||3>>], 1, t, 1, 1, comm); /* BUG */
  else MPI_Recv(d, 4, MPI_DOUBLE, 0, 1, comm, MPI_STATUS_IGNORE);
  MPI_Type_free(&t);"""),
    ("buffer-overrun", "before_begin", 2, """
  double row[8] = {0};
  MPI_Datatype t;
  int lengths[1] = {2};
  MPI_Aint at[1] = {<<-16||0>>};
  MPI_Type_create_hindexed(1, lengths, at, MPI_DOUBLE, &t); MPI_Type_commit(&t);
  if (me == 0) MPI_Send(row, 1, t, 1, 1, comm); /* BUG */
  else MPI_Recv(d, 2, MPI_DOUBLE, 0, 1, comm, MPI_STATUS_IGNORE);
  MPI_Type_free(&t);"""),
    ("buffer-overrun", "objects_by_address", 2, """
  float first = 1, second = 2;
  int few[3] = {me};
  MPI_Datatype t, types[3] = {MPI_FLOAT, MPI_FLOAT, MPI_INT};
  int lengths[3] = {1, 1, <<4||3>>};
  MPI_Aint at[3], begin;
  MPI_Get_address(&first, &begin);
  MPI_Get_address(&second, &at[1]);
  MPI_Get_address(few, &at[2]);
  at[0] = 0; at[1] -= begin; at[2] -= begin;
  MPI_Type_create_struct(3, lengths, at, types, &t); MPI_Type_commit(&t);
  MPI_Bcast(&first, 1, t, 0, comm); /* BUG */
  MPI_Type_free(&t);"""),
    ("buffer-overrun", "blocks_by_address", 2, """
  double *first = calloc(<<9||10>>, sizeof(double)), *second = calloc(3000, sizeof(double));
  MPI_Datatype t;
  int lengths[2] = {10, 3000};
  MPI_Aint at[2], begin;
  MPI_Get_address(first, &begin);
  MPI_Get_address(second, &at[1]);
  at[0] = 0; at[1] -= begin;
  MPI_Type_create_hindexed(2, lengths, at, MPI_DOUBLE, &t); MPI_Type_commit(&t);
  MPI_Bcast(first, 1, t, 0, comm); /* BUG */
  MPI_Type_free(&t);
  free(first); free(second);"""),
    ("buffer-overrun", "arrays_by_address", 2, """
  int *keys = calloc(<<90||100>>, sizeof(int));
  double *values = calloc(100, sizeof(double));
  MPI_Datatype pair, t, types[2] = {MPI_INT, MPI_DOUBLE}, eight;
  int lengths[2] = {1, 1};
  MPI_Aint at[2] = {0, (char *)values - (char *)keys};
  MPI_Type_contiguous(100, MPI_INT, &eight);
  types[0] = eight; lengths[1] = 100;
  MPI_Type_create_struct(2, lengths, at, types, &pair);
  MPI_Type_create_resized(pair, 0, 8, &t); MPI_Type_commit(&t);
  MPI_Bcast(keys, 1, t, 0, comm); /* BUG */
  MPI_Type_free(&t); MPI_Type_free(&pair); MPI_Type_free(&eight);
  free(keys); free(values);"""),
    ("buffer-overrun", "field_behind_the_block", 2, """
  struct cell { double value[3]; int id; } *one = malloc(<<24||sizeof *one>>);
  MPI_Datatype t, types[2] = {MPI_DOUBLE, MPI_INT};
  int lengths[2] = {3, 1};
  MPI_Aint at[2] = {0, 24};
  one->value[0] = me;
  MPI_Type_create_struct(2, lengths, at, types, &t); MPI_Type_commit(&t);
  MPI_Bcast(one, 1, t, 0, comm); /* BUG */
  MPI_Type_free(&t);
  free(one);"""),
    ("buffer-overrun", "rows_behind_the_block", 2, """
  double *rows = calloc(40, sizeof(double));
  MPI_Datatype t;
  int lengths[4] = {4, 4, 4, 4};
  MPI_Aint at[4];
  for (int i = 0; i < 4; i++) at[i] = i * <<20||10>> * sizeof(double);
  MPI_Type_create_hindexed(4, lengths, at, MPI_DOUBLE, &t); MPI_Type_commit(&t);
  MPI_Bcast(rows, 1, t, 0, comm); /* BUG */
  MPI_Type_free(&t);
  free(rows);"""),
    ("buffer-overrun", "window_heap", 2, """
  MPI_Win w;
  int *few = malloc(64);
  MPI_Win_create(few, <<640||64>>, sizeof(int), MPI_INFO_NULL, comm, &w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);
  free(few);"""),
    ("buffer-overrun", "window_stack", 2, """
  MPI_Win w;
  int few[16] = {0};
  MPI_Win_create(few, 16 * sizeof(<<double||int>>), sizeof(int), MPI_INFO_NULL, comm, &w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);"""),
    ("buffer-overrun", "get_into", 2, """
  MPI_Win w;
  int few[4] = {0}, more[4] = {0};
  (void)more;
  MPI_Win_create(big, 400, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_fence(0, w);
  MPI_Get(few, <<5||4>>, MPI_INT, right, 0, <<5||4>>, MPI_INT, w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);"""),
    ("buffer-overrun", "put_from", 2, """
  MPI_Win w;
  int *few = malloc(40);
  few[0] = 1;
  MPI_Win_create(big, 400, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_fence(0, w);
  MPI_Put(few, <<20||10>>, MPI_INT, right, 0, <<20||10>>, MPI_INT, w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);
  free(few);"""),
    ("buffer-overrun", "persistent", 2, """
  int few[4] = {0};
  if (me == 0) { MPI_Send_init(few, <<5||4>>, MPI_INT, 1, 1, comm, &r); /* BUG */
    MPI_Start(&r); MPI_Wait(&r, MPI_STATUS_IGNORE); MPI_Request_free(&r); }
  else MPI_Recv(a, 8, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);"""),
    ("buffer-overrun", "window_given_back", 2, """
  MPI_Win w;
  double *memory = malloc(4000);
  MPI_Win_create(memory, 4000, sizeof(double), MPI_INFO_NULL, comm, &w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_fence(0, w);
  <<free(memory);||>>
  MPI_Win_free(&w);
  <<||free(memory);>>"""),
    ("buffer-overrun", "window_given_back_mapped", 2, """
  MPI_Win w;
  double *memory = malloc(4194304);
  MPI_Win_create(memory, 4194304, sizeof(double), MPI_INFO_NULL, comm, &w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_fence(0, w);
  <<free(memory);||>>
  MPI_Win_free(&w);
  <<||free(memory);>>"""),
    ("type-mismatch", "double_as_float", 2, """
  static double x[10];
  static <<float||double>> y[10];
  if (me == 0) MPI_Send(x, 10, MPI_<<FLOAT||DOUBLE>>, 1, 1, comm); /* BUG */
  else MPI_Recv(y, 10, MPI_<<FLOAT||DOUBLE>>, 0, 1, comm, MPI_STATUS_IGNORE);"""),
    ("type-mismatch", "long_as_int", 2, """
  long x[4] = {0};
  MPI_Bcast(x, 4, MPI_<<INT||LONG>>, 0, comm); /* BUG */"""),
    ("type-mismatch", "heap_pointer", 2, """
  float *x = calloc(64, sizeof(float));
  MPI_Allreduce(MPI_IN_PLACE, x, 8, MPI_<<DOUBLE||FLOAT>>, MPI_SUM, comm); /* BUG */
  free(x);"""),
    ("type-mismatch", "struct_displacement", 2, """
  struct cell { int id; double value; } x = {0};
  MPI_Datatype t, types[2] = {MPI_INT, MPI_DOUBLE};
  int lengths[2] = {1, 1};
  MPI_Aint at[2] = {0, <<4||8>>};
  MPI_Type_create_struct(2, lengths, at, types, &t); MPI_Type_commit(&t);
  if (me == 0) MPI_Send(&x, 1, t, 1, 1, comm); /* BUG */
  else MPI_Recv(&x, 1, t, 0, 1, comm, MPI_STATUS_IGNORE);
  MPI_Type_free(&t);"""),
    ("type-mismatch", "struct_type", 2, """
  struct cell { int id; float weight; double value; } x[3] = {{0}};
  MPI_Datatype t, types[3] = {MPI_INT, <<MPI_INT||MPI_FLOAT>>, MPI_DOUBLE};
  int lengths[3] = {1, 1, 1};
  MPI_Aint at[3] = {0, 4, 8};
  MPI_Type_create_struct(3, lengths, at, types, &t); MPI_Type_commit(&t);
  MPI_Bcast(x, 3, t, 0, comm); /* BUG */
  MPI_Type_free(&t);"""),
    ("type-mismatch", "struct_extent", 2, """
  struct cell { double value; int id; } x[3] = {{0}};
  MPI_Datatype t, u, types[2] = {MPI_DOUBLE, MPI_INT};
  int lengths[2] = {1, 1};
  MPI_Aint at[2] = {0, 8};
  MPI_Type_create_struct(2, lengths, at, types, &t);
  MPI_Type_create_resized(t, 0, <<12||sizeof(struct cell)>>, &u); MPI_Type_commit(&u);
  MPI_Bcast(x, 3, u, 0, comm); /* BUG */
  MPI_Type_free(&t); MPI_Type_free(&u);"""),
]  # fmt: skip
