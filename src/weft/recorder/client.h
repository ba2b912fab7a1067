/* What a program that was built with `weft cc` and the recorder know of each other.
 *
 * Each executable and each shared library has a client of its own (hooks.c), which it announces when it is loaded. Where
 * there is no recorder, nobody answers: `pages` stays 0, and every hook looks at one byte of it.
 */
#ifndef WEFT_ACCESS_CLIENT_H
#define WEFT_ACCESS_CLIENT_H

#include <stddef.h>
#include <stdint.h>

/* Rises with every change of this struct and of what hooks do. `version` and `weft` stay where they are, so that a client of
 * any version can say which Weft built it; those of versions 1 and 2 cannot. */
enum { WEFT_CLIENT_VERSION = 5, WEFT_CLIENT_NAMED = 3 };

/* What an access is, as enum weft_touch_kind of format.h; an update of an atomic variable is READ | WRITE | ATOMIC. FREE: the
 * program gives the memory back that begins there. */
enum { WEFT_HOOK_READ = 1, WEFT_HOOK_WRITE = 2, WEFT_HOOK_ATOMIC = 4, WEFT_HOOK_VOLATILE = 8, WEFT_HOOK_FREE = 128 };

/* What a thread of the program does for the order of threads: it lets go of what it did before (RELEASE), takes over what
 * others let go (ACQUIRE), or both ways of others are unknown from here on (UNKNOWN). BEGIN: it was made by a call that
 * hooks saw; CREATE: it makes a thread that will not say so; FORK: it wants to know the moment. */
enum {
    WEFT_HOOK_RELEASE = 1,
    WEFT_HOOK_ACQUIRE = 2,
    WEFT_HOOK_UNKNOWN = 4,
    WEFT_HOOK_BEGIN = 8,
    WEFT_HOOK_CREATE = 16,
    WEFT_HOOK_FORK = 32
};

/* Which memory is of interest now: whether writes (bit 1), and reads too (bit 0), are, of each page that holds any, and in
 * that by small pieces for what is short and by large ones for what is long. Ranges are held against the addresses that
 * all of it lies between. Different memory may have one entry: these tables only save questions.
 *
 * A page is 4 KiB and its entry bits 12 to 31 of the address, for these are two instructions of the program's code. */
enum { WEFT_PAGE_SHIFT = 12, WEFT_PAGES = 1 << 20, WEFT_PAGE_READS = 1, WEFT_PAGE_WRITES = 2 };
enum { WEFT_FINE_SHIFT = 8, WEFT_FINE = 1 << 16, WEFT_COARSE_SHIFT = 16, WEFT_COARSE = 1 << 14 };

struct weft_client {
    uint32_t version;
    const char *weft; /* the version of the Weft that built it: "0.1.0" */
    volatile uint8_t *pages; /* WEFT_PAGES of them: hooks in the program's code look there themselves */
    volatile uintptr_t *low, *span;
    const volatile uint8_t *fine, *coarse;
    void (*touched)(uintptr_t address, size_t bytes, unsigned kind, uintptr_t place);
    /* NULL: nobody wants to know. `moment`: what the thread takes over had been let go by then, 0: by now. For FORK
     * the result is such a moment: now. */
    uint64_t (*synchronised)(unsigned kinds, uint64_t moment);
    struct weft_client *next; /* the recorder's */
};

#endif
