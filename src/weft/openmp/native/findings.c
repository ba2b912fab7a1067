/* What was found, as JSON lines: once for each pair of places, with how often. */
#include "lines.h"
#include "openmp.h"

static struct pair {
    uint32_t place, other;
    uint8_t how; /* bits: written by both */
    bool crosses; /* iterations of different numbers, too */
    const char *kind;
    uint64_t count, told;
    int id;
} pairs[4096];
static int last_id;

/* Return the table slot for a finding of this kind at a pair of code places: the pair's own, or the free one for it;
 * NULL if the table is full. */
static struct pair *find_pair_slot(const char *kind, uint32_t place, uint32_t other, uint8_t access_bits) {
    uint32_t hash = (place * 2654435761u ^ other * 40503u ^ access_bits) >> 8;
    for (int i = 0; i < 4096; i++) {
        struct pair *pair = &pairs[(hash + (uint32_t)i) % 4096];
        if (!pair->id ||
            (pair->place == place && pair->other == other && pair->how == access_bits && pair->kind == kind))
            return pair;
    }
    return NULL;
}

/* Return the table entry for a finding of this kind at a pair of code places; a new one gets an id. NULL if there are
 * 2048 already. */
static struct pair *find_or_add_pair(const char *kind, uint32_t place, uint32_t other, uint8_t access_bits) {
    struct pair *pair = find_pair_slot(kind, place, other, access_bits);
    if (!pair || pair->id) return pair;
    if (last_id >= 2048) return NULL;
    *pair = (struct pair){.place = place, .other = other, .how = access_bits, .kind = kind, .id = ++last_id};
    return pair;
}

/* Count a finding at a pair of code places. Return its entry the first time, so that the caller writes it out; NULL
 * after that, or if it cannot be written. */
static struct pair *count_pair(const char *kind, uint32_t place, uint32_t other, uint8_t access_bits) {
    struct pair *pair = lines_file < 0 ? NULL : find_or_add_pair(kind, place, other, access_bits);
    return pair && pair->count++ == 0 && lines_ours() ? pair : NULL;
}

static int64_t pc_of(uint32_t place) { return (int64_t)(now.start + (place & ~ATOMIC)); }

static const char *const MAKERS[] = {"task", "target", "copy"};
static const char *const NAMES[] = {"host", "region", "thread", "iteration", "section",
                                    "task", "",       "",       "lane",      "single"};

/* Return the number of the target-construct task that a strand (iteration, task or thread) belongs to; 0 if there is
 * none. */
static int64_t find_device_task_number(strand_t strand) {
    for (; strand >= weft_first; strand = node(strand)->parent)
        if (node(strand)->kind == TASK && node(strand)->loop != BY_TASK) return node(strand)->index;
    return 0;
}

/* Return the strand of the innermost parallel region that a strand belongs to; 0 outside of all. */
static strand_t find_region(strand_t strand) {
    while (strand >= weft_first && node(strand)->kind != REGION) strand = node(strand)->parent;
    return strand >= weft_first ? strand : 0;
}

/* Append an object that describes a strand (iteration, task or thread) to a line of JSON. */
static void put_strand(struct line *line, const char *name, strand_t strand) {
    bool has_lock = holds_lock(strand);
    strand = find_whole_strand(strand);
    const struct node *strand_node = node(strand);
    put_begin(line, name, '{');
    put_truth(line, "has_lock", has_lock);
    put_text(line, "what", strand_node->kind == TASK ? MAKERS[strand_node->loop] : NAMES[strand_node->kind]);
    put_number(line, "index", strand_node->index);
    put_number(line, "number",
               strand_node->kind == ITERATION ? find_iteration_number(strand_node->loop, strand_node->index) : -1);
    put_number(line, "pc", pc_of(strand_node->place));
    put_number(line, "beside", find_device_task_number(strand));
    put_number(line, "strand", strand);
    put_number(line, "made_by", strand_node->kind == TASK ? find_whole_strand(strand_node->parent) : 0);
    put_number(line, "region", find_region(strand));
    put_number(line, "work", is_share(strand_node) ? strand_node->loop : 0);
    put_end(line, '}');
}

/* Append an object `name` with two named numbers to a line of JSON. */
static void put_number_pair(struct line *line, const char *name, const char *first_name, uintptr_t first,
                            const char *second_name, uintptr_t second) {
    put_begin(line, name, '{');
    put_number(line, first_name, (int64_t)first);
    put_number(line, second_name, (int64_t)second);
    put_end(line, '}');
}

extern char __start_weft_hooks, __stop_weft_hooks;

/* Return the return address of a frame. Access hooks have no frame of their own: if the address lies in one, return
 * `place` instead. */
static uintptr_t correct_hook_address(uintptr_t pc, uint32_t place) {
    bool is_hook = pc >= (uintptr_t)&__start_weft_hooks && pc < (uintptr_t)&__stop_weft_hooks;
    return is_hook ? (uintptr_t)pc_of(place) : pc;
}

/* Append the function whose stack frame holds an address: its return address and canonical frame address. Nothing if
 * none is found. */
static void put_frame(struct line *line, uintptr_t address, uint32_t place) {
    const struct thread *thread = find_stack_owner(address);
    if (!thread) return;
    uintptr_t frame = thread == me ? FRAME : thread->parked_frame;
    if (!frame) return;
    uintptr_t pc = 0;
    while (frame >= thread->stack_low && frame + 16 <= thread->stack_high) {
        const uintptr_t *words = (const uintptr_t *)frame;
        if (frame + 16 > address) {
            if (pc) put_number_pair(line, "frame", "pc", pc, "cfa", frame + 16);
            return;
        }
        pc = correct_hook_address(words[1], place);
        if (words[0] <= frame) return;
        frame = words[0];
    }
}

/* Append where unnamed memory lies: its heap block, or the stack frame that holds it. */
static void put_memory_origin(struct line *line, uintptr_t address, uint32_t place) {
    uintptr_t low;
    size_t size;
    int thread;
    strand_t since;
    if (find_heap_block(address, &low, &size, &thread, &since))
        put_number_pair(line, "block", "low", low, "size", size);
    else put_frame(line, address, place);
}

/* Return a new line of JSON with the fields that all findings share: id, kind, reason and both code places. */
static struct line begin_finding_line(const struct pair *pair, const char *why) {
    struct line l = begin_json_line();
    put_number(&l, "id", pair->id);
    put_text(&l, "kind", pair->kind);
    put_text(&l, "why", why);
    put_number(&l, "pc", pc_of(pair->place));
    put_number(&l, "other_pc", pair->other ? pc_of(pair->other) : 0);
    return l;
}

static void put_memory(struct line *line, uintptr_t address, size_t size) {
    put_number(line, "address", (int64_t)address);
    put_number(line, "bytes", (int64_t)size);
}

static const char RACE[] = "data-race", RACE_IN_CHUNK[] = "chunk-race";

/* Return whether a race between accesses at these two places was written already. */
bool is_race_reported(uint32_t place, uint32_t other, bool is_write, bool is_other_write) {
    const struct pair *pair =
        find_pair_slot(RACE, place & ~ATOMIC, other & ~ATOMIC, (uint8_t)(is_write | is_other_write << 1));
    return pair && pair->id;
}

/* Note at the entry of a race whether iterations of different numbers make it, too. */
static void note_crossing(const struct access *access, uint32_t place, uint32_t other, uint8_t access_bits) {
    struct pair *pair = find_pair_slot(RACE, place, other, access_bits);
    if (!pair || !pair->id || pair->crosses) return;
    const struct node one = *node(find_whole_strand(access->strand)), two = *node(find_whole_strand(access->other));
    pair->crosses = one.kind != ITERATION || two.kind != ITERATION || one.index != two.index;
}

/* Write a data race as a line of JSON, once for each pair of places and read/write combination; count it otherwise. */
void report_race(const struct access *access) {
    uint8_t access_bits = (uint8_t)(access->write | access->other_write << 1);
    uint32_t place = access->place & ~ATOMIC, other = access->other_place & ~ATOMIC;
    const struct pair *pair = count_pair(access->chunk ? RACE_IN_CHUNK : RACE, place, other, access_bits);
    note_crossing(access, place, other, access_bits);
    if (!pair) return;
    struct line line = begin_finding_line(pair, "");
    uint32_t caller = is_library_place(place) ? find_library_caller(place) : 0, other_caller = get_noted_caller(other);
    put_number(&line, "caller_pc", caller ? pc_of(caller) : 0);
    put_number(&line, "other_caller_pc", other_caller ? pc_of(other_caller) : 0);
    put_truth(&line, "write", access->write);
    put_truth(&line, "other_write", access->other_write);
    put_number(&line, "chunk", access->chunk);
    put_memory(&line, access->address, access->size);
    put_strand(&line, "strand", access->strand);
    put_strand(&line, "other", access->other);
    put_memory_origin(&line, access->address, place);
    send_line(&line);
}

/* Write a finding about stale or missing device copies as a line of JSON, once for each pair of places. */
void report_copy(const struct copy *copy) {
    const struct pair *pair =
        count_pair(copy->kind, copy->place, copy->other_place, (uint8_t)(copy->device | copy->write << 1));
    if (!pair) return;
    struct line line = begin_finding_line(pair, copy->why);
    put_truth(&line, "write", copy->write);
    put_truth(&line, "device", copy->device);
    put_memory(&line, copy->address, copy->size);
    put_numbers(&line, "near", 2, (const int64_t[]){(int64_t)copy->near[0], (int64_t)copy->near[1]});
    if (copy->region) put_number(&line, "region_pc", pc_of(copy->region));
    put_memory_origin(&line, copy->address, copy->place);
    send_line(&line);
}

/* Write a finding: a private variable was read before it had a value. */
void report_valueless_read(uintptr_t address, size_t size, uint32_t place) {
    const struct pair *pair = count_pair("valueless", place, 0, 0);
    if (!pair) return;
    struct line line = begin_finding_line(pair, "");
    put_memory(&line, address, size);
    put_strand(&line, "strand", me->current);
    put_frame(&line, address, place);
    send_line(&line);
}

/* Write a finding that has only a kind, a reason and one or two places, once, whichever place comes first. */
void report_plain_finding(const char *kind, const char *why, uint32_t place, uint32_t other) {
    const struct pair *swapped = find_pair_slot(kind, other, place, 0);
    if (place != other && swapped && swapped->id) return;
    const struct pair *pair = count_pair(kind, place, other, 0);
    if (!pair) return;
    struct line line = begin_finding_line(pair, why);
    send_line(&line);
}

void report_no_memory(void) { write_usage_error("no-memory", 0, 0); }

/* Write that the check runs `times` slower than the program, and that `share` percent of the overhead is in the
 * construct at `place`. */
void report_slow_check(uint32_t place, int times, int share) {
    struct line line = begin_json_line();
    put_number(&line, "slow", times);
    put_number(&line, "pc", place ? pc_of(place) : 0);
    put_number(&line, "share", share);
    send_line(&line);
}

static struct directive_line {
    uint32_t place, line;
} directive_lines[4096];

/* Remember the source line of a code place for which the compiler recorded none. */
void note_directive_line(uint32_t place, uint32_t line) {
    if (!line) return;
    for (uint32_t i = 0; i < 4096; i++) {
        struct directive_line *entry = &directive_lines[(place * 2654435761u + i) % 4096];
        if (entry->line && entry->place != place) continue;
        *entry = (struct directive_line){place, line};
        return;
    }
}

static struct construct_runs {
    uint32_t place;
    const char *kind;
    uint64_t times, iterations;
} construct_runs[4096];

/* Count one execution of the construct at a code place, and its iterations. */
uint64_t count_construct_run(uint32_t place, const char *kind, uint64_t iterations) {
    for (uint32_t i = 0; i < 4096; i++) {
        struct construct_runs *entry = &construct_runs[(place * 2654435761u + i) % 4096];
        if (entry->kind && (entry->place != place || strcmp(entry->kind, kind) != 0)) continue;
        entry->place = place;
        entry->kind = kind;
        entry->times++;
        entry->iterations += iterations;
        return entry->times;
    }
    return 0;
}

/* At the program's end: write how often each finding occurred, the source lines of places, and how often each construct
 * ran. */
void write_counts(void) {
    if (!lines_ours()) return;
    struct line line = begin_json_line();
    put_number(&line, "places", (int64_t)count_accessing_places());
    send_line(&line);
    for (int i = 0; i < 4096; i++) {
        struct pair *pair = &pairs[i];
        if (!pair->id || pair->count == pair->told) continue;
        line = begin_json_line();
        put_number(&line, "id", pair->id);
        put_number(&line, "count", (int64_t)pair->count);
        if (pair->crosses) put_truth(&line, "crosses", true);
        pair->told = pair->count;
        send_line(&line);
    }
    for (int i = 0; i < 4096; i++) {
        if (!directive_lines[i].line) continue;
        line = begin_json_line();
        put_number(&line, "place", pc_of(directive_lines[i].place));
        put_number(&line, "line", directive_lines[i].line);
        send_line(&line);
    }
    for (int i = 0; i < 4096; i++) {
        if (!construct_runs[i].kind) continue;
        line = begin_json_line();
        put_text(&line, "construct", construct_runs[i].kind);
        put_number(&line, "pc", pc_of(construct_runs[i].place));
        put_number(&line, "times", (int64_t)construct_runs[i].times);
        put_number(&line, "iterations", (int64_t)construct_runs[i].iterations);
        send_line(&line);
    }
}

/* Handle a signal that ends the program: write the counts, then raise the signal again with its default action. */
static void handle_fatal_signal(int signal_number, siginfo_t *signal_info, void *context) {
    (void)signal_info;
    (void)context;
    write_counts();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Open the output for findings. Return false if nobody asked for them; else the counts are written at the program's
 * end. */
bool open_findings(void) {
    if (!open_findings_file()) return false;
    install_fatal_signal_handler(handle_fatal_signal, SA_RESTART);
    atexit(write_counts);
    return true;
}
