/* A program's own log of the MPI calls that it makes, in a mapped file, so that what it wrote before a SIGKILL stays.
 *
 *   0      8       16      24          24 + 12 i
 *   | pid  | begun | ended | entry 0 | ... | entry i |
 *
 * A call is begun when its entry is written, ended when it has returned; both counters rise by one store each.
 */
#ifndef LOG_H
#define LOG_H
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LOG_ENTRIES = 1 << 20 };

struct log_entry {
    int32_t tag;    /* -1: the call has none */
    int32_t source; /* that a wildcard receive got, written at its end; else -1 */
    uint16_t call;  /* enum log_call */
    uint16_t unused;
};

struct log_file {
    volatile uint64_t pid, begun, ended;
    volatile struct log_entry entries[LOG_ENTRIES];
};

/* The order of survival.log.CALLS */
enum log_call {
    Init, Comm_rank, Comm_size, Send, Recv, Isend, Irecv, Wait, Waitall, Sendrecv, Iprobe, Allreduce, Barrier, Comm_dup,
    Comm_free, Type_contiguous, Type_commit, Type_free, Abort, Finalize, Bcast, Gatherv
};

static struct log_file *logged;

static void log_open(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/c-%d.log", folder, (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (fd < 0 || ftruncate(fd, sizeof(struct log_file))) exit(90);
    logged = mmap(NULL, sizeof(struct log_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (logged == MAP_FAILED) exit(91);
    close(fd);
    logged->pid = (uint64_t)getpid();
}

static void log_begin(enum log_call call, int tag) {
    uint64_t i = logged->begun;
    if (i == LOG_ENTRIES) for (;;) pause(); /* full: wait for the kill */
    logged->entries[i].tag = tag;
    logged->entries[i].source = -1;
    logged->entries[i].call = (uint16_t)call;
    logged->begun = i + 1;
}

static void log_end(void) { logged->ended = logged->ended + 1; }

static void log_end_source(int source) {
    logged->entries[logged->ended].source = source;
    log_end();
}

#define LOGGED(call, tag, arguments) (log_begin(call, tag), MPI_##call arguments, log_end())
#endif
