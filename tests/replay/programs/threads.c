/* MPI_THREAD_MULTIPLE: two threads of rank 0 receive from any source. Prints what each got, in order. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int share;
struct log { int n; char text[8192]; };

static void *receive(void *data) {
    struct log *log = data;
    for (int i = 0; i < share; i++) {
        int value;
        MPI_Status status;
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status);
        log->n += snprintf(log->text + log->n, sizeof log->text - (size_t)log->n, "%d.%d ", status.MPI_SOURCE, value);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int rank, size, provided, each = argc > 1 ? atoi(argv[1]) : 40;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        static struct log logs[2];
        pthread_t threads[2];
        share = each * (size - 1) / 2;
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, receive, &logs[i]);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
        printf("%s| %s\n", logs[0].text, logs[1].text);
    } else
        for (int i = 0; i < each; i++) {
            if (i % 4 == 0) usleep((useconds_t)(getpid() * 13 + i * 331) % 400);
            MPI_Send(&i, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
        }
    MPI_Finalize();
    return 0;
}
