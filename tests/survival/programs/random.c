/* A random program: SEED says what all ranks do, step by step; what came is folded into a number that each prints.
 *
 * Built with standin.c, which brings memory of a device, and given the path of a part that it opens with dlopen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1 << 16, STEPS = 24, DEVICE = 4 * MOST * 4 };
extern char *device;
int device_make(const char *mode, size_t bytes);
char *device_host(void);

static uint64_t state, sum;
static int rank, size;
static bool has_device;
static const char *part;
static int given[MOST * 2], taken[MOST * 2];

static uint64_t next(uint64_t *from) {
    *from += 0x9e3779b97f4a7c15u;
    uint64_t x = *from;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}
static int pick(int n) { return (int)(next(&state) % (unsigned)n); }

static void fold(const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) sum = (sum ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
}

/* ---- memory of many kinds ---- */
struct area {
    int kind, *at, *seen; /* `seen`: where the processor finds what is at `at` */
    size_t bytes;
};

static struct area make(int n, int place) {
    struct area a = {.kind = pick(has_device ? 5 : 4), .bytes = ((size_t)n * 8 + 4095) / 4096 * 4096};
    if (a.kind == 0) a.at = malloc(a.bytes);
    if (a.kind == 1) a.at = place ? taken : given;
    if (a.kind == 2) a.at = mmap(NULL, a.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a.kind == 3) { /* with pages before and behind it that nobody may touch */
        char *all = mmap(NULL, a.bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(all + 4096, a.bytes, PROT_READ | PROT_WRITE);
        a.at = (int *)(all + 4096);
    }
    if (a.kind == 4) {
        a.at = (int *)(device + place * DEVICE / 2);
        a.seen = (int *)(device_host() + place * DEVICE / 2);
    } else a.seen = a.at;
    for (int i = 0; i < 2 * n; i++) a.seen[i] = (int)(sum >> 7) + i * (rank + 1);
    return a;
}

static void drop(struct area *a) {
    if (a->kind == 0) free(a->at);
    if (a->kind == 2) munmap(a->at, a->bytes);
    if (a->kind == 3) munmap((char *)a->at - 4096, a->bytes + 8192);
}

/* A type of one int in two, or plain; `n` of them lie in 2n ints. */
static MPI_Datatype type_of(int *n, bool *made) {
    MPI_Datatype inner, type = MPI_INT;
    int how = pick(5), lengths[2] = {1, 1}, k = *n / 4 + 1;
    MPI_Aint places[2] = {0, 8};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    *made = how != 0;
    if (how == 1) MPI_Type_vector(k, 1, 2, MPI_INT, &type);
    if (how == 2) MPI_Type_create_struct(2, lengths, places, types, &type);
    if (how == 3) {
        MPI_Type_create_resized(MPI_INT, 0, 8, &inner);
        MPI_Type_contiguous(k, inner, &type);
        MPI_Type_free(&inner);
    }
    if (how == 4) MPI_Type_create_hindexed_block(2, 1, places, MPI_INT, &type);
    if (how) MPI_Type_commit(&type), *n = 1;
    return type;
}

/* ---- steps ---- */
static void exchange(void) {
    int n = 1 + pick(pick(2) ? MOST / 2 : 64), count = n, how = pick(5), left = (rank + size - 1) % size,
        right = (rank + 1) % size;
    bool is_made;
    struct area out = make(n, 0), in = make(n, 1);
    MPI_Datatype type = type_of(&count, &is_made);
    MPI_Request q[2];
    if (how == 0)
        MPI_Sendrecv(out.at, count, type, right, 1, in.at, count, type, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (how == 1 || how == 2) {
        MPI_Irecv(in.at, count, type, how == 1 ? left : MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &q[0]);
        MPI_Isend(out.at, count, type, right, 2, MPI_COMM_WORLD, &q[1]);
        MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    }
    if (how == 3) {
        MPI_Recv_init(in.at, count, type, left, 3, MPI_COMM_WORLD, &q[0]);
        MPI_Send_init(out.at, count, type, right, 3, MPI_COMM_WORLD, &q[1]);
        for (int i = 0; i < 3; i++) {
            MPI_Startall(2, q);
            for (int done = 0; !done;) MPI_Testall(2, q, &done, MPI_STATUSES_IGNORE);
        }
        MPI_Request_free(&q[0]);
        MPI_Request_free(&q[1]);
    }
    if (how == 4) {
        MPI_Message message;
        MPI_Isend(out.at, count, type, right, 4, MPI_COMM_WORLD, &q[0]);
        MPI_Mprobe(left, 4, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(in.at, count, type, &message, MPI_STATUS_IGNORE);
        MPI_Wait(&q[0], MPI_STATUS_IGNORE);
    }
    fold(in.seen, (size_t)n * 8);
    if (is_made) MPI_Type_free(&type);
    drop(&out);
    drop(&in);
}

static void together(void) {
    int n = 1 + pick(MOST / 16), how = pick(6), counts[8], places[8];
    struct area out = make(n * size, 0), in = make(n * size, 1);
    MPI_Request q = MPI_REQUEST_NULL;
    for (int i = 0; i < size; i++) counts[i] = n, places[i] = i * n;
    if (how == 0) MPI_Allreduce(out.at, in.at, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (how == 1) MPI_Iallreduce(out.at, in.at, n, MPI_INT, MPI_BXOR, MPI_COMM_WORLD, &q);
    if (how == 2) MPI_Bcast(in.at, n, MPI_INT, pick(size), MPI_COMM_WORLD);
    if (how == 3) MPI_Alltoallv(out.at, counts, places, MPI_INT, in.at, counts, places, MPI_INT, MPI_COMM_WORLD);
    if (how == 4) MPI_Igather(out.at, n, MPI_INT, in.at, n, MPI_INT, 0, MPI_COMM_WORLD, &q);
    if (how == 5) MPI_Exscan(out.at, in.at, n, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    fold(in.seen, (size_t)n * size * 4);
    drop(&out);
    drop(&in);
}

static void one_sided(void) {
    int n = 1 + pick(256), how = pick(3), right = (rank + 1) % size, one = rank + 1, before = 0, *base;
    MPI_Win window;
    struct area out = make(n, 0);
    MPI_Win_allocate(n * 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    memset(base, 0, (size_t)n * 4);
    MPI_Win_fence(0, window);
    if (how == 0) MPI_Put(out.at, n, MPI_INT, right, 0, n, MPI_INT, window);
    if (how == 1) MPI_Accumulate(out.at, n, MPI_INT, 0, 0, n, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    if (how == 2) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        MPI_Win_unlock(0, window);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    fold(base, (size_t)n * 4);
    MPI_Win_unlock(rank, window);
    MPI_Win_free(&window);
    drop(&out);
}

static volatile int over;

static void *map_and_unmap(void *unused) {
    while (!over) {
        char *area = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        area[0] = area[(1 << 20) - 1] = 1;
        munmap(area, 1 << 20);
    }
    return unused;
}

static void *speak(void *number) {
    int tag = *(int *)number, out[64], *in = calloc(64, sizeof *in);
    MPI_Request q;
    for (int i = 0; i < 64; i++) out[i] = i * tag;
    for (int i = 0; i < 8; i++) {
        MPI_Irecv(in, 64, MPI_INT, 0, tag, MPI_COMM_SELF, &q);
        MPI_Send(out, 64, MPI_INT, 0, tag, MPI_COMM_SELF);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
    }
    *(int *)number = in[63];
    free(in);
    return NULL;
}

static void threads(void) {
    pthread_t thread[4], mapper;
    int n = 1 + pick(4), numbers[4];
    over = 0;
    pthread_create(&mapper, NULL, map_and_unmap, NULL);
    for (int i = 0; i < n; i++) numbers[i] = 10 + i, pthread_create(&thread[i], NULL, speak, &numbers[i]);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    exchange();
    over = 1;
    pthread_join(mapper, NULL);
    fold(numbers, (size_t)n * sizeof *numbers);
}

static void open_part(void) {
    static const int flags[] = {RTLD_LOCAL, RTLD_GLOBAL, RTLD_DEEPBIND};
    void *handle = dlopen(part, RTLD_NOW | flags[pick(3)]);
    void (*work)(void) = handle ? (void (*)(void))dlsym(handle, "work_") : NULL;
    if (!work) printf("no part: %s\n", dlerror());
    else work();
    if (handle && pick(2)) dlclose(handle);
}

static void beget(void) {
    int status = 0, wanted = pick(100);
    pid_t child = fork();
    if (!child) _exit(wanted);
    waitpid(child, &status, 0);
    fold(&status, sizeof status);
}

static void communicators(void) {
    MPI_Comm comm, other;
    int all = 0, seen = 0;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
    MPI_Comm_dup(comm, &other);
    MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, other);
    MPI_Comm_rank(other, &seen);
    all += 100 * seen;
    fold(&all, sizeof all);
    MPI_Comm_free(&other);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    static void (*const steps[])(void) = {exchange, exchange,  together, one_sided,
                                          threads,  open_part, beget,    communicators};
    static const char *const modes[] = {"none", "cut"};
    int provided;
    state = strtoull(argv[1], NULL, 10);
    part = argv[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    has_device = device_make(modes[pick(2)], DEVICE);
    for (int i = 0, n = 1 + pick(STEPS); i < n; i++) steps[pick(sizeof steps / sizeof *steps)]();
    printf("%d: %016lx\n", rank, (unsigned long)sum);
    fflush(stdout);
    int status = pick(3) ? 0 : 1 + pick(100), how = pick(3);
    MPI_Finalize();
    if (how == 0) _exit(status);
    if (how == 1) exit(status);
    return status;
}
