/* Loads and stores of window memory: run as `windows right` all of them are ordered, as `windows wrong` the two lines with
 * RACE and one name race. A second argument is the one case to run. Two ranks. */
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 64 };
static int rank, wrong;
static double *base, here[N], sum;
static MPI_Win win;

static void make(void)
{
    MPI_Win_allocate(N * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    for (int i = 0; i < N; i++)
        base[i] = i;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void put(int at)
{
    MPI_Put(here, 1, MPI_DOUBLE, 0, at, 1, MPI_DOUBLE, win); /* RACE lock */
}

static void stored_in_the_epoch_of_a_put(void)
{
    make();
    MPI_Win_fence(0, win);
    if (rank == 0)
        base[wrong ? 3 : 4] = 1; /* RACE fence_store */
    else
        MPI_Put(here, 1, MPI_DOUBLE, 0, 3, 1, MPI_DOUBLE, win); /* RACE fence_store */
    MPI_Win_fence(0, win);
    if (rank == 0)
        base[3] = 2;
    MPI_Win_free(&win);
}

static void loaded_in_the_epoch_of_a_put(void)
{
    make();
    MPI_Win_fence(0, win);
    if (rank == 1)
        MPI_Put(here, N / 2, MPI_DOUBLE, 0, 0, N / 2, MPI_DOUBLE, win); /* RACE fence_load */
    else if (wrong)
        memcpy(here, base + N / 2 - 2, 4 * sizeof *base); /* RACE fence_load */
    else
        memcpy(here, base + N / 2, 4 * sizeof *base);
    MPI_Win_fence(0, win);
    sum += base[0];
    MPI_Win_free(&win);
}

static void stored_in_the_epoch_of_a_get(void)
{
    make();
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    if (rank == 1)
        MPI_Get(here, 2, MPI_DOUBLE, 0, 5, 2, MPI_DOUBLE, win); /* RACE fence_get */
    else
        sum += base[5];
    if (rank == 0 && wrong)
        base[6] = 1; /* RACE fence_get */
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    base[6] = 1;
    MPI_Win_free(&win);
}

static void stored_in_the_epoch_of_an_accumulate(void)
{
    make();
    MPI_Win_fence(0, win);
    if (rank == 1)
        MPI_Accumulate(here, 1, MPI_DOUBLE, 0, 7, 1, MPI_DOUBLE, MPI_SUM, win); /* RACE accumulate */
    else if (wrong)
        base[7] += 1; /* RACE accumulate */
    MPI_Win_fence(0, win);
    base[7] += 1;
    MPI_Win_free(&win);
}

static void stored_between_post_and_wait(void)
{
    MPI_Group all, other;
    int peer = 1 - rank;
    make();
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &peer, &other);
    if (rank == 0) {
        base[8] = 0;
        MPI_Win_post(other, 0, win);
        if (wrong)
            base[8] = 1; /* RACE pscw */
        MPI_Win_wait(win);
        base[8] = 2;
    } else {
        MPI_Win_start(other, 0, win);
        MPI_Put(here, 1, MPI_DOUBLE, 0, 8, 1, MPI_DOUBLE, win); /* RACE pscw */
        MPI_Win_complete(win);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&other);
    MPI_Win_free(&win);
}

static void loaded_without_waiting_for_the_flush(void)
{
    make();
    MPI_Win_lock_all(0, win);
    if (rank == 1) {
        MPI_Put(here, 1, MPI_DOUBLE, 0, 9, 1, MPI_DOUBLE, win); /* RACE flush */
        MPI_Win_flush(0, win);
    } else if (wrong)
        sum += base[9]; /* RACE flush */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    sum += base[9];
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void flushed_too_late(void)
{
    MPI_Request r;
    make();
    MPI_Win_lock_all(0, win);
    if (rank == 1) {
        MPI_Rput(here, 1, MPI_DOUBLE, 0, 10, 1, MPI_DOUBLE, win, &r); /* RACE rput */
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (!wrong)
            MPI_Win_flush(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        sum += base[10]; /* RACE rput */
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void locked_by_one_only(void)
{
    make();
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        put(11); /* the call itself stands in a function */
        MPI_Win_unlock(0, win);
    } else {
        if (!wrong)
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        sum += base[11]; /* RACE lock */
        if (!wrong)
            MPI_Win_unlock(0, win);
    }
    MPI_Win_free(&win);
}

static void told_by_a_message(void)
{
    make();
    MPI_Win_lock_all(0, win);
    if (rank == 1) {
        MPI_Recv(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Put(here, 1, MPI_DOUBLE, 0, 12, 1, MPI_DOUBLE, win); /* RACE message */
        MPI_Win_flush(0, win);
        MPI_Send(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD);
    } else {
        base[12] = 5;
        MPI_Send(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD);
        if (wrong)
            base[12] = 6; /* RACE message */
        MPI_Recv(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += base[12];
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void its_own_put(void)
{
    make();
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    MPI_Put(here, 1, MPI_DOUBLE, rank, 13, 1, MPI_DOUBLE, win); /* RACE own */
    if (wrong)
        sum += base[13]; /* RACE own */
    MPI_Win_flush(rank, win);
    sum += base[13];
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
}

static void polled(void)
{
    make();
    MPI_Win_lock_all(0, win);
    if (rank == 1) {
        put(20);
        MPI_Win_flush(0, win);
        MPI_Accumulate(here, 1, MPI_DOUBLE, 0, 21, 1, MPI_DOUBLE, MPI_REPLACE, win);
        MPI_Win_flush(0, win);
    } else {
        while (base[21] == 21) {
            MPI_Win_sync(win);
            MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &(int){0}, MPI_STATUS_IGNORE);
        }
        sum += base[20];
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* A lock of atomic operations in a window of its own, which orders what the record cannot know. */
static void locked_by_hand(void)
{
    MPI_Win lock;
    long *held, mine = 1, free_ = 0, was;
    make();
    MPI_Win_allocate(sizeof *held, sizeof *held, MPI_INFO_NULL, MPI_COMM_WORLD, &held, &lock);
    *held = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    MPI_Win_lock_all(0, lock);
    do {
        MPI_Compare_and_swap(&mine, &free_, &was, MPI_LONG, 0, 0, lock);
        MPI_Win_flush(0, lock);
    } while (was);
    if (rank == 0)
        base[30] += 1;
    else {
        put(30);
        MPI_Win_flush(0, win);
    }
    MPI_Compare_and_swap(&free_, &mine, &was, MPI_LONG, 0, 0, lock);
    MPI_Win_unlock_all(lock);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&lock);
    MPI_Win_free(&win);
}

/* One rank waits by fetching the other's flag, again and again, for data that lies in its own window. */
static void waited_for_by_gets(void)
{
    double flag = 1, none = 0;
    make();
    MPI_Win_lock_all(0, win);
    if (rank == 1) {
        put(40);
        MPI_Win_flush(0, win);
        here[0] = -100;
        MPI_Accumulate(here, 1, MPI_DOUBLE, 1, 41, 1, MPI_DOUBLE, MPI_SUM, win);
        MPI_Win_flush(1, win);
    } else {
        for (int i = 0; i < 3 || flag > 0; i++) {
            MPI_Fetch_and_op(&none, &flag, MPI_DOUBLE, 1, 41, MPI_SUM, win);
            MPI_Win_flush(1, win);
        }
        sum += base[40];
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void every_other_element(void)
{
    MPI_Win_create(here, sizeof here, sizeof *here, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    double value = 1;
    MPI_Win_fence(0, win);
    if (rank == 1)
        MPI_Put(&value, 1, MPI_DOUBLE, 0, 31, 1, MPI_DOUBLE, win); /* RACE strided */
    else
        for (int i = wrong; i < N; i += 2)
            here[i] = i; /* RACE strided */
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void put_as_a_column(void)
{
    MPI_Datatype column;
    double values[3] = {1, 2, 3};
    MPI_Type_vector(3, 1, 8, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Win_create(here, sizeof here, sizeof *here, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    if (rank == 1)
        MPI_Put(values, 3, MPI_DOUBLE, 0, 2, 1, column, win); /* RACE column */
    else
        for (int i = 11; i < (wrong ? 20 : 18); i++)
            sum += here[i]; /* RACE column */
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Type_free(&column);
}

static void attached(void)
{
    static double block[N];
    MPI_Aint at = 0;
    MPI_Get_address(&block[5], &at);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, block, sizeof block);
    MPI_Bcast(&at, 1, MPI_AINT, 0, MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
    if (rank == 1)
        MPI_Put(here, 1, MPI_DOUBLE, 0, at, 1, MPI_DOUBLE, win); /* RACE dynamic */
    else
        block[wrong ? 5 : 6] = 3; /* RACE dynamic */
    MPI_Win_fence(0, win);
    MPI_Win_detach(win, block);
    block[5] = 4;
    MPI_Win_free(&win);
}

static void in_a_shared_window(void)
{
    double *mine, *first;
    MPI_Aint size;
    int unit;
    MPI_Win_allocate_shared(N * sizeof *mine, sizeof *mine, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    MPI_Win_shared_query(win, 0, &size, &unit, &first);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    if (rank == 0)
        mine[2] = 1; /* RACE shared */
    MPI_Win_sync(win);
    if (!wrong)
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    if (rank == 1)
        sum += first[2]; /* RACE shared */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void a_flag_in_a_shared_window(void)
{
    double *mine, *first;
    MPI_Aint size;
    int unit;
    MPI_Win_allocate_shared(N * sizeof *mine, sizeof *mine, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    MPI_Win_shared_query(win, 0, &size, &unit, &first);
    memset(mine, 0, N * sizeof *mine);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        mine[1] = 3;
        atomic_store((_Atomic long *)&mine[0], 1);
    } else {
        while (!atomic_load((_Atomic long *)&first[0]))
            MPI_Win_sync(win);
        sum += first[1];
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static MPI_Win guard;

/* A lock alone orders nothing: who has it first is chance. The word that is read under it does. */
static void take(void)
{
    int taken = 0, one = 1;
    do {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, guard);
        if (!wrong) {
            MPI_Get(&taken, 1, MPI_INT, 0, 0, 1, MPI_INT, guard);
            MPI_Win_flush(0, guard);
        }
        if (!taken)
            MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, guard);
        MPI_Win_unlock(0, guard);
    } while (taken);
}

static void give(void)
{
    int zero = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, guard);
    MPI_Put(&zero, 1, MPI_INT, 0, 0, 1, MPI_INT, guard);
    MPI_Win_unlock(0, guard);
}

static void behind_a_word_under_locks(void)
{
    int *word;
    make();
    MPI_Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &guard);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, guard);
    *word = 0;
    MPI_Win_unlock(rank, guard);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 3; i++) {
        take();
        if (rank == 0) {
            MPI_Win_sync(win);
            base[3] = i; /* RACE guarded */
            MPI_Win_sync(win);
        } else {
            MPI_Put(here, 1, MPI_DOUBLE, 0, 3, 1, MPI_DOUBLE, win); /* RACE guarded */
            MPI_Win_flush(0, win);
        }
        give();
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&guard);
    MPI_Win_free(&win);
}

static const struct { const char *name; void (*run)(void); } cases[] = {
#define CASE(name) {#name, name}
    CASE(stored_in_the_epoch_of_a_put), CASE(loaded_in_the_epoch_of_a_put), CASE(stored_in_the_epoch_of_a_get),
    CASE(stored_in_the_epoch_of_an_accumulate), CASE(stored_between_post_and_wait),
    CASE(loaded_without_waiting_for_the_flush), CASE(flushed_too_late), CASE(locked_by_one_only), CASE(told_by_a_message),
    CASE(its_own_put), CASE(every_other_element), CASE(put_as_a_column), CASE(attached), CASE(in_a_shared_window),
    CASE(behind_a_word_under_locks), CASE(a_flag_in_a_shared_window), CASE(polled), CASE(waited_for_by_gets), CASE(locked_by_hand),
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    wrong = argc > 1 && !strcmp(argv[1], "wrong");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc > 2 && strcmp(argv[2], cases[i].name))
            continue;
        for (int k = 0; k < N; k++)
            here[k] = 100 + k;
        cases[i].run();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (sum == -1)
        puts("never");
    MPI_Finalize();
    return 0;
}
