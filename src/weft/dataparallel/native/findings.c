/* What was found, as JSON lines: one when it is first seen, one with its count at the end.
 *
 *   {"id":1,"kind":"loop-dependence","why":"flow","construct":2,"iteration":[3],"data":5,"index":[2],...}
 *   {"id":1,"count":7}
 *   {"usage":"undistributed-on","construct":2,"data":5}
 *   {"ran":2,"times":1}, {"places":57}: what was looked at (ran.c)
 *   {"stack":8192}: the program ended because its stack of so many KiB was full
 *
 * A finding is kept once for (kind, why, construct, place, variable). weft.dataparallel.findings reads the file.
 */
#include "findings.h"

#include "access.h"
#include "cells.h"
#include "lines.h"
#include "loops.h"
#include "objects.h"
#include "ran.h"
#include "regions.h"
#include "sites.h"
#include "under_way.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define MOST 4096
static struct known {
    const char *kind, *why;
    int construct, data;
    uintptr_t place;
    uint64_t count, told;
} known[MOST];
static int known_count;

/* Count a finding that is known already and return 0; else add it and return its new id. Also 0 if the table is full or
 * nothing is written. */
static int add_finding_or_count(const char *kind, const char *why, int construct_id, int variable_id, uintptr_t pc) {
    for (int i = 0; i < known_count; i++) {
        struct known *k = &known[i];
        if (k->place == pc && k->construct == construct_id && k->data == variable_id && !strcmp(k->kind, kind) &&
            (k->why == why || (k->why && why && !strcmp(k->why, why)))) {
            k->count++;
            return 0;
        }
    }
    if (lines_file < 0 || known_count == MOST) return 0;
    known[known_count] = (struct known){kind, why, construct_id, variable_id, pc, 1, 1};
    return ++known_count;
}

/* A place of the program: a number of the front end's, or a return address. */
static void write_place(struct line *line, uintptr_t pc) {
    if (pc < 0x400000) put_number(line, "site", (int64_t)pc >> 2);
    else put_number(line, "pc", (int64_t)pc);
}

/* Return a JSON line that begins with a finding's id, kind, reason, construct and place. */
static struct line begin_finding_line(int finding_id, const char *kind, const char *why, int construct_id,
                                      uintptr_t pc) {
    struct line line = begin_json_line();
    put_number(&line, "id", finding_id);
    put_text(&line, "kind", kind);
    put_text(&line, "why", why ? why : "");
    put_number(&line, "construct", construct_id);
    write_place(&line, pc);
    return line;
}

/* Append the indices of the current iteration and the number of the current task, where there are any. */
static void append_current_iteration(struct line *line) {
    update_current_index();
    if (weft_construct.what == LOOP && weft_construct.started)
        put_numbers(line, "iteration", weft_construct.rank, weft_construct.index);
    if (weft_task.in_task) put_number(line, "task", weft_task.task);
}

/* Return how often findings of a kind have occurred until now, at all places together. */
uint64_t count_findings_of_kind(const char *kind) {
    uint64_t times = 0;
    for (int i = 0; i < known_count; i++)
        if (!strcmp(known[i].kind, kind)) times += known[i].count;
    return times;
}

/* Return the address of a finding's counter of occurrences; NULL if it is not in the table. */
static uint64_t *find_occurrence_counter(const struct detail *detail, int construct_id) {
    for (int i = 0; i < known_count; i++)
        if (known[i].place == detail->place && known[i].construct == construct_id && known[i].data == detail->data &&
            known[i].kind == detail->kind && known[i].why == detail->why)
            return &known[i].count;
    return NULL;
}

/* Report a wrong access: write its JSON line the first time, count it afterwards. Return the address of its counter,
 * which callers may increment for further occurrences; NULL if there is none. */
uint64_t *report_finding(const struct detail *detail) {
    int construct = detail->construct ? detail->construct : weft_construct.what == SEQUENTIAL ? 0 : weft_construct.id;
    int id = add_finding_or_count(detail->kind, detail->why, construct, detail->data, detail->place);
    if (!id) return find_occurrence_counter(detail, construct);
    int64_t index[WEFT_MAX_RANK];
    struct line line = begin_finding_line(id, detail->kind, detail->why, construct, detail->place);
    append_current_iteration(&line);
    put_number(&line, "data", detail->data);
    put_number(&line, "address", (int64_t)detail->address);
    put_number(&line, "bytes", (int64_t)detail->size);
    put_truth(&line, "write", detail->write);
    const struct object *object = detail->object;
    if (object && object->array) {
        compute_element_index(object, detail->address, index);
        put_numbers(&line, "index", object->rank, index);
        put_number(&line, "name", object->first_data);
        if (object->order == WEFT_ORDER_FORTRAN) put_text(&line, "order", "fortran");
        if (detail->has_delta) put_numbers(&line, "delta", object->rank, detail->delta);
    }
    if (object) put_number(&line, "offset", (int64_t)(detail->address - object->low));
    int n = detail->other > now.base ? find_iteration_of_stamp(detail->other, index) : 0;
    if (n) put_numbers(&line, "other", n, index);
    /* the places that may have made the other access: those of this construct on the same variable */
    put_begin(&line, "places", '[');
    int places = 0;
    for (const struct site *site = sites_opened(); site && places < 4 && object;
         site = site->next == site ? NULL : site->next) {
        if (site->object != object || site->place == detail->place || !(site->write || detail->write)) continue;
        places++;
        put_begin(&line, NULL, '{');
        write_place(&line, site->place);
        put_truth(&line, "write", site->write);
        put_end(&line, '}');
    }
    put_end(&line, ']');
    send_line(&line);
    return find_occurrence_counter(detail, construct);
}

/* Append which value was used in which dimension, and the range that it should lie in. */
static void write_value_and_range(struct line *line, int variable_id, int dimension, int64_t value, int64_t low,
                                  int64_t high) {
    put_number(line, "data", variable_id);
    put_number(line, "dimension", dimension);
    put_number(line, "value", value);
    put_number(line, "low", low);
    put_number(line, "high", high);
}

/* Report an index outside low..high in one dimension of a variable. */
void report_index_out_of_bounds(int variable_id, uintptr_t base_address, int dimension, int64_t index, int64_t low,
                                int64_t high, uintptr_t pc) {
    (void)base_address;
    int construct = weft_construct.what == SEQUENTIAL ? 0 : weft_construct.id;
    int id = add_finding_or_count("out-of-bounds", NULL, construct, variable_id, pc);
    if (!id) return;
    struct line line = begin_finding_line(id, "out-of-bounds", NULL, construct, pc);
    append_current_iteration(&line);
    write_value_and_range(&line, variable_id, dimension, index, low, high);
    send_line(&line);
}

/* Report an index outside an array's bounds that -fsanitize=bounds found at a line and column. */
void report_index_out_of_bounds_at_line(const char *file, unsigned source_line, unsigned column, const char *type,
                                        int64_t index) {
    int construct = weft_construct.what == SEQUENTIAL ? 0 : weft_construct.id;
    uintptr_t place = ((uintptr_t)source_line << 12 | column) ^ (uintptr_t)file;
    int id = add_finding_or_count("out-of-bounds", NULL, construct, 0, place);
    if (!id) return;
    struct line line = begin_finding_line(id, "out-of-bounds", NULL, construct, 0);
    append_current_iteration(&line);
    put_number(&line, "line", source_line);
    put_number(&line, "column", column);
    put_number(&line, "value", index);
    put_text(&line, "file", file);
    put_text(&line, "type", type);
    send_line(&line);
}

/* Report a number in a directive that lies outside low..high as declared. `dimension` counts from 0; `why` names the
 * directive. */
void report_directive_parameter(const char *why, int construct_id, int variable_id, int dimension, int64_t value,
                                int64_t low, int64_t high) {
    int id = add_finding_or_count("out-of-bounds", why, construct_id, variable_id, (uintptr_t)dimension);
    if (!id) return;
    struct line line = begin_finding_line(id, "out-of-bounds", why, construct_id, 0);
    append_current_iteration(&line);
    write_value_and_range(&line, variable_id, dimension + 1, value, low, high);
    send_line(&line);
}

/* Report a value in a localized array that is no index its own processor has. `target_id`: the array that it should
 * index; `index`: where the value stands. */
void report_remote_localized_value(int construct_id, int variable_id, int target_id, const int64_t index[],
                                   int dimension_count, int64_t value) {
    int id = add_finding_or_count("remote-access", "localize", construct_id, variable_id, (uintptr_t)target_id);
    if (!id) return;
    struct line line = begin_finding_line(id, "remote-access", "localize", construct_id, 0);
    put_number(&line, "data", variable_id);
    put_number(&line, "array", target_id);
    put_number(&line, "number", value);
    put_numbers(&line, "index", dimension_count, index);
    send_line(&line);
}

/* Report a directive that cannot be right where it stands. `variable_id`: the group or variable that it names. */
void report_misplaced_directive(const char *why, int construct_id, int variable_id) {
    int id = add_finding_or_count("directive-order", why, construct_id, variable_id, 0);
    if (!id) return;
    struct line line = begin_finding_line(id, "directive-order", why, construct_id, 0);
    put_number(&line, "data", variable_id);
    send_line(&line);
}

/* Report a reduction whose result is wrong, or whose partial value went into another variable (`other_variable_id`; 0:
 * none). The place is that of its last read, or of the write into the other variable. */
void report_reduction_fault(const char *kind, const char *why, const struct reduction *reduction, const char *expected,
                            const char *got, int other_variable_id) {
    int id = add_finding_or_count(kind, why, weft_construct.id, reduction->data,
                                  other_variable_id ? (uintptr_t)other_variable_id << 2 : 0);
    if (!id) return;
    uintptr_t place = reduction->reader;
    for (const struct site *site = other_variable_id ? sites_opened() : NULL; site;
         site = site->next == site ? NULL : site->next)
        if (site->object && site->object->data == other_variable_id && site->write)
            place = site->place; /* what the partial value went into */
    struct line line = begin_finding_line(id, kind, why, weft_construct.id, place);
    put_number(&line, "data", reduction->data);
    put_number(&line, "operation", reduction->operation);
    put_number(&line, "array", other_variable_id);
    put_text(&line, "expected", expected);
    put_text(&line, "got", got);
    send_line(&line);
}

/* Write how often a construct ran and how many iterations it had in all. */
void write_line_of_run_counts(int construct_id, uint64_t times, uint64_t iterations) {
    if (!lines_ours()) return;
    struct line line = begin_json_line();
    put_number(&line, "ran", construct_id);
    put_number(&line, "times", (int64_t)times);
    put_number(&line, "iterations", (int64_t)iterations);
    send_line(&line);
}

/* Write at how many places of the program accesses were examined. */
void write_line_of_place_count(unsigned count) {
    struct line line = begin_json_line();
    put_number(&line, "places", count);
    send_line(&line);
}

/* Write why the program cannot be checked and which construct and variable are at fault, then end the process. */
void stop_for_usage_error(const char *why, int construct_id, int variable_id) {
    write_usage_error(why, construct_id, variable_id);
    weft_check_flush();
    fflush(NULL);
    _exit(2);
}

int weft_check_active(void) { return !now.off; }

/* Write the counts of findings that changed since the last call, and what ran. Only the process that opened the file
 * writes. */
void weft_check_flush(void) {
    if (!lines_ours()) return;
    for (int i = 0; i < known_count; i++) {
        if (known[i].count == known[i].told) continue;
        struct line line = begin_json_line();
        put_number(&line, "id", i + 1);
        put_number(&line, "count", (int64_t)known[i].count);
        known[i].told = known[i].count;
        send_line(&line);
    }
    write_final_counts();
}

/* Its own stack: that of the program may be what is full. */
static char aside[8 * sizeof(struct line) + 32768];
static uintptr_t stack_top;

/* Return whether a faulting address lies where the main thread's stack would have grown to. `stack_limit`: RLIMIT_STACK
 * in bytes. */
static bool is_stack_overflow(uintptr_t fault_address, rlim_t stack_limit) {
    rlim_t gap = (rlim_t)128 << 20; /* Linux keeps at least so much free below the stack's end */
    return stack_limit != RLIM_INFINITY && fault_address < stack_top &&
           stack_top - fault_address <= (stack_limit > gap ? stack_limit + gap : gap);
}

/* Signal handler: note a stack overflow, write what was found until now, then end the process by the same signal. Runs
 * on its own stack. */
static void handle_fatal_signal(int signal_number, siginfo_t *info, void *context) {
    struct rlimit stack;
    (void)context;
    if (signal_number == SIGSEGV && info->si_code == SEGV_MAPERR && getpid() == lines_owner &&
        !getrlimit(RLIMIT_STACK, &stack) && is_stack_overflow((uintptr_t)info->si_addr, stack.rlim_cur)) {
        struct line line = begin_json_line();
        put_number(&line, "stack", (int64_t)(stack.rlim_cur >> 10));
        send_line(&line);
    }
    weft_check_flush();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Map [low, high) for shadow cells, without using memory until they are touched. Return whether the addresses were
 * free. */
static bool reserve_shadow_memory(uintptr_t low, uintptr_t high) {
    void *p = mmap((void *)low, high - low, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != (void *)low) return false;
    /* The child that verifies reductions does not check. Processors that are traced mark what they declare. */
    if (!getenv("WEFT_INTERNAL_CHECK_TRACE")) madvise(p, high - low, MADV_DONTFORK);
    return true;
}

/* Open the findings file and reserve the shadow memory. Return false if nothing is to be checked or memory is not to be
 * had; the latter is reported. */
static bool open_findings_and_shadow_memory(void) {
    if (!open_findings_file()) return false;
    if (reserve_shadow_memory(SPACE8, SPACE8 + FOLD + 1) && reserve_shadow_memory(SPACE4, SPACE4 + 2 * (FOLD + 1)) &&
        reserve_shadow_memory(SPACE1, END1))
        return true;
    write_usage_error("no-memory", 0, 0);
    return false;
}

static void handle_program_end(void) {
    if (getpid() == lines_owner) report_unfinished_copies();
    weft_check_flush();
}

/* When the program is loaded: if a check is wanted, open the findings file, watch for fatal signals and the program's
 * end, and switch the checks on. */
__attribute__((constructor(101))) static void start_checking(void) {
    if (!open_findings_and_shadow_memory()) return;
    stack_t own = {.ss_sp = aside, .ss_size = sizeof aside};
    stack_top = (uintptr_t)&own;
    sigaltstack(&own, NULL);
    install_fatal_signal_handler(handle_fatal_signal, SA_ONSTACK);
    atexit(handle_program_end);
    now.off = false;
}

__attribute__((destructor)) static void end(void) { weft_check_flush(); }
