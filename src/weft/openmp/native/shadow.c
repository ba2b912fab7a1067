/* The shadow of the program's memory, and what each access is compared with. */
#include "shadow.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Map zeroed memory at an address (NULL: anywhere) that takes no RAM until it is touched, and return it. On failure
 * report it and exit. */
static void *reserve_memory(void *address, size_t size) {
    void *memory = mmap(address, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (address ? MAP_FIXED_NOREPLACE : 0), -1, 0);
    if (memory == MAP_FAILED || (address && memory != address)) {
        report_no_memory();
        _exit(2);
    }
    madvise(memory, size, MADV_DONTFORK);
    return memory;
}

void reserve_memory_at(uintptr_t address, size_t size) { reserve_memory((void *)address, size); }

/* --- marks ------------------------------------------------------------------------------------------------------- */

#define FIRST_PLAIN 2u
#define FIRST_ATOMIC (ATOMIC + 2)
#define MOST_OLD 0x60000000u /* beyond so many, numbers begin anew */
#define MARKS ((size_t)1 << 30)

struct mark *plain_marks;
static struct mark *atomic_marks; /* from now.old and now.old_atomic on, which stand at their start */
mark_t *last_marks;
static uint32_t *noted_callers; /* by place: of code of the language's library */

/* Let the numbering of marks (IDs of accesses) start again; the shadow must be empty. */
static void restart_marks(void) {
    now.old = now.mark = now.row_mark = FIRST_PLAIN;
    now.old_atomic = now.atomic = FIRST_ATOMIC;
    begin_turn_of_marks();
    refresh_hooks();
    forget_all_notes();
}

/* Reserve the shadow memory and the tables of marks (IDs of accesses) at program start. */
void open_shadow(void) {
    reserve_memory((void *)SHADOW, SHADOW_SIZE);
    plain_marks = reserve_memory(NULL, MARKS * sizeof *plain_marks);
    atomic_marks = reserve_memory(NULL, MARKS * sizeof *atomic_marks);
    last_marks = reserve_memory(NULL, PLACES * sizeof *last_marks);
    noted_callers = reserve_memory(NULL, PLACES * sizeof *noted_callers);
    weft_library_places = reserve_memory(NULL, PLACES * sizeof *weft_library_places);
    restart_marks();
}

/* Clear the whole shadow memory and let the numbering of marks start again. */
void empty_shadow(void) {
    madvise((void *)SHADOW, SHADOW_SIZE, MADV_DONTNEED);
    for (size_t place = 0; place < now.text; place++)
        if (last_marks[place]) last_marks[place] = 1;
    restart_marks();
}

/* Declare all marks (IDs of accesses) made so far over: their accesses happen before everything that follows. */
void retire_all_marks(void) {
    now.old = now.row_mark = now.mark;
    now.old_atomic = now.atomic;
    begin_turn_of_marks();
    refresh_hooks();
}

bool are_marks_nearly_used_up(void) { return now.mark > MOST_OLD || now.atomic - ATOMIC > MOST_OLD; }

uint32_t get_noted_caller(uint32_t place) { return noted_callers[place]; }

/* Return at how many code places of the program an access was checked. */
size_t count_accessing_places(void) {
    size_t count = 0;
    for (size_t i = 0; i < now.text; i++) count += last_marks[i] != 0;
    return count;
}

INLINE bool is_mark_over(mark_t number) { return number < (number & ATOMIC ? now.old_atomic : now.old); }

/* Return what a mark (the ID of an access) stands for: the strand and the code place. */
static inline struct mark *get_mark(mark_t number) {
    return number & ATOMIC ? &atomic_marks[(number - now.old_atomic) / 2] : &plain_marks[(number - now.old) / 2];
}

static inline strand_t get_mark_strand(mark_t number) { return get_mark(number)->strand; }

/* Return a mark (the ID of an access) for the running strand at a code place: the newest mark of that place if it is
 * the same strand's, else a new one; 0 if the numbers are used up. For a place in the C++ library its caller is
 * noted. */
mark_t make_mark(uint32_t place) {
    mark_t *last_mark = &last_marks[place & ~ATOMIC], number = *last_mark;
    bool is_older_than_strand =
        now.first_turn && !(number & ATOMIC) && !is_mark_of_this_turn(number); /* than the strand */
    if (!is_older_than_strand && !is_mark_over(number) && !((number ^ place) & ATOMIC) &&
        get_mark_strand(number) == now.current)
        return number;
    mark_t *next_number = place & ATOMIC ? &now.atomic : &now.mark;
    if (*next_number >= (place & ATOMIC ? SPECIAL : PLAIN_END)) { /* what is not marked is as if it were over */
        report_plain_finding("left", "crowd", place & ~ATOMIC, 0);
        return 0;
    }
    number = *next_number;
    *next_number += 2;
    *get_mark(number) = (struct mark){now.current, place};
    if (is_library_place(place & ~ATOMIC)) noted_callers[place & ~ATOMIC] = find_library_caller(place & ~ATOMIC);
    return *last_mark = number | (now.in_row && !(number & ATOMIC));
}

/* Return the running strand's mark (the ID of an access) for a code place, without a call in the common case. */
INLINE mark_t find_or_make_mark(uint32_t place) {
    mark_t number = last_marks[place & ~ATOMIC];
    return is_mark_of_this_turn(number) && !(place & ATOMIC) ? number : make_mark(place);
}

/* --- what is a conflict ------------------------------------------------------------------------------------------ */

static bool is_own_stack(uintptr_t address) { return address >= me->stack_low && address < me->frame; }

/* Return whether an address can only be used by one thread, which also ran the other strand: its own stack frames, its
 * thread-local variables, or a block that it allocated in this region. */
static bool is_own_memory(uintptr_t address, strand_t other_strand) {
    if (is_own_stack(address)) return are_of_same_thread(other_strand, now.current);
    if (address >= me->tls_low && address < me->tls_high) return true;
    uintptr_t low;
    size_t size;
    int thread;
    uint32_t since;
    if (!are_of_same_thread(other_strand, now.current)) return false;
    if (me->team && me->team->number_asked) return true;
    return find_heap_block(address, &low, &size, &thread, &since) && thread == me->slot && me->team &&
           since >= me->team->region;
}

/* Return whether two lanes of a simd loop cannot conflict: the earlier one only reads, or they are at least `safelen`
 * iterations apart. */
static bool are_lanes_safe(strand_t earlier, strand_t later, bool is_read_first) {
    const struct node *earlier_node = node(find_whole_strand(earlier)), *later_node = node(find_whole_strand(later));
    if (earlier_node->kind != LANE || later_node->kind != LANE || earlier_node->loop != later_node->loop) return false;
    int64_t safelen = (int64_t)later_node->locks;
    return is_read_first || (safelen && later_node->index - earlier_node->index >= safelen);
}

/* What is known to come before the running strand, is known of all its accesses. */
enum search { THOROUGH, BRIEF_OR_TRUE, BRIEF_OR_FALSE };
#define BRIEF 128 /* edges; between atomic accesses: */
#define BRIEFER 16

/* Return whether the access of a mark happens before the running strand; if so, remember the mark, since it then
 * precedes all accesses of this strand. */
static bool is_access_of_mark_earlier(mark_t number, enum search search) {
    static unsigned turn;
    if (is_calm_mark(number)) return true;
    strand_t strand = get_mark_strand(number);
    bool result = search == THOROUGH ? is_ordered(strand, now.current)
                                     : is_ordered_nearby(strand, now.current, number & ATOMIC ? BRIEFER : BRIEF,
                                                         search == BRIEF_OR_TRUE);
    if (!result) return false;
    now.past[turn++ % PAST] = number;
    now.any_past = true;
    return true;
}

/* Return whether a strand belongs to a task made by a construct of this kind: task, target or data copy. */
static bool is_of_task_made_by(strand_t strand, enum maker maker) {
    for (; strand >= weft_first; strand = node(strand)->parent)
        if (node(strand)->kind == TASK && node(strand)->loop == (uint32_t)maker) return true;
    return false;
}

/* Return whether the running strand and another one access different copies of memory, the host's and the device's,
 * because one of them is a host-device copy and the other a target region. */
static bool are_on_different_sides(strand_t other_strand) {
    return (me->on_device && is_of_task_made_by(other_strand, BY_COPY)) ||
           (is_of_task_made_by(now.current, BY_COPY) && is_of_task_made_by(other_strand, BY_TARGET));
}

enum pair { READ_OF_WRITE, WRITE_OF_WRITE, WRITE_OF_READ };

/* Return whether the access of a mark and the current access to the same memory are a race: nothing orders their
 * strands and no common lock excludes them. A read after a write under one lock is noted as an order. */
static bool is_conflict(mark_t number, uintptr_t address, uint32_t place, enum pair pair) {
    if (is_mark_over(number) || is_calm_mark(number) || (number & place & ATOMIC) ||
        (get_mark_strand(number) == now.current && is_access_of_mark_earlier(number, THOROUGH)))
        return false;
    strand_t strand = get_mark_strand(number);
    if (is_own_stack(address) && are_of_same_thread(strand, now.current)) return false;
    if (have_common_lock(strand, now.current)) {
        if (pair == READ_OF_WRITE) order_after_locked_write(strand);
        return false;
    }
    /* What was found already is only counted. */
    bool is_reported = is_race_reported(place, get_mark(number)->place, pair != READ_OF_WRITE, pair != WRITE_OF_READ);
    return !is_access_of_mark_earlier(number, is_reported ? BRIEF_OR_TRUE : THOROUGH) &&
           !are_lanes_safe(strand, now.current, pair == WRITE_OF_READ) && !is_own_memory(address, strand) &&
           !are_on_different_sides(strand);
}

/* Return the chunk size if both strands are iterations of one chunk of a loop; else 0. */
static int64_t find_common_chunk(strand_t one, strand_t other) {
    const struct node *node_one = node(find_whole_strand(one)), *node_other = node(find_whole_strand(other));
    if (node_one->kind != ITERATION || node_other->kind != ITERATION || node_one->loop != node_other->loop) return 0;
    return find_shared_chunk_size(node_one->loop, node_one->index, node_other->index);
}

/* Report a race between the access of a mark (the ID of an earlier access) and the current one. */
static void report_conflict(mark_t number, uintptr_t address, size_t size, bool is_write, bool is_other_write,
                            uint32_t place) {
    report_race(&(struct access){.address = address,
                                 .size = size,
                                 .write = is_write,
                                 .other_write = is_other_write,
                                 .place = place,
                                 .other_place = get_mark(number)->place,
                                 .strand = now.current,
                                 .other = get_mark_strand(number),
                                 .chunk = find_common_chunk(get_mark_strand(number), now.current)});
}

/* Return whether the mark (the ID of an access) in a shadow word should stay, rather than the current access replace
 * it: both are of one strand, and the mark's access held only a part of the current one's locks, or the same locks and
 * was not atomic where the current one is. */
static bool should_mark_stay(mark_t number, uint32_t place) {
    if (is_mark_over(number) || find_whole_strand(get_mark_strand(number)) != find_whole_strand(now.current))
        return false;
    const struct node *mark_node = node(get_mark_strand(number)), *current = node(now.current);
    uint64_t mark_locks = mark_node->kind == LOCKED ? mark_node->locks : 0,
             own_locks = current->kind == LOCKED ? current->locks : 0;
    return ((mark_locks & ~own_locks) == 0 && mark_locks != own_locks) ||
           (mark_locks == own_locks && place & ATOMIC && !(number & ATOMIC));
}

/* Store the current read in a shadow word if the reader recorded there happens before it, or is of the thread whose stack
 * this is. Return whether the read is covered by the word. */
static bool store_read_in_word(mark_t *word, uintptr_t address, uint32_t place) {
    if (!is_mark_over(*word) && !(is_own_stack(address) && are_of_same_thread(get_mark_strand(*word), now.current)) &&
        !is_access_of_mark_earlier(*word, BRIEF_OR_FALSE))
        return false;
    if (!should_mark_stay(*word, place)) *word = find_or_make_mark(place);
    return true;
}

/* Return whether a mark stands for an atomic access, or for one that is over: no atomic access conflicts with it. */
INLINE bool is_peaceful_to_atomics(mark_t number) { return number & ATOMIC || number < now.old; }

static unsigned further_reads;

/* Record an atomic read, of a strand that holds no locks, of a granule that only atomic accesses touched in this phase.
 * Where two other strands are known to read it, only each 32nd read is compared with them: what is seen anew is
 * that a plain write is ordered after both of them and not after this one. */
static void record_atomic_read(mark_t *first_read, mark_t *second_read, uintptr_t address, uint32_t place) {
    strand_t whole = find_whole_strand(now.current);
    mark_t *reads[] = {first_read, second_read};
    for (int i = 0; i < 2; i++)
        if (is_mark_over(*reads[i]) ||
            (*reads[i] >= now.atomic_since && find_whole_strand(get_mark_strand(*reads[i])) == whole)) {
            *reads[i] = find_or_make_mark(place);
            return;
        }
    if (++further_reads % 32 == 0 && !store_read_in_word(first_read, address, place))
        store_read_in_word(second_read, address, place);
}

/* Check and record an atomic access of a granule, by a strand that holds no locks, if only atomic accesses touched it in
 * this phase; return false where others did. */
bool check_atomic_granule(mark_t *last_write, mark_t *first_read, mark_t *second_read, uintptr_t address, bool is_write,
                          uint32_t place) {
    if (*last_write >= SPECIAL || !is_peaceful_to_atomics(*last_write) || !is_peaceful_to_atomics(*first_read) ||
        !is_peaceful_to_atomics(*second_read))
        return false;
    if (is_write) *last_write = find_or_make_mark(place);
    else record_atomic_read(first_read, second_read, address, place);
    return true;
}

static bool is_same_read(mark_t number, uint32_t place) {
    return !is_mark_over(number) && get_mark_strand(number) == now.current && !((number ^ place) & ATOMIC);
}

/* Check an access of one granule (8, 4 or 1 bytes) against its three shadow words, the last write and two reads: report
 * a race and record the access there. */
void check_granule(mark_t *last_write, mark_t *first_read, mark_t *second_read, uintptr_t address, size_t size,
                   bool is_write, uint32_t place) {
    forget_fresh_notes(address);
    if (!is_mark_of_this_turn(*last_write) &&
        is_conflict(*last_write, address, place, is_write ? WRITE_OF_WRITE : READ_OF_WRITE))
        report_conflict(*last_write, address, size, is_write, true, place);
    if (is_write) {
        if (!is_mark_of_this_turn(*first_read) && is_conflict(*first_read, address, place, WRITE_OF_READ))
            report_conflict(*first_read, address, size, true, false, place);
        else if (!is_mark_of_this_turn(*second_read) && is_conflict(*second_read, address, place, WRITE_OF_READ))
            report_conflict(*second_read, address, size, true, false, place);
        if (further_reads && *second_read & ATOMIC && !(place & ATOMIC) && !is_mark_over(*second_read))
            report_plain_finding("left", "readers", place, 0);
        if (!should_mark_stay(*last_write, place)) *last_write = find_or_make_mark(place);
    } else if (!is_same_read(*first_read, place) && !is_same_read(*second_read, place) &&
               !store_read_in_word(first_read, address, place)) {
        store_read_in_word(second_read, address, place);
    }
}

/* Copy the shadow words of an 8-byte granule to those of its two halves, which are valid in their place from now on. */
static void split_granule8(uintptr_t address) {
    for (int plane = 0; plane < 3; plane++) {
        mark_t number = *find_word8(address, plane), *finer = find_word4(address & ~(uintptr_t)7, plane);
        if (number || finer[0] || finer[1]) finer[0] = finer[1] = number;
    }
    *find_word8(address, 0) = SPLIT;
    forget_all_notes();
}

/* Copy the shadow words of a 4-byte granule to those of its four bytes, which are valid in their place from now on. */
static void split_granule4(uintptr_t address) {
    for (int plane = 0; plane < 3; plane++) {
        mark_t number = *find_word4(address, plane), *finer = find_word1(address & ~(uintptr_t)3, plane);
        if (number || finer[0] || finer[1] || finer[2] || finer[3]) finer[0] = finer[1] = finer[2] = finer[3] = number;
    }
    *find_word4(address, 0) = SPLIT;
    forget_all_notes();
}

/* Check an access that lies within one aligned 4-byte granule. */
static void check_access_within4(uintptr_t address, size_t size, bool is_write, uint32_t place) {
    mark_t *word = find_word4(address, 0);
    if (*word != SPLIT && size < 4) split_granule4(address);
    if (*word != SPLIT) {
        check_granule(word, find_word4(address, 1), find_word4(address, 2), address, 4, is_write, place);
        return;
    }
    for (size_t i = 0; i < size; i++)
        check_granule(find_word1(address + i, 0), find_word1(address + i, 1), find_word1(address + i, 2), address + i,
                      1, is_write, place);
}

/* Check an access that lies within one aligned 8-byte granule. */
static void check_access_within8(uintptr_t address, size_t size, bool is_write, uint32_t place) {
    mark_t *word = find_word8(address, 0);
    if (*word == IGNORED) return;
    if (*word != SPLIT && size < 8) split_granule8(address);
    if (*word != SPLIT) {
        check_granule(word, find_word8(address, 1), find_word8(address, 2), address, 8, is_write, place);
        return;
    }
    while (size) {
        size_t part = 4 - address % 4 < size ? 4 - address % 4 : size;
        check_access_within4(address, part, is_write, place);
        address += part;
        size -= part;
    }
}

/* Check a memory access of any size and alignment for races. `place`: the code place, with the bit ATOMIC for an atomic
 * access. */
void check_access(uintptr_t address, size_t size, bool is_write, uint32_t place) {
    now.touched = true;
    note_lowest_stack_address(address);
    while (size) {
        size_t part = 8 - address % 8 < size ? 8 - address % 8 : size;
        check_access_within8(address, part, is_write, place);
        address += part;
        size -= part;
    }
}

/* Check a copy or fill of many bytes by a library function: for races, and against the copies on the device. */
void check_range_access(uintptr_t address, size_t size, bool is_write, uint32_t place) {
    if (now.devices && size) check_mapped_access(address, size, is_write, place);
    if (now.on) check_access(address, size, is_write, place);
}

/* Set shadow words to zero; words that are zero already are not written, so that untouched pages stay unmapped. */
static void zero_words(mark_t *words, size_t byte_count) {
    size_t i = 0;
    for (uint64_t two; i + 2 <= byte_count / sizeof *words; i += 2) {
        memcpy(&two, words + i, sizeof two);
        if (two) words[i] = words[i + 1] = 0;
    }
    if (i < byte_count / sizeof *words && words[i]) words[i] = 0;
}

#define PAGE 8192 /* of memory that has a page of the coarsest plane */

/* Forget all accesses to the memory [low, high), because it is about to be reused. */
void clear_shadow(uintptr_t low, uintptr_t high) {
    forget_notes_of(low, high);
    low &= ~(uintptr_t)7;
    high = (high + 7) & ~(uintptr_t)7;
    uintptr_t inner = (low + PAGE - 1) & ~(uintptr_t)(PAGE - 1), end = high & ~(uintptr_t)(PAGE - 1);
    if (high - low < 64 * PAGE) {
        for (int p = 0; p < 3; p++) zero_words(find_word8(low, p), (high - low) / 2);
        return;
    }
    for (int p = 0; p < 3; p++) {
        madvise(find_word8(inner, p), (end - inner) / 2, MADV_DONTNEED);
        madvise(find_word4(inner, p), end - inner, MADV_DONTNEED);
        madvise(find_word1(inner, p), 4 * (end - inner), MADV_DONTNEED);
        zero_words(find_word8(low, p), (inner - low) / 2);
        zero_words(find_word8(end, p), (high - end) / 2);
    }
}

/* Exempt the memory [low, high), which belongs to the runtime, from all checks. */
void ignore_memory(uintptr_t low, uintptr_t high) {
    for (uintptr_t address = low & ~(uintptr_t)7; address < high; address += 8) *find_word8(address, 0) = IGNORED;
    forget_all_notes();
}
