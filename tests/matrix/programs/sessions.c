/* MPI without MPI_Init: a session, its process set, a communicator made from it. */
#include "log.h"

int main(void) {
#ifndef MPI_SESSION_NULL
    return 77;
#else
    int sets = 0, rank = 0, size = 0, sum = 0;
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    log_open();
    log_meanings();
    CALL(MPI_Session_init, MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    CALL(MPI_Session_get_num_psets, session, MPI_INFO_NULL, &sets);
    CALL(MPI_Group_from_session_pset, session, "mpi://WORLD", &group);
    CALL(MPI_Comm_create_from_group, group, "org.example.matrix", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    CALL(MPI_Group_free, &group);
    CALL(MPI_Comm_rank, comm, &rank);
    CALL(MPI_Comm_size, comm, &size);
    CALL(MPI_Allreduce, &rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    CALL(MPI_Comm_free, &comm);
    CALL(MPI_Session_finalize, &session);
    return sum == size * (size - 1) / 2 ? 0 : 1;
#endif
}
