// The writer of switches.h's files, for the parts of Weft that are told of tasks: tool.c (OpenMP) and steps.c (asyncio).
//
// It never touches the record of the rank, but reads in it, as any reader may, how many calls this thread has made.
#define _GNU_SOURCE
#include "switches.h"
#include "record.h"
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COLD __attribute__((noinline, cold))
#define RARELY(condition) __builtin_expect((condition) != 0, 0)
enum { CALL = sizeof(struct weft_event), SITES = 4096, MODULES = 256, RECENT = 64, LATEST = 1 << 20, FOUND = 1 << 16 };

// ---- the record of the rank, as a reader sees it ----

struct table { // of chunks, and its continuations
    const struct weft_chunk *chunks;
    const volatile void *count; // 4 bytes in the header, 8 in a continuation's link
    uint32_t at;
    bool first;
};

static struct {
    int fd;
    const struct weft_header *header;
    struct table definitions;
    const struct weft_chunk *newest; // chunk of DEFINITIONS
    uint64_t parsed; // bytes of DEFINITIONS that are known
} of_rank = {.fd = -1};

// A thread of the record: its number in the kernel, the slot it has from a call on.
static struct met {
    uint32_t tid, slot;
    uint64_t first;
} *met;
static size_t met_count, met_room;

// Map a part of the record.
static const void *map_record(uint64_t offset, uint64_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, of_rank.fd, (off_t)offset);
    return at == MAP_FAILED ? NULL : at;
}

static struct table table_begin(void) {
    return (struct table){of_rank.header->chunks, &of_rank.header->chunk_count, 0, true};
}

static uint64_t table_count(const struct table *t) {
    return t->first ? __atomic_load_n((const uint32_t *)t->count, __ATOMIC_ACQUIRE)
                    : __atomic_load_n((const uint64_t *)t->count, __ATOMIC_ACQUIRE);
}

// Return the next chunk of a stream; NULL if there is none so far, then the table is asked again from there later.
static COLD const struct weft_chunk *next_chunk(struct table *t, int kind, uint32_t thread) {
    while (t->at < table_count(t)) {
        const struct weft_chunk *chunk = &t->chunks[t->at];
        if (chunk->kind == WEFT_STREAM_TABLE) {
            const void *more = map_record(chunk->offset, (uint64_t)chunk->pages * WEFT_PAGE);
            if (more == NULL) return NULL;
            *t = (struct table){more, &chunk->used, 0, false};
            continue;
        }
        t->at++;
        if (chunk->kind == kind && chunk->thread == thread) return chunk;
    }
    return NULL;
}

static uint64_t used(const struct weft_chunk *chunk) { return __atomic_load_n(&chunk->used, __ATOMIC_ACQUIRE); }
static uint64_t size_of(const struct weft_chunk *chunk) { return (uint64_t)chunk->pages * WEFT_PAGE; }

// Return the open file of this process's record, so that no path of the program's need be understood for it.
static COLD int find_record(const char *run) {
    char folder[PATH_MAX], here[64], path[PATH_MAX];
    if (!realpath(run, folder) || strlen(folder) > PATH_MAX - 16) return -1;
    strcat(folder, "/ranks/");
    DIR *open_files = opendir("/proc/self/fd");
    int found = -1;
    for (struct dirent *entry; open_files && found < 0 && (entry = readdir(open_files));) {
        snprintf(here, sizeof here, "/proc/self/fd/%.20s", entry->d_name);
        ssize_t n = readlink(here, path, sizeof path - 1);
        if (n <= 5 || strncmp(path, folder, strlen(folder)) || strncmp(path + n - 5, ".weft", 5)) continue;
        found = open(here, O_RDONLY | O_CLOEXEC);
    }
    if (open_files) closedir(open_files);
    return found;
}

static COLD bool attach_record(const char *run) {
    of_rank.fd = find_record(run);
    of_rank.header = of_rank.fd < 0 ? NULL : map_record(0, WEFT_PAGE);
    const struct weft_header *h = of_rank.header;
    if (h != NULL && !memcmp(h->magic, WEFT_MAGIC, 8) && h->major == WEFT_FORMAT_MAJOR &&
        h->level == WEFT_LEVEL_TRACE && h->pid == (uint32_t)getpid()) {
        of_rank.definitions = table_begin();
        of_rank.newest = next_chunk(&of_rank.definitions, WEFT_STREAM_DEFINITIONS, 0);
        if (of_rank.newest != NULL) return true;
    }
    if (h != NULL) munmap((void *)h, WEFT_PAGE);
    if (of_rank.fd >= 0) close(of_rank.fd);
    of_rank.fd = -1;
    of_rank.header = NULL;
    return false;
}

// Read a varint, and advance `p`.
static uint64_t read_varint(const uint8_t **p, const uint8_t *end) {
    uint64_t value = 0;
    for (int shift = 0; *p < end && shift < 64; shift += 7) {
        uint8_t part = *(*p)++;
        value |= (uint64_t)(part & 0x7f) << shift;
        if (!(part & 0x80)) break;
    }
    return value;
}

// Return all of DEFINITIONS after what is known. Owned by the caller.
static COLD uint8_t *read_new_definitions(size_t *length) {
    struct table t = table_begin();
    uint64_t start = 0;
    uint8_t *bytes = NULL;
    *length = 0;
    for (const struct weft_chunk *c; (c = next_chunk(&t, WEFT_STREAM_DEFINITIONS, 0)) != NULL; start += used(c)) {
        uint64_t n = used(c), skip = of_rank.parsed > start ? of_rank.parsed - start : 0;
        if (skip >= n) continue;
        uint8_t *more = realloc(bytes, *length + (n - skip));
        if (more == NULL ||
            pread(of_rank.fd, more + *length, n - skip, (off_t)(c->offset + skip)) != (ssize_t)(n - skip)) {
            free(more != NULL ? more : bytes);
            return NULL;
        }
        bytes = more;
        *length += n - skip;
    }
    return bytes;
}

// Learn of the threads that have called MPI since the last call. The lock is held.
static COLD void learn_threads(void) {
    size_t length;
    uint8_t *bytes = read_new_definitions(&length);
    const uint8_t *p = bytes, *end = bytes + length;
    while (bytes != NULL && p < end) {
        const uint8_t *start = p;
        uint64_t type = read_varint(&p, end), size = read_varint(&p, end);
        if (type == 0 || size > (uint64_t)(end - p)) {
            p = start;
            break;
        }
        const uint8_t *q = p, *stop = p + size;
        p = stop;
        if (type != WEFT_DEF_THREAD) continue;
        if (met_count == met_room) {
            struct met *more = met_room < FOUND ? realloc(met, (met_room + 64) * 2 * sizeof *met) : NULL;
            if (more == NULL) break;
            met = more;
            met_room = (met_room + 64) * 2;
        }
        uint32_t slot = (uint32_t)read_varint(&q, stop);
        uint64_t first = read_varint(&q, stop);
        met[met_count++] = (struct met){(uint32_t)read_varint(&q, stop), slot, first};
    }
    of_rank.parsed += bytes != NULL ? (uint64_t)(p - bytes) : 0;
    free(bytes);
}

// ---- our own file ----

static char run_path[PATH_MAX], runtime_name[32];
static enum { OFF, WAITING, ON } state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of the file, the threads, and what is read of the record
static struct weft_record *file;
static struct weft_stream definitions;
static struct {
    uint8_t *bytes;
    size_t used, room;
} kept; // definitions from before there was a file
static uint32_t streams;
static pthread_key_t thread_end;
static uint64_t asked, ask_at = 1;

struct switches { // one a thread that has tasks
    struct weft_switch now;
    struct weft_switch *last; // its newest one in the file
    bool known; // its slot in the record is
    bool written; // `now` is in the file, or need not be
    bool closed; // its newest one is the last
    uint32_t slot;
    uint64_t first; // calls of the slot before this thread's own
    uint64_t before; // bytes of the slot's older chunks
    const struct weft_chunk *chunk;
    struct table table;
    uint64_t looked; // `used` of the definitions when its slot was looked for
    struct weft_stream stream;
    uint32_t number;
    struct {
        const void *address;
        uint32_t site;
    } recent[RECENT];
    struct switches *next_free;
};

static struct switches *left; // by threads that have ended
static __thread __attribute__((tls_model("initial-exec"))) struct switches *self;

// Append bytes to the file; return whether that worked.
static bool append_to_file(const void *bytes, size_t n) {
    if (file != NULL) {
        if (!weft_stream_fits(&definitions, n)) return false;
        memcpy(definitions.next, bytes, n);
        definitions.next += n;
        weft_stream_publish(&definitions);
        return true;
    }
    if (kept.used + n > kept.room) {
        size_t room = 2 * (kept.room + n);
        uint8_t *more = room <= LATEST ? realloc(kept.bytes, room) : NULL;
        if (more == NULL) return false;
        kept.bytes = more;
        kept.room = room;
    }
    memcpy(kept.bytes + kept.used, bytes, n);
    kept.used += n;
    return true;
}

// Write a definition to the file; return whether that worked.
static COLD bool write_definition(int type, const void *payload, size_t length) {
    uint8_t *whole = malloc(length + 16);
    if (whole == NULL) return false;
    whole[0] = (uint8_t)type;
    uint8_t *p = weft_put_u(whole + 1, length);
    if (length) memcpy(p, payload, length);
    bool good = append_to_file(whole, (size_t)(p - whole) + length);
    free(whole);
    return good;
}

void weft_switches_define(int type, const void *payload, size_t length) {
    pthread_mutex_lock(&lock);
    write_definition(type, payload, length);
    pthread_mutex_unlock(&lock);
}

static uint8_t *put_string(uint8_t *p, const char *text, size_t length) {
    p = weft_put_u(p, length);
    memcpy(p, text, length);
    return p + length;
}

// Create the file of this process in the run.
static COLD bool create_file(void) {
    const struct weft_header *rank = of_rank.header;
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/tasks/%s-%u-%s.tasks", run_path, rank->host, rank->pid, runtime_name);
    if (n < 0 || n >= (int)sizeof path) return false;
    file = weft_record_create(path, rank->level, rank->rank, rank->world_size);
    if (file == NULL) return false;
    struct weft_header *own = file->header;
    own->slot_size = sizeof(struct weft_switch);
    memcpy(own->job, rank->job, sizeof own->job);
    memcpy(own->magic, WEFT_TASKS_MAGIC, sizeof own->magic);
    if (!weft_stream_open(file, &definitions, WEFT_STREAM_DEFINITIONS, 0)) return false;
    uint8_t about[64], *p = put_string(about, runtime_name, strlen(runtime_name));
    p = put_string(p, "", 0);
    write_definition(WEFT_DEF_LIBRARY, about, (size_t)(p - about));
    return append_to_file(kept.bytes, kept.used);
}

// Whether there is a file, made now where MPI has started meanwhile. The recorder takes WEFT_INTERNAL_RUN out of the environment
// when it has; a process without it that has no record either is a rank's child, or the look came in between.
static COLD bool attach(void) {
    if (getenv("WEFT_INTERNAL_RUN") != NULL) return false;
    bool on = false;
    pthread_mutex_lock(&lock);
    if (state == WAITING && ++asked >= ask_at) {
        ask_at = 2 * asked;
        if (attach_record(run_path)) state = create_file() ? ON : OFF;
    }
    on = state == ON;
    pthread_mutex_unlock(&lock);
    return on;
}

static void on_thread_end(void *data) {
    struct switches *s = data;
    self = NULL;
    pthread_mutex_lock(&lock);
    s->next_free = left;
    left = s;
    pthread_mutex_unlock(&lock);
}

static void forget_in_child(void) {
    state = OFF;
    self = NULL;
    pthread_mutex_init(&lock, NULL);
}

// Return the stream of this thread: what an ended thread has left, or a new one.
static COLD struct switches *acquire_stream(void) {
    pthread_mutex_lock(&lock);
    struct switches *s = left;
    if (s != NULL) {
        left = s->next_free;
        *s = (struct switches){.stream = s->stream, .number = s->number};
    } else {
        s = calloc(1, sizeof *s);
    }
    pthread_mutex_unlock(&lock);
    self = s;
    if (s != NULL) pthread_setspecific(thread_end, s);
    return s;
}

static COLD bool open_stream(struct switches *s) {
    pthread_mutex_lock(&lock);
    bool good = s->stream.base != NULL ||
                (streams <= 0xffff && weft_stream_open(file, &s->stream, WEFT_STREAM_EVENTS, (int)streams));
    if (good && s->number == 0) s->number = ++streams, file->header->threads = streams;
    if (good) {
        uint8_t payload[64], *p = weft_put_u(payload, s->number - 1);
        p = weft_put_u(p, (uint64_t)(s->stream.next - s->stream.base) / sizeof(struct weft_switch));
        p = weft_put_u(p, (uint64_t)syscall(SYS_gettid));
        p = weft_put_u(p, syscall(SYS_gettid) == getpid());
        p = put_string(p, "", 0);
        p = weft_put_u(p, 0);
        good = write_definition(WEFT_DEF_THREAD, payload, (size_t)(p - payload));
    }
    pthread_mutex_unlock(&lock);
    return good;
}

// Whether this thread has called MPI, and so has a slot in the record.
static COLD bool find_slot(struct switches *s) {
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    pthread_mutex_lock(&lock);
    const struct weft_chunk *more;
    while ((more = next_chunk(&of_rank.definitions, WEFT_STREAM_DEFINITIONS, 0)) != NULL) of_rank.newest = more;
    s->looked = used(of_rank.newest);
    learn_threads();
    for (size_t i = met_count; i-- > 0 && !s->known;) {
        if (met[i].tid != tid) continue;
        s->known = true;
        s->slot = met[i].slot;
        s->first = met[i].first;
        s->table = table_begin();
        s->chunk = next_chunk(&s->table, WEFT_STREAM_EVENTS, s->slot);
    }
    pthread_mutex_unlock(&lock);
    return s->known;
}

// Return how many calls this thread has made.
static inline uint64_t count_calls(struct switches *s) {
    if (RARELY(!s->known)) {
        // A chunk of which nothing is used yet may not tell of what still went into the one before it.
        uint64_t defined = used(of_rank.newest);
        if ((defined == s->looked && defined != 0) || !find_slot(s)) return 0;
    }
    if (RARELY(s->chunk == NULL) && (s->chunk = next_chunk(&s->table, WEFT_STREAM_EVENTS, s->slot)) == NULL) return 0;
    uint64_t n = used(s->chunk);
    while (RARELY(n >= size_of(s->chunk))) {
        const struct weft_chunk *more = next_chunk(&s->table, WEFT_STREAM_EVENTS, s->slot);
        if (more == NULL) break;
        s->before += size_of(s->chunk);
        s->chunk = more;
        n = used(more);
    }
    return (s->before + n) / CALL - s->first;
}

// Write no more switches: what this thread's last one says ends here.
static COLD void stop_stream(struct switches *s) {
    state = OFF;
    if (s == NULL || s->last == NULL || s->closed) return;
    uint64_t n = count_calls(s) - s->last->calls;
    s->closed = true;
    if (n == 0) s->last->task = 0;
    else s->last->until = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static inline void put_switch(struct switches *s, uint64_t n, const struct weft_switch *to) {
    struct weft_switch *at = s->last;
    bool again = at != NULL && at->calls == n;
    if (!again) {
        if (RARELY(!weft_stream_fits(&s->stream, sizeof *at))) return stop_stream(s); // the disk is full
        at = s->last = (struct weft_switch *)s->stream.next;
        at->calls = n;
    }
    __atomic_store_n(&at->task, 0, __ATOMIC_RELEASE);
    at->parent = to->parent;
    at->site = to->site;
    at->name = to->name;
    at->kind = to->kind;
    at->until = 0;
    __atomic_store_n(&at->task, to->task, __ATOMIC_RELEASE);
    if (again) return;
    s->stream.next += sizeof *at;
    weft_stream_publish(&s->stream);
}

// Open a stream at a thread's first switch. Before it, the thread was in what it was in before its first call.
static COLD bool begin_stream(struct switches *s) {
    if (state == WAITING && !attach()) return false;
    if (state != ON || !open_stream(s)) return false;
    s->written = true;
    if (s->now.kind != WEFT_TASK_NONE) put_switch(s, 0, &s->now);
    return state == ON;
}

void weft_switch(const struct weft_switch *to) {
    struct switches *s = self;
    if (RARELY(state == OFF)) return stop_stream(s);
    if (RARELY(s == NULL) && (s = acquire_stream()) == NULL) return;
    if (RARELY(!s->written) && !begin_stream(s)) {
        s->now = *to;
        // A look that found no record is made again later only: by then calls may have come between.
        if (getenv("WEFT_INTERNAL_RUN") == NULL) s->now.kind = WEFT_TASK_NONE;
        return;
    }
    put_switch(s, count_calls(s), to);
    s->now = *to;
}

struct weft_switch weft_switch_now(void) { return self != NULL ? self->now : (struct weft_switch){0}; }

// ---- sites ----

static struct {
    const void *address;
} sites[SITES];
static uint32_t site_count;
static struct {
    const void *base;
    uint64_t id;
    ElfW(Addr) moved;
} modules[MODULES];
static uint32_t module_count;

static COLD void put_build_id(const void *base, ElfW(Addr) moved, char *out) {
    const ElfW(Ehdr) *head = base;
    const ElfW(Phdr) *segments = (const void *)((const char *)base + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++) {
        if (segments[i].p_type != PT_NOTE) continue;
        const uint8_t *at = (const uint8_t *)(moved + segments[i].p_vaddr), *stop = at + segments[i].p_memsz;
        while (at + sizeof(ElfW(Nhdr)) <= stop) {
            const ElfW(Nhdr) *note = (const void *)at;
            const uint8_t *text = at + sizeof *note + ((note->n_namesz + 3u) & ~3u);
            at = text + ((note->n_descsz + 3u) & ~3u);
            if (note->n_type != NT_GNU_BUILD_ID || note->n_descsz > 64 || at > stop) continue;
            for (uint32_t k = 0; k < note->n_descsz; k++) sprintf(out + 2 * k, "%02x", text[k]);
            return;
        }
    }
}

// Return the number of an address's module, and by how much it is moved from its file's addresses. The lock is held.
static COLD uint64_t module_number(const void *address, ElfW(Addr) * moved) {
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || map == NULL) return 0;
    for (uint32_t i = 0; i < module_count; i++)
        if (modules[i].base == info.dli_fbase) return *moved = modules[i].moved, modules[i].id;
    if (module_count == MODULES) return 0;
    char build_id[129] = "", executable[PATH_MAX] = "";
    const char *path = map->l_name;
    if (path == NULL || !*path) { // the program itself has no name here
        ssize_t n = readlink("/proc/self/exe", executable, sizeof executable - 1);
        executable[n > 0 ? n : 0] = 0;
        path = executable;
    }
    put_build_id(info.dli_fbase, map->l_addr, build_id);
    uint8_t payload[PATH_MAX + 256], *p = weft_put_u(payload, module_count + 1);
    p = weft_put_u(p, map->l_addr);
    p = weft_put_u(p, 0);
    p = put_string(p, build_id, strlen(build_id));
    p = put_string(p, path, strlen(path));
    write_definition(WEFT_DEF_MODULE, payload, (size_t)(p - payload));
    modules[module_count].base = info.dli_fbase;
    modules[module_count].moved = *moved = map->l_addr;
    modules[module_count].id = module_count + 1;
    return modules[module_count++].id;
}

static COLD uint32_t site_number(const void *address) {
    uint32_t found = 0;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < site_count && !found; i++)
        if (sites[i].address == address) found = i + 1;
    if (!found && site_count < SITES) {
        ElfW(Addr) moved = 0;
        uint64_t module = module_number(address, &moved);
        sites[site_count++].address = address;
        found = site_count;
        uint8_t payload[64], *p = weft_put_u(payload, found);
        p = weft_put_u(p, module);
        p = weft_put_u(p, (uintptr_t)address - moved);
        p = weft_put_u(weft_put_u(p, 0), 0);
        p = weft_put_u(p, 0);
        write_definition(WEFT_DEF_SITE, payload, (size_t)(p - payload));
    }
    pthread_mutex_unlock(&lock);
    return found;
}

uint32_t weft_switches_site(const void *address) {
    if (address == NULL) return 0;
    struct switches *s = self;
    uint64_t at = (uintptr_t)address >> 2 & (RECENT - 1);
    if (s != NULL && s->recent[at].address == address) return s->recent[at].site;
    uint32_t site = site_number(address);
    if (s != NULL) s->recent[at].address = address, s->recent[at].site = site;
    return site;
}

// ---- the begin and the end ----

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void) {
    const char *run = getenv("WEFT_INTERNAL_TASKS");
    if (run == NULL || !*run || strlen(run) >= sizeof run_path - 256) return;
    strcpy(run_path, run);
    pthread_key_create(&thread_end, on_thread_end);
    pthread_atfork(NULL, NULL, forget_in_child);
    state = WAITING;
}

int weft_switches_begin(const char *runtime) {
    snprintf(runtime_name, sizeof runtime_name, "%s", runtime);
    pthread_once(&once, prepare);
    return state != OFF;
}

__attribute__((destructor)) static void closed(void) {
    if (state != ON) return;
    state = OFF;
    weft_record_close(file, WEFT_STATE_EXITED);
}
