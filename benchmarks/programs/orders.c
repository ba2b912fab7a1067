/* Programs whose result depends on the order of messages, to be explored:
 *   orders    each rank sends rank 0 a message; in one order of all, it then waits for one that nobody sends
 *   tasks     rank 0 deals six tasks to whoever has answered; where one worker answers all, it waits in vain
 *   pipeline  two sources send three messages each to a stage, which hands them on in the order in which they came
 *   crooked   the crooked barrier of ISP (Vakkalanka et al., CAV 2008): a receive that is posted before a barrier may
 *             take the message that is sent behind it; then rank 1 waits for one that nobody sends */
#include <mpi.h>
#include <string.h>

static int rank, size, value;
static MPI_Status status;

static int any(int tag) {
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
    return status.MPI_SOURCE;
}

static void in_vain(int source) { MPI_Recv(&value, 1, MPI_INT, source, 99, MPI_COMM_WORLD, &status); }

static void orders(void) {
    int falling = 1;
    if (rank) {
        MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        return;
    }
    for (int i = 1; i < size; i++) falling &= any(1) == size - i;
    if (falling) in_vain(1);
}

static void tasks(void) {
    enum { TASKS = 6, TASK = 1, ANSWER = 2, END = 3 };
    int given = 0, same = 1, first = 0;
    if (rank) {
        for (;;) {
            MPI_Recv(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            if (status.MPI_TAG == END) return;
            MPI_Send(&value, 1, MPI_INT, 0, ANSWER, MPI_COMM_WORLD);
        }
    }
    for (int worker = 1; worker < size; worker++, given++) MPI_Send(&given, 1, MPI_INT, worker, TASK, MPI_COMM_WORLD);
    for (int answered = 0; answered < TASKS; answered++) {
        int worker = any(ANSWER);
        if (answered == 0) first = worker;
        if (answered < 4) same &= worker == first;
        if (given < TASKS) MPI_Send(&given, 1, MPI_INT, worker, TASK, MPI_COMM_WORLD), given++;
    }
    for (int worker = 1; worker < size; worker++) MPI_Send(&given, 1, MPI_INT, worker, END, MPI_COMM_WORLD);
    if (same && first == size - 1) in_vain(1);
}

static void pipeline(void) {
    enum { MESSAGES = 3 };
    int came[2 * MESSAGES], last = size - 1;
    if (rank < 2)
        for (int i = 0; i < MESSAGES; i++) MPI_Send(&rank, 1, MPI_INT, 2, 1, MPI_COMM_WORLD);
    for (int i = 0; rank >= 2 && i < 2 * MESSAGES; i++) {
        came[i] = rank == 2 ? any(1) : 0;
        if (rank > 2) MPI_Recv(&came[i], 1, MPI_INT, rank - 1, 1, MPI_COMM_WORLD, &status);
        if (rank < last) MPI_Send(&came[i], 1, MPI_INT, rank + 1, 1, MPI_COMM_WORLD);
    }
    if (rank == last && came[0] && came[1] && came[2]) in_vain(0);
}

static void crooked(void) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0) MPI_Isend(&rank, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    if (rank == 1) MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2) MPI_Isend(&rank, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    if (rank == 1 && status.MPI_SOURCE == 2) in_vain(0);
    if (rank == 1) any(1);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *what = argc > 1 ? argv[1] : "orders";
    if (strcmp(what, "orders") == 0) orders();
    if (strcmp(what, "tasks") == 0) tasks();
    if (strcmp(what, "pipeline") == 0) pipeline();
    if (strcmp(what, "crooked") == 0) crooked();
    MPI_Finalize();
    return 0;
}
