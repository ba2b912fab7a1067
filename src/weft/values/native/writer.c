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
static unsigned char
    *window; /* the newest part of the file, `window_size` bytes of it; what is before is the kernel's */
static uint64_t window_size, window_used;   /* `window_used`: where in the window the next byte goes */
static uint64_t file_size, appended;    /* of the file; bytes of records that were put */

/* Extend the trace file by reserving disk space, since storing into a hole of a full disk raises SIGBUS. Return false
 * if that fails or exceeds the limit on file sizes (ulimit -f), which would raise SIGXFSZ. */
static bool extend_file(uint64_t bytes) {
    struct rlimit limit;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && file_size + bytes > limit.rlim_cur)
        return false;
    int error;
    while ((error = posix_fallocate(file, (off_t)file_size, (off_t)bytes)) == EINTR) continue;
    if (!error) file_size += bytes;
    return !error;
}

/* Create a value trace that may hold `limit` bytes of records, and return its mapped header; NULL on failure. */
struct weft_values_header *weft_values_create(const char *path, uint64_t limit) {
    file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return NULL;
    void *page = extend_file(WEFT_VALUES_PAGE)
                     ? mmap(NULL, WEFT_VALUES_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
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

/* Stop the trace for good and store the reason in its header; only the first reason is kept. */
void weft_values_stop(int reason) {
    if (header->state == WEFT_VALUES_STOPPED) return;
    header->reason = (uint32_t)reason;
    header->state = WEFT_VALUES_STOPPED;
}

/* Map the next part of the trace file instead of the current one. Return false, and stop the trace, on failure. */
static bool slide_window(void) {
    uint64_t bytes = window_size ? window_size * 2 : FIRST;
    if (bytes > WINDOW) bytes = WINDOW;
    uint64_t offset = file_size;
    if (!extend_file(bytes)) {
        weft_values_stop(WEFT_REASON_DISK);
        return false;
    }
    if (window) munmap(window, window_size);
    window_size = window_used = 0;
    window = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);
    if (window == MAP_FAILED) {
        window = NULL;
        weft_values_stop(WEFT_REASON_MEMORY);
        return false;
    }
    window_size = bytes;
    return true;
}

/* Begin a record of so many bytes, to be added with weft_values_append(). Return false if the trace has stopped or is
 * full. */
bool weft_values_begin_record(uint64_t bytes) {
    if (header->state != WEFT_VALUES_RUNNING) return false;
    if (header->used + bytes > header->limit) weft_values_stop(WEFT_REASON_LIMIT);
    appended = header->used;
    return header->state == WEFT_VALUES_RUNNING;
}

/* Append bytes to the record begun with weft_values_begin_record(). */
void weft_values_append(const void *bytes, size_t count) {
    for (const unsigned char *next = bytes; count && header->state == WEFT_VALUES_RUNNING;) {
        if (window_used == window_size && !slide_window()) return;
        size_t part = count < window_size - window_used ? count : window_size - window_used;
        memcpy(window + window_used, next, part);
        window_used += part, next += part, appended += part, count -= part;
    }
}

/* Publish the record that was begun: from now on readers see it. */
void weft_values_end_record(void) {
    if (header->state == WEFT_VALUES_RUNNING) __atomic_store_n(&header->used, appended, __ATOMIC_RELEASE);
}

/* Mark the trace as ended and cut unused space off its file. */
void weft_values_close(void) {
    if (header->state == WEFT_VALUES_RUNNING) header->state = WEFT_VALUES_EXITED;
    if (ftruncate(file, (off_t)(WEFT_VALUES_PAGE + header->used))) return; /* a longer file is no worse */
}
