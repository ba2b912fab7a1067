/* Neighbours exchange their borders and send what they have to rank 0, which takes it from whoever comes first. The
 * environment may ask for random delays (WEFT_TEST_DELAYS=SEED), and for the CPU time that each rank had used at the
 * start of each step (WEFT_TEST_CPU=FILE, a double for each rank and step). */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CELLS = 2000 };
static unsigned long chance;

static void delay(void) {
    if (!chance) return;
    chance = chance * 6364136223846793005ul + 1442695040888963407ul;
    if (chance >> 62 == 0) usleep((useconds_t)(chance >> 40) % 3000);
}

int main(int argc, char **argv) {
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 60, sweeps = argc > 2 ? atoi(argv[2]) : 10;
    static double cells[CELLS + 2], next[CELLS + 2];
    const char *delays = getenv("WEFT_TEST_DELAYS"), *file = getenv("WEFT_TEST_CPU");
    int log = file ? open(file, O_WRONLY | O_CREAT, 0600) : -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (delays) chance = strtoul(delays, NULL, 10) * 1000003ul + (unsigned long)rank + 1;
    int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    for (int i = 0; i < CELLS + 2; i++) cells[i] = rank + i * 1e-3;
    double seen = 0;
    for (int step = 0; step < steps; step++) {
        if (log >= 0) {
            struct timespec used;
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
            double seconds = (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
            if (pwrite(log, &seconds, sizeof seconds, ((off_t)rank * steps + step) * (off_t)sizeof seconds) < 0) return 3;
        }
        delay();
        MPI_Sendrecv(&cells[CELLS], 1, MPI_DOUBLE, right, 1, &cells[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        delay();
        MPI_Sendrecv(&cells[1], 1, MPI_DOUBLE, left, 2, &cells[CELLS + 1], 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int sweep = 0; sweep < sweeps; sweep++) {
            for (int i = 1; i <= CELLS; i++) next[i] = 0.5 * cells[i] + 0.25 * (cells[i - 1] + cells[i + 1]);
            for (int i = 1; i <= CELLS; i++) cells[i] = next[i];
        }
        delay();
        if (rank) MPI_Send(&cells[CELLS / 2], 1, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD);
        for (int i = 1; rank == 0 && i < size; i++) {
            double value;
            MPI_Recv(&value, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            seen = seen * 0.9 + value;
        }
    }
    if (rank == 0) printf("%a\n", seen);
    MPI_Finalize();
    return 0;
}
