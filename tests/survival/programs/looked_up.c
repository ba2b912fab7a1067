/* Looks the functions of MPI up by itself: MPI's library, then what MPI_COMM_WORLD is. With a third word it never initialises MPI. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *mpi = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!mpi) return 3;
    int (*begin)(int *, char ***) = (int (*)(int *, char ***))dlsym(mpi, "MPI_Init");
    int (*finish)(void) = (int (*)(void))dlsym(mpi, "MPI_Finalize");
    if (argc == 2) begin(NULL, NULL), finish();
    puts("whole");
    return 0;
}
