/* Two ranks spawn: commands and arguments are given at the root alone, and are as long as the standard asks, no longer.
 * `at_the_root one` by MPI_Comm_spawn, `many` by MPI_Comm_spawn_multiple; spawned processes have no arguments. */
#include <mpi.h>
#include <string.h>

enum { WORLDS = 2 };
static char *const nowhere = (char *)33; /* what is not significant need be no address */

int main(int argc, char **argv)
{
    int rank, each[WORLDS] = {1, 1};
    char *commands[WORLDS + 1] = {argv[0], argv[0], nowhere}, *none[] = {NULL};
    char **vectors[WORLDS + 1] = {none, none, (char **)nowhere};
    MPI_Info infos[WORLDS] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm children, parent;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        children = parent;
    else if (argc > 1 && !strcmp(argv[1], "many"))
        MPI_Comm_spawn_multiple(WORLDS, rank ? (char **)nowhere : commands, rank ? (char ***)nowhere : vectors, each, infos,
                                0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    else
        MPI_Comm_spawn(rank ? nowhere : argv[0], rank ? (char **)nowhere : none, WORLDS, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                       &children, MPI_ERRCODES_IGNORE);
    MPI_Barrier(children); /* MPICH fails where a process ends before all others have met it */
    MPI_Comm_disconnect(&children);
    MPI_Finalize();
    return 0;
}
