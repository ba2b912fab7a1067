/* Looking at memory that may not be there: memory of a GPU, guards, pages that another thread has given back, files cut
 * short. The kernel copies, and says what it could not. */
#define _GNU_SOURCE
#include "peek.h"

#include <string.h>

#include "own_memory.h"

enum { PAGES_AT_ONCE = 64 };
static const char unreadable[] = "the contents of buffers that the recorder cannot read (memory of a GPU, or freed "
                                 "memory): Weft neither finds writes to them while MPI uses them, nor hashes their "
                                 "messages";
static const char forbidden[] =
    "the contents of buffers and the hashes of messages, because the kernel does not let a process read its own memory "
    "(process_vm_readv, /proc/self/mem)";

/* Copy pieces of memory that may not be there, one after the other, to `to`. Return the bytes copied up to the first
 * that cannot be read; -1 if the kernel does not let a process read its own memory. */
ssize_t weft_copy_readable_pieces(void *to, const struct iovec *pieces, int n) {
    return weft_read_own_memory(to, pieces, n);
}

/* Copy `bytes` bytes that may not be there, by the kernel; return whether all were read. */
bool weft_copy_if_readable(void *to, uintptr_t from, size_t bytes) {
    struct iovec there = {.iov_base = (void *)from, .iov_len = bytes};
    return from && weft_copy_readable_pieces(to, &there, 1) == (ssize_t)bytes;
}

/* Copy bytes of a buffer: directly from this thread's stack, by the kernel from elsewhere. Return whether they were
 * read; else the record says once that some were not. */
bool weft_copy_buffer(void *to, const void *from, size_t bytes) {
    if (weft_is_on_own_stack(from, bytes)) {
        memcpy(to, from, bytes);
        return true;
    }
    if (weft_copy_if_readable(to, (uintptr_t)from, bytes)) return true;
    weft_note_unreadable_buffer();
    return false;
}

/* Return whether every page of a buffer can be read. */
bool weft_is_readable(const void *from, size_t bytes) {
    char byte[PAGES_AT_ONCE];
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (uintptr_t)from + bytes;
    for (uintptr_t address = (uintptr_t)from; address < end;) {
        struct iovec pieces[PAGES_AT_ONCE];
        int n = 0;
        for (; n < PAGES_AT_ONCE && address < end; address = (address | (page - 1)) + 1)
            pieces[n++] = (struct iovec){.iov_base = (void *)address, .iov_len = 1};
        if (weft_copy_readable_pieces(byte, pieces, n) != n) return false;
    }
    return true;
}

/* Write bytes into a buffer that may not be there, by the kernel. */
void weft_write_buffer(void *to, const void *from, size_t bytes) {
    struct iovec here = {.iov_base = (void *)(uintptr_t)from, .iov_len = bytes},
                 there = {.iov_base = to, .iov_len = bytes};
    ssize_t put = process_vm_writev(getpid(), &here, 1, &there, 1, 0);
    if (put < 0 && errno != EFAULT) memcpy(to, from, bytes); /* forbidden; MPI has just written there itself */
    else if (put != (ssize_t)bytes) weft_note_unreadable_buffer();
}

/* Note in the record, once, that there is memory which the recorder cannot read, and why. */
void weft_note_unreadable_buffer(void) {
    static bool is_noted;
    char byte;
    if (__atomic_exchange_n(&is_noted, true, __ATOMIC_RELAXED)) return;
    const char *words = weft_copy_if_readable(&byte, (uintptr_t)unreadable, 1) ? unreadable : forbidden;
    uint8_t payload[sizeof unreadable + sizeof forbidden];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_bytes(&text, words, strlen(words));
    weft_write_definition(WEFT_DEF_NOTE, payload, (size_t)(text.p - payload));
}
