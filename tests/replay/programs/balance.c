/* A dynamic load balancer: every rank has work, asks others for more when it has none, and looks for requests by
 * Iprobe while it works. Prints who worked on what, in which order. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASK = 1, GIVE = 2, DONE = 3 };

int main(int argc, char **argv) {
    int rank, size, tasks = argc > 1 ? atoi(argv[1]) : 30;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = rank == 0 ? tasks : 0, worked = 0, asked = 0, stopped = 0;
    unsigned trail = 0, polls = 0;
    while (stopped < size) {
        int flag, count, give;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        if (flag) {
            int source = status.MPI_SOURCE;
            trail = trail * 131 + (unsigned)(source * 7 + status.MPI_TAG);
            MPI_Recv(&count, 1, MPI_INT, source, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (status.MPI_TAG == ASK) {
                give = left / 2;
                left -= give;
                MPI_Send(&give, 1, MPI_INT, source, GIVE, MPI_COMM_WORLD);
            } else if (status.MPI_TAG == GIVE) {
                left += count;
                asked = count ? 0 : 2;
            } else stopped++;
        } else polls++;
        if (left > 0) {
            usleep((useconds_t)(getpid() * 31 + left * 977) % 300);
            left--;
            worked++;
        } else if (asked == 0 && rank != 0) {
            int nothing = 0;
            MPI_Send(&nothing, 1, MPI_INT, 0, ASK, MPI_COMM_WORLD);
            asked = 1;
        } else if ((asked == 2 || rank == 0) && asked != 3) {
            for (int r = 0; r < size; r++) MPI_Send(&worked, 1, MPI_INT, r, DONE, MPI_COMM_WORLD);
            asked = 3;
        }
    }
    unsigned mine[3] = {trail, polls, (unsigned)worked}, all[3 * 64];
    MPI_Gather(mine, 3, MPI_UNSIGNED, all, 3, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < 3 * size; i++) printf("%u%c", all[i], i + 1 < 3 * size ? ' ' : '\n');
    MPI_Finalize();
    return 0;
}
