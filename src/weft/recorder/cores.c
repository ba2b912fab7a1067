/* How many cores the process may run on: where ranks outnumber them, waiting is partly the scheduler's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"

enum { MOST = 4096, LISTED = 1024 };

/* Read a file of at most `size` - 1 bytes as text; return false if it cannot be read. */
static bool read_small_file(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    if (length < 0) return false;
    text[length] = 0;
    return true;
}

/* Return a limit of processor time as thousandths of a core: `quota period` in microseconds as cpu.max has it; 0 for no
 * limit (`max period`). */
static uint64_t parse_cpu_quota(const char *text) {
    unsigned long long quota, period;
    return sscanf(text, "%llu %llu", &quota, &period) == 2 && period ? quota * 1000 / period : 0;
}

/* Return the tightest limit of processor time of the process's control group (version 2) and those above it, in
 * thousandths of a core; 0 for none. */
static uint64_t find_cpu_quota(void) {
    char text[PATH_MAX], path[PATH_MAX + 32], value[64];
    uint64_t least = 0;
    if (!read_small_file("/proc/self/cgroup", text, sizeof text)) return 0;
    char *group = strncmp(text, "0::", 3) ? strstr(text, "\n0::") : text;
    if (!group) return 0;
    group = strchr(group, ':') + 2;
    group[strcspn(group, "\n")] = 0;
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        uint64_t limit = read_small_file(path, value, sizeof value) ? parse_cpu_quota(value) : 0;
        if (limit && (!least || limit < least)) least = limit;
        char *last = strrchr(group, '/');
        if (!last) return least;
        *last = 0;
    }
}

/* Write into the record which cores the process may run on, and its limit of processor time. */
void weft_record_processors(void) {
    static cpu_set_t allowed[MOST / CPU_SETSIZE];
    if (sched_getaffinity(0, sizeof allowed, allowed)) return;
    char words[LISTED];
    size_t length = 0;
    for (int first = 0; first < MOST && length < LISTED - 24; first++) {
        if (!CPU_ISSET_S(first, sizeof allowed, allowed)) continue;
        int last = first;
        while (last + 1 < MOST && CPU_ISSET_S(last + 1, sizeof allowed, allowed)) last++;
        length += (size_t)snprintf(words + length, LISTED - length, last > first ? "%s%d-%d" : "%s%d",
                                   length ? "," : "", first, last);
        first = last;
    }
    if (!length) return;
    uint8_t payload[LISTED + 32];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_bytes(&text, words, length);
    weft_write_unsigned(&text, find_cpu_quota());
    weft_write_definition(WEFT_DEF_CORES, payload, (size_t)(text.p - payload));
}
