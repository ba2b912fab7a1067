/* A buffer in a mapping that begins with a guard which /proc/self/maps does not show, as threads' stacks have one since
 * glibc 2.42. With `thread`, a real one. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { GUARD_INSTALL = 102, PAGE = 4096 };

static void exchange(int *x, int *y) {
    MPI_Request q[2];
    MPI_Irecv(y, 4, MPI_INT, 0, 3, MPI_COMM_SELF, &q[0]);
    MPI_Isend(x, 4, MPI_INT, 0, 3, MPI_COMM_SELF, &q[1]);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
}

static void *work(void *unused) {
    int x[4] = {1, 2, 3, 4}, y[4];
    exchange(x, y);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (argc > 1 && !strcmp(argv[1], "thread")) {
        pthread_create(&thread, NULL, work, NULL);
        pthread_join(thread, NULL);
    } else {
        char *area = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (madvise(area, PAGE, GUARD_INSTALL)) puts("no guards");
        else exchange((int *)(area + 3 * PAGE), (int *)(area + 4 * PAGE));
        munmap(area, 16 * PAGE);
    }
    MPI_Finalize();
    puts("whole");
    return 0;
}
