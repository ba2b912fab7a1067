/* A tool between the program and MPI: MPI_Get_accumulate brings its result when the next one is called, or at the flush. */
#include <mpi.h>
#include <string.h>

static int *result, bytes, value;

static void bring(void) {
    if (result) memset(result, ++value, (size_t)bytes);
    result = NULL;
}

int MPI_Get_accumulate(const void *origin, int n, MPI_Datatype type, void *got, int got_n, MPI_Datatype got_type,
                       int target, MPI_Aint place, int target_n, MPI_Datatype target_type, MPI_Op op, MPI_Win win) {
    (void)origin, (void)n, (void)type, (void)target, (void)place, (void)target_n, (void)target_type, (void)op,
        (void)win;
    bring();
    PMPI_Type_size(got_type, &bytes);
    bytes *= got_n;
    result = got;
    return MPI_SUCCESS;
}

int MPI_Win_flush(int target, MPI_Win win) {
    bring();
    return PMPI_Win_flush(target, win);
}
