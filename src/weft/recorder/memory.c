/* The memory behind buffers: how far the heap's block that holds one goes, and where the frames of a way to a call end.
 *
 * Looked at when a call comes a way that it has not come before, never on the hot path. Which variable lies where is
 * looked up after the run (weft.sources.variables); what is an overrun, the analysis says.
 *
 * Blocks are those of glibc's malloc. Its heap is chunks one after the other, each headed by its size, so a walk from
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

/* Copy the memory from an address on, up to the end of its page or of some more pages, so that heads of chunks can be
 * read from the copy (`view`). Return false if it cannot be read. Needs the lock. */
static bool read_memory_view(uintptr_t address) {
    view.bytes = address == view.end && view.start ? view.bytes * 2 : PAGE;
    if (view.bytes > VIEW) view.bytes = VIEW;
    for (; view.bytes; view.bytes = view.bytes > PAGE ? PAGE : 0) {
        uintptr_t end = (address & ~(uintptr_t)(PAGE - 1)) + view.bytes;
        view.start = view.end = 0;
        steps -= LOOK + LOOK_PAGE * (int64_t)(view.bytes / PAGE);
        if (!weft_copy_if_readable(view.copy, address, end - address)) continue;
        view.start = address;
        view.end = end;
        return true;
    }
    return false;
}

/* Read two words at a multiple of HEAD bytes, the head of a chunk. Return false if they cannot be read. Needs the
 * lock. */
static bool read_chunk_head(uintptr_t address, size_t head[2]) {
    if (address % HEAD || ((address < view.start || address >= view.end) && !read_memory_view(address))) return false;
    memcpy(head, view.copy + (address - view.start), HEAD);
    return true;
}

/* Set `region` to the mapping of one line of /proc/self/maps; return false if it is no such line. */
static bool parse_mapping(const char *line, struct region *region) {
    unsigned long start, end, inode;
    int length = 0;
    char permissions[5];
    if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu %n", &start, &end, permissions, &inode, &length) < 4) return false;
    *region = (struct region){.start = start,
                              .end = end,
                              .anonymous = !inode && !line[length],
                              .heap = !strcmp(line + length, "[heap]"),
                              .writable = permissions[0] == 'r' && permissions[1] == 'w'};
    return true;
}

/* Read the mappings of the process anew, as far as there is room for them, and where the heap begins. */
static void read_mappings(void) {
    static char text[1 << 14];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t text_bytes = 0;
    region_count = 0;
    if (fd < 0) return;
    for (ssize_t got; (got = read(fd, text + text_bytes, sizeof text - 1 - text_bytes)) > 0;) {
        text_bytes += (size_t)got;
        text[text_bytes] = 0;
        char *line = text, *end;
        for (; (end = strchr(line, '\n')); line = end + 1, steps -= LINE) {
            *end = 0;
            struct region *region = &regions[region_count];
            if (region_count == REGIONS || !parse_mapping(line, region)) continue;
            if (region->heap && !heap_start) heap_start = region->start;
            region_count++;
        }
        text_bytes = (size_t)(text + text_bytes - line);
        if (text_bytes >= sizeof text - 1) break;
        memmove(text, line, text_bytes);
    }
    close(fd);
}

/* Return the mapping that holds an address, as they were when they were read last; NULL for none. */
static struct region *find_known_mapping(uintptr_t address) {
    int low = 0, high = region_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (regions[middle].end <= address) low = middle + 1;
        else high = middle;
    }
    return low < region_count && regions[low].start <= address ? &regions[low] : NULL;
}

/* Return the mapping that holds an address, NULL for none. The mappings are read again for an address that lay in none,
 * so the result may be old: the caller looks at the memory itself. */
static struct region *find_mapping(uintptr_t address) {
    struct region *found = find_known_mapping(address);
    if (found || region_count * LINE > steps) return found;
    read_mappings();
    return find_known_mapping(address);
}

/* Allow more steps of reading the heap (`steps`, which limits what the recorder spends on that), by the time that has
 * passed since the last call. */
static void refill_step_budget(void) {
    static int64_t last_ns;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    int64_t ns = now.tv_sec * 1000000000 + now.tv_nsec;
    if (last_ns) steps += (ns - last_ns) / NS_OF_A_STEP;
    if (ns - last_ns >= NS_OF_A_STEP) last_ns = ns;
}

/* Note in the record that blocks of this program's malloc are not found. */
static void note_unknown_malloc(void) {
    static const char words[] = "the heap blocks of buffers, because the program's malloc stores them in another way "
                                "than glibc's: Weft does not find buffers that are longer than their block, nor "
                                "windows that outlive it";
    uint8_t payload[sizeof words + 16];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_bytes(&text, words, sizeof words - 1);
    weft_write_definition(WEFT_DEF_NOTE, payload, (size_t)(text.p - payload));
}

/* Return whether a block of a known size has the head that glibc would give it, and a chunk after it that says that it
 * is in use. */
static bool does_sample_fit(void) {
    void *block = malloc(SAMPLE);
    uintptr_t chunk = (uintptr_t)block - HEAD;
    size_t head[2], behind[2],
        size = block && weft_copy_if_readable(head, chunk, sizeof head) ? head[1] & ~(size_t)SIZE_BITS : 0;
    bool fits = size >= SAMPLE + HEAD / 2 && size < SAMPLE + LEAST + HEAD && !(head[1] & MAPPED) &&
                weft_copy_if_readable(behind, chunk + size, sizeof behind) && behind[1] & IN_USE;
    free(block);
    return fits;
}

/* Return whether malloc keeps its blocks as glibc does, seen once by a block. The address of malloc tells nothing: a
 * program that is linked to lie at one place, as Debian's python3, may have an entry of its own for it. */
static bool is_malloc_known(void) {
    static int known = -1;
    if (known < 0) {
        void *version = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
        known = sizeof(size_t) == 8 && version && does_sample_fit();
        if (known) libc_version = (const char *(*)(void))version;
        else note_unknown_malloc();
    }
    return known;
}

/* Find the block that holds an address among the chunks between `chunk` and `top`, of the main arena, or (`arena`:
 * OTHER_ARENA) of another one, where free chunks may lack that mark. A block that has been freed has no bytes. Return
 * false if there is none, or something is no chunk. */
static bool find_block_in_chunks(uintptr_t address, uintptr_t chunk, uintptr_t top, size_t arena,
                                 struct weft_block *block) {
    while (chunk + HEAD <= address && steps-- > 0) {
        size_t head_words[2];
        if (!read_chunk_head(chunk, head_words)) return false;
        size_t head = head_words[1], size = head & ~(size_t)SIZE_BITS;
        uintptr_t next = chunk + size;
        if (head & MAPPED || (head & OTHER_ARENA) > arena || size < LEAST || size % HEAD || next <= chunk || next > top)
            return false;
        if (address >= next + 8) {
            chunk = next;
            continue;
        }
        bool used = next + HEAD <= top && read_chunk_head(next, head_words) && head_words[1] & IN_USE;
        if (used && (head & OTHER_ARENA) != arena) return false;
        *block = (struct weft_block){.low = chunk + HEAD, .high = used ? next + 8 : chunk + HEAD};
        return true;
    }
    return false;
}

/* Set `block` to the block at a page of a mapping, if malloc mapped it for itself: its head begins the page. Return
 * whether it is one. */
static bool read_mapped_block(const struct region *region, uintptr_t chunk, struct weft_block *block) {
    size_t head_words[2];
    if (!read_chunk_head(chunk, head_words)) return false;
    size_t head = head_words[1], size = head & ~(size_t)SIZE_BITS;
    if (head_words[0] || (head & SIZE_BITS) != MAPPED || !size || size % PAGE || size > region->end - chunk)
        return false;
    *block = (struct weft_block){.low = chunk + HEAD, .high = chunk + size};
    return true;
}

/* Return a word of memory, 1 if it cannot be read. */
static size_t read_word(uintptr_t address) {
    size_t pair[2];
    return read_chunk_head(address & ~(uintptr_t)(HEAD - 1), pair) ? pair[address / sizeof *pair % 2] : 1;
}

/* Return whether an arena's state (struct malloc_state) ends `size` bytes after its begin: its last two words are the
 * bytes that the arena has from the system and had at most, in whole pages, not less than this heap has. */
static bool does_arena_state_fit(uintptr_t arena, size_t size, size_t written) {
    size_t now = read_word(arena + size - 2 * sizeof now), maximum = read_word(arena + size - sizeof now);
    return now % PAGE == 0 && maximum % PAGE == 0 && now >= written && now <= maximum;
}

/* Return the size of an arena's state, found at the first arena and checked at each; 0 if it is not known. */
static size_t find_arena_state_size(uintptr_t arena, size_t written) {
    static size_t known_size;
    for (size_t size = STATE_LEAST; !known_size && size < STATE_MOST; size += sizeof size)
        if (does_arena_state_fit(arena, size, written)) known_size = size;
    return known_size && does_arena_state_fit(arena, known_size, written) ? known_size : 0;
}

/* Find the block that holds an address in an arena other than the main one, one of whose heaps holds it; return false
 * if there is none. */
static bool find_block_in_arena(uintptr_t address, struct weft_block *block) {
    uintptr_t heap = address & ~(uintptr_t)(ARENA - 1);
    const struct region *mapping = find_known_mapping(heap); /* its bounds may have grown since they were read */
    if (!mapping || !mapping->anonymous || address < heap + ARENA_HEAD) return false;
    size_t info[2], written[2];
    if (!read_chunk_head(heap, info) || !read_chunk_head(heap + HEAD, written)) return false;
    uintptr_t arena = info[0], previous_heap = info[1], top = heap + written[0];
    if (top - heap > ARENA || top < address || top % PAGE || previous_heap % ARENA) return false;
    uintptr_t head = strverscmp(libc_version(), "2.35") < 0 ? 32 : ARENA_HEAD;
    size_t state = find_arena_state_size(arena, written[0]);
    uintptr_t first = arena == heap + head ? (arena + state + HEAD - 1) & ~(uintptr_t)(HEAD - 1) : heap + head;
    if (!state || (first == heap + head && !previous_heap)) return false;
    return address >= first + HEAD && find_block_in_chunks(address, first, top, OTHER_ARENA, block);
}

/* Find a block so large that malloc mapped it for itself: the address is its first byte, or such blocks lie one after
 * the other up to it. Return false if there is none. */
static bool find_own_mapping_block(uintptr_t address, struct region *region, struct weft_block *block) {
    uintptr_t chunk = address - HEAD;
    if (chunk % PAGE == 0 && chunk >= region->start && read_mapped_block(region, chunk, block)) return true;
    if (region->bare) return false;
    region->bare = !read_mapped_block(region, region->start, block);
    for (chunk = region->start; chunk + HEAD <= address && read_mapped_block(region, chunk, block); chunk = block->high)
        if (address < block->high) return true;
    return false;
}

/* Find the block of malloc that holds an address; return false where none is known. Needs the lock. */
static bool find_block(uintptr_t address, struct weft_block *block) {
    refill_step_budget();
    if (address < PAGE || steps <= 0 || weft_is_on_own_stack((const void *)address, 1) || !is_malloc_known())
        return false;
    view.start = view.end = 0; /* what was seen for another buffer is old */
    if (!region_count) read_mappings();
    uintptr_t top = (uintptr_t)sbrk(0);
    if (heap_start && address >= heap_start && address < top)
        return find_block_in_chunks(address, heap_start, top, 0, block);
    struct region *region = find_mapping(address);
    if (!region || !region->anonymous) return false;
    return (region->writable && find_own_mapping_block(address, region, block)) || find_block_in_arena(address, block);
}

/* ---- buffers of a call that came a new way ---- */
/* Note a buffer of a call that comes from a new call site or has another buffer than before, so that its block is
 * looked up before the call. */
void weft_note_buffer_for_lookup(const void *buffer) {
    struct weft_thread *thread = weft_self;
    if (thread && thread->fresh && thread->met < MET && buffer != MPI_IN_PLACE)
        thread->buffers[thread->met++] = (uintptr_t)buffer;
}

/* Look up the heap blocks that hold the buffers of the thread's next call, and record address and size of each
 * (WEFT_DEF_BLOCKS in format.h). Needs the lock. */
static void record_blocks_of_buffers(struct weft_thread *thread) {
    uint8_t payload[64 + 32 * MET];
    struct weft_block blocks[MET];
    uintptr_t addresses[MET];
    uint64_t n = 0;
    for (uint32_t i = 0; i < thread->met; i++)
        if (find_block(thread->buffers[i], &blocks[n])) addresses[n++] = thread->buffers[i];
    if (!n) return;
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_unsigned(&text, thread->slot);
    weft_write_unsigned(&text, weft_ticks(weft_clock_kind));
    weft_write_unsigned(&text, n);
    for (uint64_t i = 0; i < n; i++) {
        weft_write_unsigned(&text, addresses[i]);
        weft_write_unsigned(&text, blocks[i].low);
        weft_write_unsigned(&text, blocks[i].high - blocks[i].low);
    }
    weft_write_definition(WEFT_DEF_BLOCKS, payload, (size_t)(text.p - payload));
}

/* Do what only few calls need before they are made: compare the call with a replay's plan, and look up the blocks
 * behind new buffers. */
void weft_check_plan_and_look_up_buffers(struct weft_thread *thread, struct weft_event *event) {
    if (weft_replaying) weft_check_call_against_plan(thread, event);
    if (!thread->fresh) return;
    weft_note_buffer_for_lookup((const void *)(uintptr_t)event->buffer);
    if (weft_take_lock(&lock)) {
        WEFT_WORK(WEFT_HEAP);
        record_blocks_of_buffers(thread);
        pthread_mutex_unlock(&lock);
    }
    thread->fresh = false;
    __atomic_fetch_sub(&weft_attention, WEFT_ATTENTION_FRESH, __ATOMIC_RELAXED);
}

/* Have the thread's next call look up the blocks behind its buffers. */
void weft_look_up_buffers_at_next_call(struct weft_thread *thread) {
    thread->met = 0;
    if (thread->fresh || weft_is_left_out(WEFT_HEAP)) return;
    thread->fresh = true;
    __atomic_fetch_add(&weft_attention, WEFT_ATTENTION_FRESH, __ATOMIC_RELAXED);
}

/* A line is looked at so often, as weft.usage.buffer_memory.OF_A_SITE says. */
enum { LOOKED_AT = 32, LOOKED_SITES = 4096 };

/* Have the blocks behind a call's buffers looked up, if that was done seldom for its call site so far. */
void weft_look_up_buffer_if_few_lookups(struct weft_thread *thread, const struct weft_event *event) {
    static uint8_t looks[LOOKED_SITES];
    uint8_t *count = &looks[event->site % LOOKED_SITES], so_far = __atomic_load_n(count, __ATOMIC_RELAXED);
    if (so_far >= LOOKED_AT || !event->buffer) return;
    __atomic_store_n(count, (uint8_t)(so_far + 1), __ATOMIC_RELAXED); /* threads may count one for two: no harm */
    if (!thread->fresh) weft_look_up_buffers_at_next_call(thread);
}

/* Record where on the stack the frames of a call site's callers end (WEFT_DEF_WAY in format.h), so that the analysis
 * can tell in which frame a buffer lies. */
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

/* Begin to watch the heap's block behind a window's memory, which the program may free too early. */
void weft_begin_window_block_watch(MPI_Win window, const void *base, int64_t size) {
    struct weft_block block;
    if (!base || size <= 0 || weft_is_left_out(WEFT_HEAP) || !weft_take_lock(&lock)) return;
    WEFT_WORK(WEFT_HEAP);
    if (watching < WINDOWS && find_block((uintptr_t)base, &block) && block.high > block.low) {
        watched[watching].window = window;
        watched[watching].base = (uintptr_t)base;
        watched[watching].end = (uintptr_t)base + (uintptr_t)size;
        watched[watching++].block = block;
    }
    pthread_mutex_unlock(&lock);
}

/* Before a window is freed, end the watch of its memory, and record if the program had already freed or shrunk that
 * memory. `id`: the window's; `enter`: ticks before the call that frees the window. */
void weft_check_window_block(struct weft_thread *thread, MPI_Win window, uint32_t id, uint64_t enter) {
    uint8_t payload[64];
    struct weft_block block_now = {0};
    if (!weft_take_lock(&lock)) return;
    WEFT_WORK(WEFT_HEAP);
    for (int i = 0; i < watching; i++) {
        if (watched[i].window != window) continue;
        struct weft_block block_before = watched[i].block;
        unsigned char page;
        uintptr_t base = watched[i].base, end = watched[i].end;
        bool known = find_block(base, &block_now);
        bool is_unmapped = !known && mincore((void *)(base & ~(uintptr_t)(PAGE - 1)), 1, &page) && errno == ENOMEM;
        watched[i] = watched[--watching];
        bool freed = known && block_now.high == block_now.low, another = known && block_now.low != block_before.low;
        bool shorter = known && block_before.high >= end && block_now.high < end;
        if (!is_unmapped && !freed && !another && !shorter) break;
        struct weft_text text = {.p = payload, .end = payload + sizeof payload};
        weft_write_unsigned(&text, id);
        weft_write_unsigned(&text, thread->slot);
        weft_write_unsigned(&text, enter);
        weft_write_definition(WEFT_DEF_GIVEN_BACK, payload, (size_t)(text.p - payload));
        break;
    }
    pthread_mutex_unlock(&lock);
}
