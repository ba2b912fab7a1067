/* What is decided at the target of a window: windows MODE ROUNDS. Each rank prints what it got.
 *
 * counter: MPI_Fetch_and_op hands out ROUNDS tasks. requested: likewise, by MPI_Rget_accumulate and MPI_Wait.
 * spin: MPI_Compare_and_swap takes a lock, MPI_Accumulate gives it back; what it guards is read and written.
 * lock: MPI_Win_lock guards it. fence: each rank fetches between fences. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static MPI_Win win;
static int rank, size, rounds;
static char said[1 << 16];

static void say(unsigned long value) { sprintf(said + strlen(said), " %lu", value); }

static void pause_a_little(int round) {
    usleep((useconds_t)((getpid() * 7919 + round * 104729) % 300));
}

static long fetch(long add, int place, int requested) {
    long got = -1;
    if (requested) {
        MPI_Request request;
        MPI_Rget_accumulate(&add, 1, MPI_LONG, &got, 1, MPI_LONG, 0, place, 1, MPI_LONG, MPI_SUM, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Fetch_and_op(&add, &got, MPI_LONG, 0, place, MPI_SUM, win);
        MPI_Win_flush(0, win);
    }
    return got;
}

static void counter(int requested) {
    MPI_Win_lock_all(0, win);
    for (long task; (task = fetch(1, 0, requested)) < rounds;) {
        say(task);
        pause_a_little((int)task);
    }
    MPI_Win_unlock_all(win);
}

/* Three numbers behind the lock: how many were here, who was last, and a sum that depends on the order. */
static void guarded(void) {
    long seen[3];
    MPI_Get(seen, 3, MPI_LONG, 0, 1, 3, MPI_LONG, win);
    MPI_Win_flush(0, win);
    say(seen[0]);
    say(seen[1]);
    if (seen[0] % 2) pause_a_little((int)seen[0]);
    seen[0]++;
    seen[1] = rank;
    seen[2] = seen[2] * 3 + rank;
    MPI_Put(seen, 3, MPI_LONG, 0, 1, 3, MPI_LONG, win);
    MPI_Win_flush(0, win);
}

static void spin(void) {
    long one = rank + 1, none = 0, was;
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < rounds; round++) {
        unsigned long tries = 0, owners = 0;
        do {
            MPI_Compare_and_swap(&one, &none, &was, MPI_LONG, 0, 0, win);
            MPI_Win_flush(0, win);
            tries++;
            owners = owners * 3 + (unsigned long)was;
            if (was) usleep(20);
        } while (was);
        say(tries);
        say(owners);
        guarded();
        MPI_Accumulate(&none, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_REPLACE, win);
        MPI_Win_flush(0, win);
        pause_a_little(round);
    }
    MPI_Win_unlock_all(win);
}

static void lock(void) {
    for (int round = 0; round < rounds; round++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        guarded();
        MPI_Win_unlock(0, win);
        pause_a_little(round);
    }
}

static void fence(void) {
    for (int round = 0; round < rounds; round++) {
        long add = rank + 1, got = -1;
        MPI_Win_fence(0, win);
        MPI_Fetch_and_op(&add, &got, MPI_LONG, 0, 0, MPI_SUM, win);
        MPI_Win_fence(0, win);
        say(got);
    }
}

int main(int argc, char **argv) {
    long *memory;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rounds = atoi(argv[2]);
    MPI_Win_allocate(rank ? 0 : 4 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (rank == 0) memset(memory, 0, 4 * sizeof(long));
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(argv[1], "counter")) counter(0);
    else if (!strcmp(argv[1], "requested")) counter(1);
    else if (!strcmp(argv[1], "spin")) spin();
    else if (!strcmp(argv[1], "lock")) lock();
    else fence();
    MPI_Barrier(MPI_COMM_WORLD);
    for (int r = 0; r < size; r++) { /* rank 0 prints for all, as launchers mix lines */
        if (rank == r && r) MPI_Send(said, (int)strlen(said) + 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        if (rank == 0 && r) MPI_Recv(said, sizeof said, MPI_CHAR, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0) printf("%d:%s\n", r, said);
    }
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    if (rank == 0) printf("left: %ld %ld %ld %ld\n", memory[0], memory[1], memory[2], memory[3]);
    MPI_Win_unlock(0, win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
