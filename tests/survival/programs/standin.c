/* Stands in for an MPI that takes memory of a device: memory that the processor cannot touch, with the same bytes at another
 * address. What of the device's address faults, and how, is the mode. taking.inc is written by unreadable.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD_INSTALL = 102 };
char *device;
static char *host;
static size_t size;

/* Whether the kernel has such memory. */
int device_make(const char *mode, size_t bytes) {
    int fd = memfd_create("device", 0);
    size = bytes;
    host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!strcmp(mode, "cut")) {
        if (ftruncate(fd, (off_t)size)) return 0;
        device = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        return !ftruncate(fd, 0);
    }
    int may = strcmp(mode, "none") ? PROT_READ | PROT_WRITE : PROT_NONE;
    device = mmap(NULL, size, may, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!strcmp(mode, "guard")) return !madvise(device, size, GUARD_INSTALL);
    if (!strcmp(mode, "gone")) return !munmap(device, size);
    return 1;
}

char *device_host(void) { return host; }

static void *host_of(const void *p) {
    const char *at = p;
    return at >= device && at < device + size ? host + (at - device) : (void *)(size_t)p;
}

#define NEXT(name)                                                                                                     \
    static __typeof__(&P##name) next;                                                                                  \
    if (!next) next = (__typeof__(&P##name))dlsym(RTLD_NEXT, "P" #name);
#include "taking.inc"
