#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FIRST = 1 << 16, WINDOW = 1 << 23 };

static struct weft_values_header *header;
static int file = -1;
static unsigned char *window; /* the newest part of the file, `mapped` bytes of it; what is before is the kernel's */
static uint64_t mapped, at;   /* `at`: where in the window the next byte goes */
static uint64_t size, put;    /* of the file; bytes of records that were put */

/* Takes bytes at the file's end on the disk as well: a store into a hole of a full disk would be a SIGBUS. A limit
 * (ulimit -f) is asked for first, as to go beyond it is a SIGXFSZ. */
static bool extend(uint64_t bytes) {
    struct rlimit most;
    if (!getrlimit(RLIMIT_FSIZE, &most) && most.rlim_cur != RLIM_INFINITY && size + bytes > most.rlim_cur) return false;
    int error;
    while ((error = posix_fallocate(file, (off_t)size, (off_t)bytes)) == EINTR) continue;
    if (!error) size += bytes;
    return !error;
}

struct weft_values_header *weft_values_create(const char *path, uint64_t limit) {
    file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return NULL;
    void *page = extend(WEFT_VALUES_PAGE) ? mmap(NULL, WEFT_VALUES_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                                          : MAP_FAILED;
    if (page == MAP_FAILED) {
        unlink(path);
        close(file);
        return NULL;
    }
    header = page;
    header->major = WEFT_VALUES_MAJOR;
    header->minor = WEFT_VALUES_MINOR;
    header->pid = (uint32_t)getpid();
    header->limit = limit;
    gethostname(header->host, sizeof header->host - 1);
    memcpy(header->magic, WEFT_VALUES_MAGIC, sizeof header->magic); /* last: a header with a magic is whole */
    return header;
}

void weft_values_stop(int reason) {
    if (header->state == WEFT_VALUES_STOPPED) return;
    header->reason = (uint32_t)reason;
    header->state = WEFT_VALUES_STOPPED;
}

/* The window goes on to the next bytes of the file. */
static bool slide(void) {
    uint64_t bytes = mapped ? mapped * 2 : FIRST;
    if (bytes > WINDOW) bytes = WINDOW;
    uint64_t from = size;
    if (!extend(bytes)) {
        weft_values_stop(WEFT_REASON_DISK);
        return false;
    }
    if (window) munmap(window, mapped);
    mapped = at = 0;
    window = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)from);
    if (window == MAP_FAILED) {
        window = NULL;
        weft_values_stop(WEFT_REASON_MEMORY);
        return false;
    }
    mapped = bytes;
    return true;
}

bool weft_values_room(uint64_t bytes) {
    if (header->state != WEFT_VALUES_RUNNING) return false;
    if (header->used + bytes > header->limit) weft_values_stop(WEFT_REASON_LIMIT);
    put = header->used;
    return header->state == WEFT_VALUES_RUNNING;
}

void weft_values_put(const void *bytes, size_t n) {
    for (const unsigned char *from = bytes; n && header->state == WEFT_VALUES_RUNNING;) {
        if (at == mapped && !slide()) return;
        size_t some = n < mapped - at ? n : mapped - at;
        memcpy(window + at, from, some);
        at += some, from += some, put += some, n -= some;
    }
}

void weft_values_whole(void) {
    if (header->state == WEFT_VALUES_RUNNING) __atomic_store_n(&header->used, put, __ATOMIC_RELEASE);
}

void weft_values_close(void) {
    if (header->state == WEFT_VALUES_RUNNING) header->state = WEFT_VALUES_EXITED;
    if (ftruncate(file, (off_t)(WEFT_VALUES_PAGE + header->used))) return; /* a longer file is no worse */
}
