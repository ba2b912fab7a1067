/* Reads this process's own memory by the kernel, which says how much of it is there: nothing faults. The recorder and the
 * probes' library each have a copy. */
#ifndef WEFT_OWN_MEMORY_H
#define WEFT_OWN_MEMORY_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Return whether the program may read the page of an address. The kernel copies the set of signals before it looks at
 * the request, which is none, so that nothing changes. */
static inline bool weft_is_page_readable(uintptr_t address) {
    return !syscall(SYS_rt_sigprocmask, -1, address & ~(uintptr_t)7, NULL, 8) || errno != EFAULT;
}

/* Copy pieces of memory to `to` from the file of the process's own memory, which containers leave it that forbid
 * process_vm_readv. The file is opened once. Pages that the program may not read are left out. Return the bytes copied
 * before the first that is not there; -1 where the file cannot be opened. */
static ssize_t weft_read_own_file(char *to, const struct iovec *pieces, int n) {
    static int descriptor = -2;
    int known = __atomic_load_n(&descriptor, __ATOMIC_ACQUIRE);
    if (known == -2) {
        int opened = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
        if (__atomic_compare_exchange_n(&descriptor, &known, opened, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            known = opened;
        else if (opened >= 0) close(opened); /* another thread was first */
    }
    if (known < 0) return -1;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    ssize_t got = 0;
    for (int i = 0; i < n; i++) {
        uintptr_t address = (uintptr_t)pieces[i].iov_base, end = address + pieces[i].iov_len;
        for (; address < end; address = (address | (page - 1)) + 1)
            if (!weft_is_page_readable(address)) return got;
        ssize_t more = pread(known, to + got, pieces[i].iov_len, (off_t)(uintptr_t)pieces[i].iov_base);
        if (more > 0) got += more;
        if (more != (ssize_t)pieces[i].iov_len) break;
    }
    return got;
}

/* Copy pieces of memory, one behind the other, to `to`. Return the bytes copied before the first that is not there; -1
 * where the kernel lets a process read its own memory in neither way. */
static inline ssize_t weft_read_own_memory(void *to, const struct iovec *pieces, int n) {
    struct iovec here = {.iov_base = to};
    for (int i = 0; i < n; i++) here.iov_len += pieces[i].iov_len;
    ssize_t got;
    do got = process_vm_readv(getpid(), &here, 1, pieces, (unsigned long)n, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno != EFAULT) return weft_read_own_file(to, pieces, n);
    return got < 0 ? 0 : got;
}
#endif
