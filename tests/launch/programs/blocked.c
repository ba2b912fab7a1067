/* Opens a named pipe that nobody writes: a standstill inside MPI that the record cannot prove to be for ever. */
#include <mpi.h>

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_Finalize();
    return 0;
}
