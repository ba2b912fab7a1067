/* Two ranks that wait, each with a thread that does not call MPI: `threads MODE`. In the modes that begin with `late` that thread
 * sends after a while; in the others it waits for a thread that waits for the other rank. */
#include <mpi.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *mode;
static int rank, value = 1;
static int ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void receive(void) { MPI_Recv(&value, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }
static void send(void) { MPI_Send(&value, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD); }

static void *send_later(void *given)
{
    (void)given;
    if (!strcmp(mode, "late-compute")) {
        double until = omp_get_wtime() + 3;
        while (omp_get_wtime() < until)
            ;
    } else if (!strcmp(mode, "late-sleep")) {
        usleep(3000000);
    } else if (!strcmp(mode, "late-pipe")) {
        char byte;
        if (read(ends[0], &byte, 1) != 1)
            puts("closed");
    }
    send();
    return NULL;
}

static void *write_later(void *given)
{
    (void)given;
    usleep(3000000);
    if (write(ends[1], "x", 1) != 1)
        puts("closed");
    return NULL;
}

static void *wait_for_message(void *given)
{
    (void)given;
    receive();
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t other, writer;
    mode = argc > 1 ? argv[1] : "";
    if (pipe(ends))
        return 3;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strncmp(mode, "late", 4)) {
        if (!strcmp(mode, "late-pipe"))
            pthread_create(&writer, NULL, write_later, NULL);
        pthread_create(&other, NULL, send_later, NULL);
        receive();
        pthread_join(other, NULL);
        if (!strcmp(mode, "late-pipe"))
            pthread_join(writer, NULL);
    } else if (!strcmp(mode, "barrier")) {
#pragma omp parallel num_threads(2)
        {
            if (omp_get_thread_num() == 1)
                receive();
#pragma omp barrier
        }
        send();
    } else if (!strcmp(mode, "join")) {
        pthread_create(&other, NULL, wait_for_message, NULL);
        pthread_join(other, NULL);
        send();
    } else {
        pthread_create(&other, NULL, wait_for_message, NULL);
        pthread_mutex_lock(&mutex);
        pthread_cond_wait(&changed, &mutex); /* nobody signals */
        pthread_mutex_unlock(&mutex);
        send();
        pthread_join(other, NULL);
    }
    MPI_Finalize();
    puts("done");
    return 0;
}
