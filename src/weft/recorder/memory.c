/* The memory behind buffers: how far the heap's block that holds one goes, and where the frames of a way to a call end.
 *
 * Looked at when a call comes a way that it has not come before, never on the hot path. Which variable lies where is
 * looked up after the run (weft.sources.variables); what is an overrun, the analysis says.
 *
 * Blocks are those of glibc's malloc. Its heap is chunks one behind the other, each headed by its size, so a walk from
 * the heap's first byte to the buffer meets the block that holds it, or something that is no chunk, and then nothing is
 * told. A thread that found the heap busy has an arena of its own, in heaps that begin at multiples of ARENA:
 *
 *      arena, heap before, bytes ... | the arena, in its first heap | chunks
 *
 *      chunk          block                                next chunk
 *      |  8  |  size  | what malloc returned ...    |  8  |  size  |
 *                     ^ low                               ^ high      bit 0 of the next size: this one is in use
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "endings.h"

enum {
    IN_USE = 1,
    MAPPED = 2,
    OTHER_ARENA = 4,
    SIZE_BITS = 7,
    HEAD = 16, /* bytes of a chunk before its block */
    LEAST = 32, /* the smallest chunk */
    PAGE = 4096,
    ARENA = 64 << 20, /* glibc's HEAP_MAX_SIZE */
    ARENA_HEAD = 48, /* sizeof(heap_info); 32 before glibc 2.35 */
    STATE_LEAST = 1 << 10, /* sizeof(struct malloc_state), that glibc changes now and then, lies between these */
    STATE_MOST = 1 << 12,
    SAMPLE = 1000, /* bytes of a block by which it is seen whether this malloc keeps its blocks so */
    /* What looking may cost, in steps of some 10 ns, such as one chunk of a walk: 10 ms, and a hundredth of the time since. */
    STEPS = 1 << 20,
    LOOK = 170, /* a look through the kernel, and each page of it */
    LOOK_PAGE = 50,
    LINE = 60, /* a line of /proc/self/maps */
    NS_OF_A_STEP = 1000, /* of run time that give one */
    REGIONS = 1 << 12, /* mappings that are known at once */
    WINDOWS = 64, /* windows in blocks of the heap that are watched at once */
    MET = WEFT_BUFFERS_MET,
};

struct region {
    uintptr_t start, end;
    bool anonymous, heap, writable;
    bool bare; /* no block of malloc's begins it */
};

volatile int weft_attention;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t heap_start;
static int64_t steps = STEPS;
static struct region regions[REGIONS];
static int region_count;

static const char *(*libc_version)(void);

/* ---- words of memory that may not be there ----
 *
 * A page that maps call writable may be a guard (MADV_GUARD_INSTALL, as glibc 2.42 has them at the head of threads'
 * stacks), and another thread may give memory back meanwhile: the kernel reads, all that is left of a page at once. */
enum { VIEW = 16 * PAGE };
static struct view {
    uintptr_t start, end;
    size_t bytes; /* that are read next: more where heads lie close to each other */
    uint8_t copy[VIEW];
} view;

/* Copies the memory around an address, for heads of blocks to be read in; false if it cannot be read. */
static bool view_move(uintptr_t at) {
    view.bytes = at == view.end && view.start ? view.bytes * 2 : PAGE;
    if (view.bytes > VIEW) view.bytes = VIEW;
    for (; view.bytes; view.bytes = view.bytes > PAGE ? PAGE : 0) {
        uintptr_t end = (at & ~(uintptr_t)(PAGE - 1)) + view.bytes;
        view.start = view.end = 0;
        steps -= LOOK + LOOK_PAGE * (int64_t)(view.bytes / PAGE);
        if (!weft_copy_if_readable(view.copy, at, end - at)) continue;
        view.start = at;
        view.end = end;
        return true;
    }
    return false;
}

/* Two words at a multiple of HEAD bytes: the head of a chunk. Under the lock. */
static bool head_at(uintptr_t at, size_t head[2]) {
    if (at % HEAD || ((at < view.start || at >= view.end) && !view_move(at))) return false;
    memcpy(head, view.copy + (at - view.start), HEAD);
    return true;
}

/* One line of /proc/self/maps. */
static bool region_of_line(const char *line, struct region *r) {
    unsigned long start, end, inode;
    int length = 0;
    char may[5];
    if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu %n", &start, &end, may, &inode, &length) < 4) return false;
    *r = (struct region){.start = start,
                         .end = end,
                         .anonymous = !inode && !line[length],
                         .heap = !strcmp(line + length, "[heap]"),
                         .writable = may[0] == 'r' && may[1] == 'w'};
    return true;
}

/* Reads the mappings anew. */
static void regions_read(void) {
    static char text[1 << 14];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t have = 0;
    region_count = 0;
    if (fd < 0) return;
    for (ssize_t got; (got = read(fd, text + have, sizeof text - 1 - have)) > 0;) {
        have += (size_t)got;
        text[have] = 0;
        char *line = text, *end;
        for (; (end = strchr(line, '\n')); line = end + 1, steps -= LINE) {
            *end = 0;
            struct region *r = &regions[region_count];
            if (region_count == REGIONS || !region_of_line(line, r)) continue;
            if (r->heap && !heap_start) heap_start = r->start;
            region_count++;
        }
        have = (size_t)(text + have - line);
        if (have >= sizeof text - 1) break;
        memmove(text, line, have);
    }
    close(fd);
}

/* Returns the mapping that holds an address, as read last; NULL for none. */
static struct region *region_known(uintptr_t address) {
    int low = 0, high = region_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (regions[middle].end <= address) low = middle + 1;
        else high = middle;
    }
    return low < region_count && regions[low].start <= address ? &regions[low] : NULL;
}

/* The mapping that holds an address, as it was when they were read last: what lies there is looked at before it is believed. They
 * are read again for an address that lay in none. */
static struct region *region_find(uintptr_t address) {
    struct region *found = region_known(address);
    if (found || region_count * LINE > steps) return found;
    regions_read();
    return region_known(address);
}

/* Time that has passed allows for more steps. */
static void steps_earn(void) {
    static int64_t before;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    int64_t ns = now.tv_sec * 1000000000 + now.tv_nsec;
    if (before) steps += (ns - before) / NS_OF_A_STEP;
    if (ns - before >= NS_OF_A_STEP) before = ns;
}

/* Records that blocks of this program's malloc are not found. */
static void tell_unknown(void) {
    static const char words[] =
        "blocks of malloc's behind buffers: the program's malloc does not keep them as glibc's does; "
        "buffers that are longer than their block, and windows that outlive it, are not found";
    uint8_t payload[sizeof words + 16];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_bytes(&text, words, sizeof words - 1);
    weft_write_definition(WEFT_DEF_NOTE, payload, (size_t)(text.p - payload));
}

/* Whether a block of a known size has the head that it should have, and one behind it that says that it is in use. */
static bool sample_fits(void) {
    void *block = malloc(SAMPLE);
    uintptr_t chunk = (uintptr_t)block - HEAD;
    size_t of[2], behind[2],
        size = block && weft_copy_if_readable(of, chunk, sizeof of) ? of[1] & ~(size_t)SIZE_BITS : 0;
    bool fits = size >= SAMPLE + HEAD / 2 && size < SAMPLE + LEAST + HEAD && !(of[1] & MAPPED) &&
                weft_copy_if_readable(behind, chunk + size, sizeof behind) && behind[1] & IN_USE;
    free(block);
    return fits;
}

/* Whether malloc keeps its blocks as glibc's does, seen once by a block: its address tells nothing, as a program that is linked to
 * lie at one place (Debian's python3 is) may have an entry of its own for it. */
static bool malloc_is_known(void) {
    static int known = -1;
    if (known < 0) {
        void *version = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
        known = sizeof(size_t) == 8 && version && sample_fits();
        if (known) libc_version = (const char *(*)(void))version;
        else tell_unknown();
    }
    return known;
}

/* The block that holds `p`, of no bytes where it has been freed: chunks lie from `chunk` to `top`, of the main arena or
 * (`arena`: OTHER_ARENA) of another one, where free chunks may lack that mark. */
static bool block_among(uintptr_t p, uintptr_t chunk, uintptr_t top, size_t arena, struct weft_block *block) {
    while (chunk + HEAD <= p && steps-- > 0) {
        size_t of[2];
        if (!head_at(chunk, of)) return false;
        size_t head = of[1], size = head & ~(size_t)SIZE_BITS;
        uintptr_t next = chunk + size;
        if (head & MAPPED || (head & OTHER_ARENA) > arena || size < LEAST || size % HEAD || next <= chunk || next > top)
            return false;
        if (p >= next + 8) {
            chunk = next;
            continue;
        }
        bool used = next + HEAD <= top && head_at(next, of) && of[1] & IN_USE;
        if (used && (head & OTHER_ARENA) != arena) return false;
        *block = (struct weft_block){.low = chunk + HEAD, .high = used ? next + 8 : chunk + HEAD};
        return true;
    }
    return false;
}

/* The block at a page of a mapping, where it is one of malloc's that is mapped for itself: its head begins the page. */
static bool mapped_block(const struct region *region, uintptr_t chunk, struct weft_block *block) {
    size_t of[2];
    if (!head_at(chunk, of)) return false;
    size_t head = of[1], size = head & ~(size_t)SIZE_BITS;
    if (of[0] || (head & SIZE_BITS) != MAPPED || !size || size % PAGE || size > region->end - chunk) return false;
    *block = (struct weft_block){.low = chunk + HEAD, .high = chunk + size};
    return true;
}

static size_t word_at(uintptr_t at) {
    size_t pair[2];
    return head_at(at & ~(uintptr_t)(HEAD - 1), pair) ? pair[at / sizeof *pair % 2] : 1;
}

/* Whether an arena's state ends so many bytes behind its begin: its last two words are what it has from the system and had at
 * most, in pages, not less than this heap has of it. */
static bool state_fits(uintptr_t arena, size_t size, size_t written) {
    size_t now = word_at(arena + size - 2 * sizeof now), most = word_at(arena + size - sizeof now);
    return now % PAGE == 0 && most % PAGE == 0 && now >= written && now <= most;
}

/* The bytes of an arena's state: seen at the first one, and held against each. 0: not known. */
static size_t state_of(uintptr_t arena, size_t written) {
    static size_t known;
    for (size_t size = STATE_LEAST; !known && size < STATE_MOST; size += sizeof size)
        if (state_fits(arena, size, written)) known = size;
    return known && state_fits(arena, known, written) ? known : 0;
}

/* A block of an arena other than the main one: one of its heaps holds the address. */
static bool block_of_arena(uintptr_t p, struct weft_block *block) {
    uintptr_t heap = p & ~(uintptr_t)(ARENA - 1);
    const struct region *begins = region_known(heap); /* what is written of it may have grown since they were read */
    if (!begins || !begins->anonymous || p < heap + ARENA_HEAD) return false;
    size_t info[2], written[2];
    if (!head_at(heap, info) || !head_at(heap + HEAD, written)) return false;
    uintptr_t arena = info[0], before = info[1], top = heap + written[0];
    if (top - heap > ARENA || top < p || top % PAGE || before % ARENA) return false;
    uintptr_t head = strverscmp(libc_version(), "2.35") < 0 ? 32 : ARENA_HEAD;
    size_t state = state_of(arena, written[0]);
    uintptr_t first = arena == heap + head ? (arena + state + HEAD - 1) & ~(uintptr_t)(HEAD - 1) : heap + head;
    if (!state || (first == heap + head && !before)) return false;
    return p >= first + HEAD && block_among(p, first, top, OTHER_ARENA, block);
}

/* A block so large that malloc mapped it for itself: `p` is its first byte, or blocks lie one behind the other up to it. */
static bool block_of_its_own(uintptr_t p, struct region *region, struct weft_block *block) {
    uintptr_t chunk = p - HEAD;
    if (chunk % PAGE == 0 && chunk >= region->start && mapped_block(region, chunk, block)) return true;
    if (region->bare) return false;
    region->bare = !mapped_block(region, region->start, block);
    for (chunk = region->start; chunk + HEAD <= p && mapped_block(region, chunk, block); chunk = block->high)
        if (p < block->high) return true;
    return false;
}

/* The block of malloc's that holds an address; false where none is known to. Under the lock. */
static bool block_of(uintptr_t p, struct weft_block *block) {
    steps_earn();
    if (p < PAGE || steps <= 0 || weft_is_on_own_stack((const void *)p, 1) || !malloc_is_known()) return false;
    view.start = view.end = 0; /* what was seen for another buffer is old */
    if (!region_count) regions_read();
    uintptr_t top = (uintptr_t)sbrk(0);
    if (heap_start && p >= heap_start && p < top) return block_among(p, heap_start, top, 0, block);
    struct region *region = region_find(p);
    if (!region || !region->anonymous) return false;
    return (region->writable && block_of_its_own(p, region, block)) || block_of_arena(p, block);
}

/* ---- buffers of a call that came a new way ---- */
/* Notes a buffer of a call from a new call site, whose block is looked for later. */
void weft_note_buffer_for_lookup(const void *buffer) {
    struct weft_thread *thread = weft_self;
    if (thread && thread->fresh && thread->met < MET && buffer != MPI_IN_PLACE)
        thread->buffers[thread->met++] = (uintptr_t)buffer;
}

/* u thread slot, u ticks before the call, u n, n (u address, u first byte of its block, u bytes) */
static void blocks_tell(struct weft_thread *thread) {
    uint8_t payload[64 + 32 * MET];
    struct weft_block blocks[MET];
    uintptr_t of[MET];
    uint64_t n = 0;
    for (uint32_t i = 0; i < thread->met; i++)
        if (block_of(thread->buffers[i], &blocks[n])) of[n++] = thread->buffers[i];
    if (!n) return;
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_unsigned(&text, thread->slot);
    weft_write_unsigned(&text, weft_ticks(weft_clock_kind));
    weft_write_unsigned(&text, n);
    for (uint64_t i = 0; i < n; i++) {
        weft_write_unsigned(&text, of[i]);
        weft_write_unsigned(&text, blocks[i].low);
        weft_write_unsigned(&text, blocks[i].high - blocks[i].low);
    }
    weft_write_definition(WEFT_DEF_BLOCKS, payload, (size_t)(text.p - payload));
}

/* Does what a call needs before it goes on that few calls need: a replay's guard, and the blocks of new buffers. */
void weft_do_rare_work_before_call(struct weft_thread *thread, struct weft_event *event) {
    if (weft_replaying) weft_check_call_against_plan(thread, event);
    if (!thread->fresh) return;
    weft_note_buffer_for_lookup((const void *)(uintptr_t)event->buffer);
    if (weft_take_lock(&lock)) {
        WEFT_WORK(WEFT_HEAP);
        blocks_tell(thread);
        pthread_mutex_unlock(&lock);
    }
    thread->fresh = false;
    __atomic_fetch_sub(&weft_attention, WEFT_ATTENTION_FRESH, __ATOMIC_RELAXED);
}

/* Has the thread's next call look for the blocks behind its buffers. */
void weft_look_up_buffers_at_next_call(struct weft_thread *thread) {
    thread->met = 0;
    if (thread->fresh || weft_is_left_out(WEFT_HEAP)) return;
    thread->fresh = true;
    __atomic_fetch_add(&weft_attention, WEFT_ATTENTION_FRESH, __ATOMIC_RELAXED);
}

/* A line is looked at so often, as weft.usage.buffer_memory.OF_A_SITE says. */
enum { LOOKED_AT = 32, LOOKED_SITES = 4096 };

/* Has the blocks behind a call's buffers looked for, if its call site had few looks so far. */
void weft_look_up_buffer_if_few_lookups(struct weft_thread *thread, const struct weft_event *event) {
    static uint8_t looks[LOOKED_SITES];
    uint8_t *of = &looks[event->site % LOOKED_SITES], so_far = __atomic_load_n(of, __ATOMIC_RELAXED);
    if (so_far >= LOOKED_AT || !event->buffer) return;
    __atomic_store_n(of, (uint8_t)(so_far + 1), __ATOMIC_RELAXED); /* threads may count one for two: no harm */
    if (!thread->fresh) weft_look_up_buffers_at_next_call(thread);
}

/* u site, u an address below the frame of the call's function, u n, n u how far above it the frames of that function, of
 * its caller and so on end */
void weft_record_caller_frames(const struct weft_site_cached *site) {
    uint8_t payload[64 + 10 * WEFT_CALLERS];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_unsigned(&text, site->id);
    weft_write_unsigned(&text, site->frame);
    weft_write_unsigned(&text, site->callers);
    for (uint32_t k = 0; k < site->callers; k++) weft_write_unsigned(&text, site->slots[k] + sizeof(uintptr_t));
    weft_write_definition(WEFT_DEF_WAY, payload, (size_t)(text.p - payload));
}

/* ---- windows in blocks of the heap: each must outlive its window ---- */
static struct {
    MPI_Win window;
    uintptr_t base, end;
    struct weft_block block;
} watched[WINDOWS];
static int watching;

/* Begins to watch the heap's block behind a window's memory, which may be freed too early. */
void weft_begin_window_block_watch(MPI_Win window, const void *base, int64_t size) {
    struct weft_block block;
    if (!base || size <= 0 || weft_is_left_out(WEFT_HEAP) || !weft_take_lock(&lock)) return;
    WEFT_WORK(WEFT_HEAP);
    if (watching < WINDOWS && block_of((uintptr_t)base, &block) && block.high > block.low) {
        watched[watching].window = window;
        watched[watching].base = (uintptr_t)base;
        watched[watching].end = (uintptr_t)base + (uintptr_t)size;
        watched[watching++].block = block;
    }
    pthread_mutex_unlock(&lock);
}

/* u window, u thread slot, u ticks before the call that frees the window */
void weft_check_window_block(struct weft_thread *thread, MPI_Win window, uint32_t id, uint64_t enter) {
    uint8_t payload[64];
    struct weft_block now = {0};
    if (!weft_take_lock(&lock)) return;
    WEFT_WORK(WEFT_HEAP);
    for (int i = 0; i < watching; i++) {
        if (watched[i].window != window) continue;
        struct weft_block then = watched[i].block;
        unsigned char page;
        uintptr_t base = watched[i].base, end = watched[i].end;
        bool known = block_of(base, &now);
        bool gone = !known && mincore((void *)(base & ~(uintptr_t)(PAGE - 1)), 1, &page) && errno == ENOMEM;
        watched[i] = watched[--watching];
        bool freed = known && now.high == now.low, another = known && now.low != then.low;
        bool shorter = known && then.high >= end && now.high < end;
        if (!gone && !freed && !another && !shorter) break;
        struct weft_text text = {.p = payload, .end = payload + sizeof payload};
        weft_write_unsigned(&text, id);
        weft_write_unsigned(&text, thread->slot);
        weft_write_unsigned(&text, enter);
        weft_write_definition(WEFT_DEF_GIVEN_BACK, payload, (size_t)(text.p - payload));
        break;
    }
    pthread_mutex_unlock(&lock);
}
