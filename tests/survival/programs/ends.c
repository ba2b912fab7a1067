/* Ends as it is told, on rank 1 or alone. */
#include <assert.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile int zero;

static void gets_over(int number) {
    (void)number;
    siglongjmp(back, 1);
}

static void ends_itself(int number) {
    (void)number;
    _exit(42);
}

static void fault(void) {
    int *volatile nowhere = (int *)16;
    *nowhere = 1; /* the fault */
}

static int deeper(int n) {
    volatile char room[4096];
    room[0] = (char)n;
    return deeper(n + 1) + room[0];
}

static void *sleeps(void *argument) {
    for (;;) usleep(1000);
    return argument;
}

static void handled(void (*handler)(int)) {
    signal(SIGSEGV, handler);
    if (!sigsetjmp(back, 1)) fault();
}

static void end(const char *how, int rank) {
    if (!strcmp(how, "segv")) fault();
    if (!strcmp(how, "nowhere")) ((void (*volatile)(void))NULL)();
    if (!strcmp(how, "fpe")) printf("%d\n", (rank + 77) / zero);
    if (!strcmp(how, "assert")) assert(rank == 99);
    if (!strcmp(how, "exit")) exit(4);
    if (!strcmp(how, "at-once")) _exit(6);
    if (!strcmp(how, "overflow")) deeper(0);
    if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 9);
    if (!strcmp(how, "handler")) handled(ends_itself);
    if (!strcmp(how, "got-over")) handled(gets_over);
    if (!strcmp(how, "term")) kill(getpid(), SIGTERM);
    if (!strcmp(how, "over-exit")) {
        handled(gets_over);
        exit(3);
    }
    if (!strcmp(how, "threads")) {
        pthread_t thread;
        pthread_create(&thread, NULL, sleeps, NULL);
        usleep(20000);
        fault();
    }
    if (!strcmp(how, "child")) {
        int status = 0;
        if (!fork()) fault();
        wait(&status);
        printf("child %d\n", WTERMSIG(status));
    }
}

int main(int argc, char **argv) {
    const char *how = argv[1];
    int rank = 0, size = 0;
    if (!strcmp(how, "before")) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == size - 1) end(how, rank);
    if (!strcmp(how, "return")) return 5;
    for (volatile long i = 0; !strcmp(how, "loop"); i++) {}
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(how, "atexit")) return atexit((void (*)(void))MPI_Finalize);
    MPI_Finalize();
    if (!strcmp(how, "after")) MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
