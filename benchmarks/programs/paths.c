/* 100,000 paths to one call of MPI, in a process of MAPPINGS mappings, with a buffer on the stack, static, of the heap, or in the
 * middle of a block with a mapping of its own: WHERE MAPPINGS. Prints ns of processor time a call of the first pass and of the second. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { PATHS = 100000, DEPTH = 6 };
static int fixed[64], *given;

static void go(unsigned path) {
    int own[1] = {(int)path}, from = 1;
    MPI_Allreduce(&from, given ? given : own, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
}

#define WAY(n) __attribute__((noinline)) static void way##n(unsigned path, int depth)
#define NEXT(n)                                                                                                        \
    case n: way##n(path >> 3, depth - 1); break;
#define BODY(n)                                                                                                        \
    WAY(n) {                                                                                                           \
        if (!depth) go(path);                                                                                          \
        else                                                                                                           \
            switch (path & 7) { NEXT(0) NEXT(1) NEXT(2) NEXT(3) NEXT(4) NEXT(5) NEXT(6) NEXT(7) }                      \
        __asm__ volatile("");                                                                                          \
    }
WAY(0);
WAY(1);
WAY(2);
WAY(3);
WAY(4);
WAY(5);
WAY(6);
WAY(7);
BODY(0)
BODY(1)
BODY(2)
BODY(3)
BODY(4)
BODY(5)
BODY(6)
BODY(7)

int main(int argc, char **argv) {
    const char *where = argc > 1 ? argv[1] : "stack";
    int mappings = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 3000; i++) given = malloc(40 + (size_t)i % 700);
    if (*where == 'm') given = (int *)malloc(1 << 20) + 1000;
    if (*where == 'f') given = fixed;
    if (*where == 's') given = NULL;
    for (int i = 0; i < mappings; i++)
        mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int pass = 0; pass < 2; pass++) {
        clock_t since = clock();
        for (unsigned path = 0; path < PATHS; path++) way0(path, DEPTH);
        printf("%.0f\n", (double)(clock() - since) / CLOCKS_PER_SEC * 1e9 / PATHS);
    }
    MPI_Finalize();
    return 0;
}
