/* A farm that polls: the master tests its receives, workers probe for work. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
enum { TASKS = 6 };
int main(int argc, char **argv) {
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        MPI_Request requests[16];
        int values[16], next = 0, left = TASKS, polls = 0;
        for (int w = 1; w < size; w++) {
            MPI_Irecv(&values[w - 1], 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[w - 1]);
            MPI_Send(&next, 1, MPI_INT, w, 1, MPI_COMM_WORLD);
            next++;
        }
        while (left) {
            int count, which[16];
            MPI_Status statuses[16];
            MPI_Testsome(size - 1, requests, &count, which, statuses);
            if (count <= 0) { polls++; usleep(1000); continue; }
            for (int i = 0; i < count; i++) {
                sum = sum * 3 + values[which[i]];
                left--;
                int task = next < TASKS ? next++ : -1, to = statuses[i].MPI_SOURCE;
                if (task >= 0) MPI_Irecv(&values[which[i]], 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[which[i]]);
                MPI_Send(&task, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
            }
        }
        printf("sum %d\n", sum);
    } else {
        for (;;) {
            int flag = 0, task;
            while (!flag) { MPI_Iprobe(0, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE); if (!flag) usleep(500); }
            MPI_Recv(&task, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (task < 0) break;
            usleep(1000 * ((task * 7 + rank) % 5));
            int value = task * 10 + rank;
            MPI_Send(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
