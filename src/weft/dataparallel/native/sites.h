/* The places of the program: which accesses of each pass without being judged. */
#ifndef WEFT_CHECK_SITES_H
#define WEFT_CHECK_SITES_H

#include "loops.h"
#include "owned.h"

struct detail;
enum mode {
    FREE,       /* not looked at */
    OWN,        /* a distributed element of this iteration */
    EDGE,       /* a shadow element that has been renewed */
    ACROSS,
    REMOTE,
    PRIVATE,
    SHARED,     /* any two iterations that touch it, one writing, are in conflict */
    REPLICATED, /* every processor has its copy: read only, or written first */
    HOST,       /* sequential part */
    BAD         /* every access is judged */
};

/* What a place of the program may access in this construct without being judged. A hook finds its site by its return
 * address; where the compiler's assembly was rewritten (weft.instrument.assembly, which knows these offsets), each place
 * has a site of its own.
 *
 *     0 key   8 home   16 low   24 reach   32 least   36 limit   40 floor   44 span   48 track   56 known   60 since;
 *     the rest is for judge_access() alone
 */
struct site {
    uintptr_t key;         /* the place while the site is open, else 0 */
    const uintptr_t *home; /* what `low` is relative to */
    uintptr_t low, reach;  /* an access at home+low .. home+low+reach */
    stamp_t least, limit;  /* reading: what was written at least..least+limit is right */
    stamp_t floor, span;   /* writing: judged where written - floor < span */
    unsigned char track, mode, write, size;
    bool closed;           /* every access is judged */
    unsigned char follows; /* dimension, from 1: by whole steps of it the interval may lie from `lowest` to `highest` */
    uint16_t context; /* what is wrong in the one may be right in another (owned.c) */
    stamp_t known; /* the limit of a site that is tracked */
    stamp_t since; /* what is older is judged: there are two copies */
    stamp_t fresh; /* shadow edges and remote buffers: when they were filled */
    uint32_t changed; /* weft_sites_changed, when it was opened or moved */
    struct object *object;
    uintptr_t place;
    uintptr_t length; /* reach + the access's size */
    union {
        struct {
            uintptr_t period, total; /* the same interval again every `period` bytes, below `total` */
        };
        struct { /* with a grid (block_sites.c) */
            uintptr_t lowest, highest;
        };
        struct { /* of a place whose accesses are wrong: where all are wrong in the same way */
            const uintptr_t *wrong_home;
            uintptr_t wrong_low;
        };
    };
    struct site *next; /* opened since the sites were forgotten; itself: the last one */
    uint64_t *wrong; /* counts them; NULL: each is judged. Stands as long as `known` is weft_sites_forgotten */
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct site) == 128 && offsetof(struct site, span) == 44 && offsetof(struct site, track) == 48 &&
                   offsetof(struct site, known) == 56 && offsetof(struct site, since) == 60,
               "weft.instrument.assembly knows these");

#define SITES 8192

extern struct site weft_sites[SITES];

/* Return whether an access has the same fault as the one that opened its site, so that it need only be counted. */
static inline bool has_same_fault(const struct site *site, uintptr_t address, size_t size, uintptr_t pc) {
    if (!site->wrong || site->known != weft_sites_forgotten || site->context != weft_context || site->place != pc)
        return false;
    uintptr_t from = address - *site->wrong_home - site->wrong_low;
    return site->size == size && from < site->length && from + size <= site->length;
}

bool find_variable_at(const struct private *list, int count, uintptr_t address, struct private **found_variable);
bool move_site_to_access(struct site *site, uintptr_t address, size_t size);
void open_site_for_access(struct site *site, struct detail *site_verdict, uintptr_t address, size_t size, bool is_write,
                          uintptr_t pc);

#endif
