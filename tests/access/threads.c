/* Threads of a rank that use one window: run as `threads right` or `threads wrong`. Two ranks, two threads.
 *
 * In the wrong run the second thread does not wait for the first; the clock alone keeps them apart. */
#include <mpi.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int rank, wrong, seven = 7, got, *memory;
static MPI_Win win;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_ready;

static void put(int target, int at)
{
    MPI_Put(&seven, 1, MPI_INT, target, at, 1, MPI_INT, win);
    MPI_Win_flush(target, win);
}

static void a_barrier(void)
{
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0)
            put(0, 0);
        if (!wrong) {
#pragma omp barrier
        }
        if (omp_get_thread_num() == 1) {
            usleep(60000);
            memory[0] = 1; /* BUG */
        }
    }
}

static void a_store_before(void)
{
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 1)
            memory[1] = 1; /* BUG */
        if (!wrong) {
#pragma omp barrier
        }
        if (omp_get_thread_num() == 0) {
            usleep(60000);
            put(0, 1);
        }
    }
}

static void two_constructs(void)
{
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0)
            put(0, 2);
    }
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 1)
            memory[2] = 1;
    }
}

static void a_lock(void)
{
    static omp_lock_t lock;
    omp_init_lock(&lock);
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            if (!wrong)
                omp_set_lock(&lock);
            put(0, 3);
            if (!wrong)
                omp_unset_lock(&lock);
        } else {
            usleep(60000);
            if (!wrong)
                omp_set_lock(&lock);
            memory[3] = 1; /* BUG */
            if (!wrong)
                omp_unset_lock(&lock);
        }
    }
}

static void *put_and_tell(void *given)
{
    (void)given;
    put(0, 4);
    if (!wrong) {
        pthread_mutex_lock(&mutex);
        is_ready = 1;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&mutex);
    }
    usleep(120000);
    return NULL;
}

static void a_condition_variable(void)
{
    pthread_t other;
    pthread_create(&other, NULL, put_and_tell, NULL);
    if (!wrong) {
        pthread_mutex_lock(&mutex);
        while (!is_ready)
            pthread_cond_wait(&changed, &mutex);
        pthread_mutex_unlock(&mutex);
    } else
        usleep(60000);
    memory[4] = 1; /* BUG */
    pthread_join(other, NULL);
    memory[4] = 2;
}

/* Of what one thread did, its own next call tells other ranks; another thread's only if it waited for it. */
static void a_message(void)
{
    if (rank == 0) {
#pragma omp parallel num_threads(2)
        {
            if (omp_get_thread_num() == 1)
                memory[5] = 1; /* BUG */
            if (!wrong) {
#pragma omp barrier
            }
            if (omp_get_thread_num() == 0) {
                usleep(60000);
                MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD);
            }
        }
    } else {
        MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Get(&got, 1, MPI_INT, 0, 5, 1, MPI_INT, win);
        MPI_Win_flush(0, win);
    }
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE)
        return MPI_Finalize(), 0;
    wrong = argc > 1 && !strcmp(argv[1], "wrong");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(8 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        a_barrier();
        a_store_before();
        two_constructs();
        a_lock();
        a_condition_variable();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    a_message();
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("%d\n", memory[0] + got);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
