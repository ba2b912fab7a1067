/* What was found, as JSON lines: one when it is first seen, one with its count at the end.
 *
 *   {"modules":[{"path":"/home/me/a.out","base":94000,"size":8192}, ...]}
 *   {"id":1,"kind":"loop-dependence","why":"flow","construct":2,"iteration":[3],"data":5,"index":[2],...}
 *   {"id":1,"count":7}
 *   {"usage":"undistributed-on","construct":2,"data":5}
 *   {"ran":2,"times":1}, {"places":57}: what was looked at (ran.c)
 *   {"stack":8192}: the program ended because its stack of so many KiB was full
 *
 * A finding is kept once for (kind, why, construct, place, variable). weft.dataparallel.findings reads the file.
 */
#include "state.h"

#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MOST 4096
static struct known {
    const char *kind, *why;
    int construct, data;
    uintptr_t place;
    uint64_t count, told;
} known[MOST];
static int known_count;
static int file = -1;
static pid_t owner;

struct line {
    char text[4096];
    size_t size;
};

static void put(struct line *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(l->text + l->size, sizeof l->text - l->size, format, arguments);
    va_end(arguments);
    if (n > 0) l->size += (size_t)n < sizeof l->text - l->size ? (size_t)n : sizeof l->text - l->size - 1;
}

static void put_text(struct line *l, const char *name, const char *text) {
    put(l, ",\"%s\":\"", name);
    for (; *text && l->size + 8 < sizeof l->text; text++)
        if (*text == '"' || *text == '\\') put(l, "\\%c", *text);
        else if ((unsigned char)*text < 32) put(l, "\\u%04x", *text);
        else put(l, "%c", *text);
    put(l, "\"");
}

static void put_numbers(struct line *l, const char *name, int n, const int64_t values[]) {
    put(l, ",\"%s\":[", name);
    for (int i = 0; i < n; i++) put(l, "%s%lld", i ? "," : "", (long long)values[i]);
    put(l, "]");
}

static void send(struct line *l) {
    put(l, "\n");
    for (size_t done = 0; done < l->size;) {
        ssize_t n = write(file, l->text + done, l->size - done);
        if (n <= 0) return;
        done += (size_t)n;
    }
}

static int module(struct dl_phdr_info *info, size_t size, void *p) {
    (void)size;
    struct line *l = p;
    uintptr_t high = 0;
    char self[512];
    const char *path = info->dlpi_name;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz > high)
            high = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    if (!*path) {
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        self[n > 0 ? n : 0] = 0, path = self;
    }
    if (l->size + 600 < sizeof l->text && *path == '/') {
        put(l, "%s{\"base\":%llu,\"size\":%llu", l->text[l->size - 1] == '[' ? "" : ",",
            (unsigned long long)info->dlpi_addr, (unsigned long long)high);
        put_text(l, "path", path);
        put(l, "}");
    }
    return 0;
}

/* 0: this was known and is counted; else its new id. */
static int enter(const char *kind, const char *why, int construct, int data, uintptr_t place) {
    for (int i = 0; i < known_count; i++) {
        struct known *k = &known[i];
        if (k->place == place && k->construct == construct && k->data == data && !strcmp(k->kind, kind) &&
            (k->why == why || (k->why && why && !strcmp(k->why, why)))) {
            k->count++;
            return 0;
        }
    }
    if (file < 0 || known_count == MOST) return 0;
    known[known_count] = (struct known){kind, why, construct, data, place, 1, 1};
    return ++known_count;
}

static void begin(struct line *l, int id, const char *kind, const char *why, int construct, uintptr_t place) {
    l->size = 0;
    put(l, "{\"id\":%d,\"kind\":\"%s\",\"why\":\"%s\",\"construct\":%d", id, kind, why ? why : "", construct);
    if (place < 0x400000) put(l, ",\"site\":%llu", (unsigned long long)place >> 2);
    else put(l, ",\"pc\":%llu", (unsigned long long)place);
}

static void put_iteration(struct line *l) {
    loop_index();
    if (here.what == LOOP && here.started) put_numbers(l, "iteration", here.rank, here.index);
    if (weft_task.in_task) put(l, ",\"task\":%lld", (long long)weft_task.task);
}

uint64_t times_found(const char *kind) {
    uint64_t times = 0;
    for (int i = 0; i < known_count; i++)
        if (!strcmp(known[i].kind, kind)) times += known[i].count;
    return times;
}

/* The finding's count: NULL where it is not to be had. */
static uint64_t *count_of(const struct detail *d, int construct) {
    for (int i = 0; i < known_count; i++)
        if (known[i].place == d->place && known[i].construct == construct && known[i].data == d->data &&
            known[i].kind == d->kind && known[i].why == d->why)
            return &known[i].count;
    return NULL;
}

uint64_t *found(const struct detail *d) {
    int construct = d->construct ? d->construct : here.what == SEQUENTIAL ? 0 : here.id;
    int id = enter(d->kind, d->why, construct, d->data, d->place);
    if (!id) return count_of(d, construct);
    struct line l;
    int64_t index[WEFT_MAX_RANK];
    begin(&l, id, d->kind, d->why, construct, d->place);
    put_iteration(&l);
    put(&l, ",\"data\":%d,\"address\":%llu,\"bytes\":%zu,\"write\":%s", d->data, (unsigned long long)d->address,
        d->size, d->write ? "true" : "false");
    const struct object *o = d->object;
    if (o && o->array) {
        index_of(o, d->address, index);
        put_numbers(&l, "index", o->rank, index);
        put(&l, ",\"offset\":%llu,\"name\":%d,\"distributed\":%s", (unsigned long long)(d->address - o->low),
            o->first_data, o->distributed ? "true" : "false");
        if (o->order == WEFT_ORDER_FORTRAN) put(&l, ",\"order\":\"fortran\"");
        if (d->has_delta) put_numbers(&l, "delta", o->rank, d->delta);
        put_numbers(&l, "lower", o->rank, o->lower);
        put_numbers(&l, "extent", o->rank, o->extent);
        put_numbers(&l, "widths", o->rank, o->shadow.low);
    } else if (o) {
        put(&l, ",\"offset\":%llu", (unsigned long long)(d->address - o->low));
    }
    int n = d->other > now.base ? iteration_of(d->other, index) : 0;
    if (n) put_numbers(&l, "other", n, index);
    /* the places that may have made the other access: those of this construct on the same variable */
    put(&l, ",\"places\":[");
    int places = 0;
    for (const struct site *s = sites_opened(); s && places < 4 && o; s = s->next == s ? NULL : s->next)
        if (s->object == o && s->place != d->place && (s->write || d->write))
            put(&l, "%s{\"%s\":%llu,\"write\":%s}", places++ ? "," : "", s->place < 0x400000 ? "site" : "pc",
                (unsigned long long)(s->place < 0x400000 ? s->place >> 2 : s->place), s->write ? "true" : "false");
    put(&l, "]}");
    send(&l);
    return count_of(d, construct);
}

void findings_bounds(int data, uintptr_t base, int dimension, int64_t index, int64_t low, int64_t high,
                     uintptr_t place) {
    (void)base;
    int construct = here.what == SEQUENTIAL ? 0 : here.id;
    int id = enter("out-of-bounds", NULL, construct, data, place);
    if (!id) return;
    struct line l;
    begin(&l, id, "out-of-bounds", NULL, construct, place);
    put_iteration(&l);
    put(&l, ",\"data\":%d,\"dimension\":%d,\"value\":%lld,\"low\":%lld,\"high\":%lld}", data, dimension,
        (long long)index, (long long)low, (long long)high);
    send(&l);
}

void findings_place(const char *at, unsigned row, unsigned column, const char *type, int64_t index) {
    int construct = here.what == SEQUENTIAL ? 0 : here.id;
    uintptr_t place = ((uintptr_t)row << 12 | column) ^ (uintptr_t)at;
    int id = enter("out-of-bounds", NULL, construct, 0, place);
    if (!id) return;
    struct line l;
    begin(&l, id, "out-of-bounds", NULL, construct, 0);
    put_iteration(&l);
    put(&l, ",\"line\":%u,\"column\":%u,\"value\":%lld", row, column, (long long)index);
    put_text(&l, "file", at);
    put_text(&l, "type", type);
    put(&l, "}");
    send(&l);
}

/* A number of a directive that does not fit what was declared; dimension from 0. */
void findings_parameter(const char *why, int construct, int data, int dimension, int64_t value, int64_t low,
                        int64_t high) {
    int id = enter("out-of-bounds", why, construct, data, (uintptr_t)dimension);
    if (!id) return;
    struct line l;
    begin(&l, id, "out-of-bounds", why, construct, 0);
    put_iteration(&l);
    put(&l, ",\"data\":%d,\"dimension\":%d,\"value\":%lld,\"low\":%lld,\"high\":%lld}", data, dimension + 1,
        (long long)value, (long long)low, (long long)high);
    send(&l);
}

/* A number in an array that is localized, and is no index that its processor has. */
void findings_localize(int construct, int data, int target, const int64_t index[], int rank, int64_t value) {
    int id = enter("remote-access", "localize", construct, data, (uintptr_t)target);
    if (!id) return;
    struct line l;
    begin(&l, id, "remote-access", "localize", construct, 0);
    put(&l, ",\"data\":%d,\"array\":%d,\"number\":%lld", data, target, (long long)value);
    put_numbers(&l, "index", rank, index);
    put(&l, "}");
    send(&l);
}

/* A directive that cannot be right where it stands; the construct tells where. */
void findings_directive(const char *why, int construct, int data) {
    int id = enter("directive-order", why, construct, data, 0);
    if (!id) return;
    struct line l;
    begin(&l, id, "directive-order", why, construct, 0);
    put(&l, ",\"data\":%d}", data);
    send(&l);
}

void findings_reduction(const char *kind, const char *why, const struct reduction *r, const char *expected,
                        const char *got, int other_data) {
    int id = enter(kind, why, here.id, r->data, other_data ? (uintptr_t)other_data << 2 : 0);
    if (!id) return;
    struct line l;
    uintptr_t place = r->reader;
    for (const struct site *s = other_data ? sites_opened() : NULL; s; s = s->next == s ? NULL : s->next)
        if (s->object && s->object->data == other_data && s->write)
            place = s->place; /* what the partial value went into */
    begin(&l, id, kind, why, here.id, place);
    put(&l, ",\"data\":%d,\"operation\":%d,\"array\":%d", r->data, r->operation, other_data);
    put_text(&l, "expected", expected);
    put_text(&l, "got", got);
    put(&l, "}");
    send(&l);
}

void findings_ran(int construct, uint64_t times, uint64_t iterations) {
    struct line l = {.size = 0};
    if (file < 0 || getpid() != owner) return;
    put(&l, "{\"ran\":%d,\"times\":%llu,\"iterations\":%llu}", construct, (unsigned long long)times,
        (unsigned long long)iterations);
    send(&l);
}

void findings_places(unsigned count) {
    struct line l = {.size = 0};
    put(&l, "{\"places\":%u}", count);
    send(&l);
}

void usage_error(const char *why, int construct, int data) {
    struct line l = {.size = 0};
    put(&l, "{\"usage\":\"%s\",\"construct\":%d,\"data\":%d}", why, construct, data);
    send(&l);
    weft_check_flush();
    fflush(NULL);
    _exit(2);
}

int weft_check_active(void) { return !now.off; }

void weft_check_flush(void) {
    if (file < 0 || getpid() != owner) return;
    for (int i = 0; i < known_count; i++) {
        if (known[i].count == known[i].told) continue;
        struct line l = {.size = 0};
        put(&l, "{\"id\":%d,\"count\":%llu}", i + 1, (unsigned long long)known[i].count);
        known[i].told = known[i].count;
        send(&l);
    }
    ran_end();
}

/* Its own stack: that of the program may be what is full. */
static char aside[8 * sizeof(struct line) + 32768];
static uintptr_t stack_top;

/* Whether an address that is not there lies where the first thread's stack would have grown to; nothing else does. */
static bool beyond_stack(uintptr_t a, rlim_t size) {
    rlim_t gap = (rlim_t)128 << 20; /* Linux keeps at least so much free below the stack's end */
    return size != RLIM_INFINITY && a < stack_top && stack_top - a <= (size > gap ? size + gap : gap);
}

static void died(int number, siginfo_t *why, void *context) {
    struct rlimit stack;
    (void)context;
    if (number == SIGSEGV && why->si_code == SEGV_MAPERR && getpid() == owner && !getrlimit(RLIMIT_STACK, &stack) &&
        beyond_stack((uintptr_t)why->si_addr, stack.rlim_cur)) {
        struct line l = {.size = 0};
        put(&l, "{\"stack\":%llu}", (unsigned long long)stack.rlim_cur >> 10);
        send(&l);
    }
    weft_check_flush();
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_ends(void) {
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGHUP, SIGXCPU};
    stack_t own = {.ss_sp = aside, .ss_size = sizeof aside};
    struct sigaction ours = {.sa_sigaction = died, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_top = (uintptr_t)&own;
    sigaltstack(&own, NULL);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        struct sigaction old;
        if (sigaction(fatal[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(fatal[i], &ours, NULL);
    }
}

static bool space(uintptr_t low, uintptr_t high) {
    void *p = mmap((void *)low, high - low, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != (void *)low) return false;
    /* The child that verifies reductions does not check. Processors that are traced mark what they declare. */
    if (!getenv("WEFT_INTERNAL_CHECK_TRACE")) madvise(p, high - low, MADV_DONTFORK);
    return true;
}

bool findings_open(void) {
    const char *path = getenv("WEFT_INTERNAL_CHECK_FINDINGS");
    if (!path || !*path) return false;
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0) {
        fprintf(stderr, "weft: %s cannot be written, so nothing is checked\n", path);
        return false;
    }
    /* High, so that a program that counts its descriptors sees what it would see. */
    int higher = fcntl(file, F_DUPFD_CLOEXEC, 200);
    if (higher >= 0) close(file), file = higher;
    if (!space(SPACE8, SPACE8 + FOLD + 1) || !space(SPACE4, SPACE4 + 2 * (FOLD + 1)) || !space(SPACE1, END1)) {
        struct line l = {.size = 0};
        put(&l, "{\"usage\":\"no-memory\",\"construct\":0,\"data\":0}");
        send(&l);
        return false;
    }
    owner = getpid();
    struct line l = {.size = 0};
    put(&l, "{\"modules\":[");
    dl_iterate_phdr(module, &l);
    put(&l, "]}");
    send(&l);
    return true;
}

static void ended(void) {
    if (getpid() == owner) under_way_end();
    weft_check_flush();
}

__attribute__((constructor(101))) static void start(void) {
    if (!findings_open()) return;
    unsetenv("WEFT_INTERNAL_CHECK_FINDINGS"); /* not for the program's children */
    watch_ends();
    atexit(ended);
    now.off = false;
}

__attribute__((destructor)) static void end(void) { weft_check_flush(); }
