/* Master and workers: pool TASKS STEPS. Rank 0 gives a task to whoever asks (MPI_ANY_SOURCE); a task is STEPS steps of
 * arithmetic. Alone, the process is master and worker by turns. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "processor_time.h"

enum { RESULT = 1, TASK = 2 };
static int steps;

static double work(int task) {
    double x = 1.0 + task;
    for (int i = 0; i < steps; i++) x = x * 0.999999 + 1.0 / x;
    return x;
}

static double alone(int tasks) {
    double sum = 0, result, done;
    for (int given = 0; given < tasks; given++) {
        MPI_Request request;
        MPI_Status status;
        done = work(given);
        MPI_Isend(&done, 1, MPI_DOUBLE, 0, RESULT, MPI_COMM_WORLD, &request);
        MPI_Recv(&result, 1, MPI_DOUBLE, MPI_ANY_SOURCE, RESULT, MPI_COMM_WORLD, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        sum += result;
    }
    return sum;
}

static double master(int tasks, int workers) {
    double sum = 0, result;
    for (int given = 0, stopped = 0; stopped < workers; given++) {
        MPI_Status status;
        int task = given < tasks ? given : -1;
        MPI_Recv(&result, 1, MPI_DOUBLE, MPI_ANY_SOURCE, RESULT, MPI_COMM_WORLD, &status);
        MPI_Send(&task, 1, MPI_INT, status.MPI_SOURCE, TASK, MPI_COMM_WORLD);
        sum += result;
        stopped += task < 0;
    }
    return sum;
}

static void worker(void) {
    double result = 0;
    int task = 0;
    while (task >= 0) {
        MPI_Send(&result, 1, MPI_DOUBLE, 0, RESULT, MPI_COMM_WORLD);
        MPI_Recv(&task, 1, MPI_INT, 0, TASK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (task >= 0) result = work(task);
    }
}

int main(int argc, char **argv) {
    int rank, size;
    double sum = 0;
    steps = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size == 1) sum = alone(atoi(argv[1]));
    else if (rank == 0) sum = master(atoi(argv[1]), size - 1);
    else worker();
    print_processor_time(rank, size);
    MPI_Finalize();
    return sum < 0;
}
