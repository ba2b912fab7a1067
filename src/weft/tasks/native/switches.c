// The writer of switches.h's files, for the parts of Weft that learn of tasks: tool.c (OpenMP) and steps.c (asyncio).
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
} rank_record = {.fd = -1};

// A thread of the record: its number in the kernel, the slot it has from a call on.
static struct known_thread {
    uint32_t tid, slot;
    uint64_t first;
} *known_threads;
static size_t known_thread_count, known_thread_room;

// Map a part of the rank's record for reading; NULL on failure.
static const void *map_record(uint64_t offset, uint64_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, rank_record.fd, (off_t)offset);
    return at == MAP_FAILED ? NULL : at;
}

// Return an iterator over the record's chunk table, at its first entry.
static struct table begin_table(void) {
    return (struct table){rank_record.header->chunks, &rank_record.header->chunk_count, 0, true};
}

// Return how many entries the current part of the chunk table has so far; the recorder may still add some.
static uint64_t count_table_entries(const struct table *table) {
    return table->first ? __atomic_load_n((const uint32_t *)table->count, __ATOMIC_ACQUIRE)
                        : __atomic_load_n((const uint64_t *)table->count, __ATOMIC_ACQUIRE);
}

// Return the next chunk of a stream in the record; NULL if there is none yet, and a later call continues there.
static COLD const struct weft_chunk *find_next_chunk(struct table *table, int kind, uint32_t thread) {
    while (table->at < count_table_entries(table)) {
        const struct weft_chunk *chunk = &table->chunks[table->at];
        if (chunk->kind == WEFT_STREAM_TABLE) {
            const void *continuation = map_record(chunk->offset, (uint64_t)chunk->pages * WEFT_PAGE);
            if (continuation == NULL) return NULL;
            *table = (struct table){continuation, &chunk->used, 0, false};
            continue;
        }
        table->at++;
        if (chunk->kind == kind && chunk->thread == thread) return chunk;
    }
    return NULL;
}

static uint64_t get_used_bytes(const struct weft_chunk *chunk) {
    return __atomic_load_n(&chunk->used, __ATOMIC_ACQUIRE);
}
static uint64_t get_chunk_size(const struct weft_chunk *chunk) { return (uint64_t)chunk->pages * WEFT_PAGE; }

// Open this process's record in a run and return the file descriptor; -1 if there is none. It is found among the
// process's open files, because the program may have changed what its path means.
static COLD int open_record(const char *run) {
    char folder[PATH_MAX], link[64], path[PATH_MAX];
    if (!realpath(run, folder) || strlen(folder) > PATH_MAX - 16) return -1;
    strcat(folder, "/ranks/");
    DIR *open_files = opendir("/proc/self/fd");
    int found = -1;
    for (struct dirent *entry; open_files && found < 0 && (entry = readdir(open_files));) {
        snprintf(link, sizeof link, "/proc/self/fd/%.20s", entry->d_name);
        ssize_t length = readlink(link, path, sizeof path - 1);
        if (length <= 5 || strncmp(path, folder, strlen(folder)) || strncmp(path + length - 5, ".weft", 5)) continue;
        found = open(link, O_RDONLY | O_CLOEXEC);
    }
    if (open_files) closedir(open_files);
    return found;
}

// Open and check this process's record, to read from it how many MPI calls each thread has made. Return false if there
// is none.
static COLD bool attach_record(const char *run) {
    rank_record.fd = open_record(run);
    rank_record.header = rank_record.fd < 0 ? NULL : map_record(0, WEFT_PAGE);
    const struct weft_header *header = rank_record.header;
    if (header != NULL && !memcmp(header->magic, WEFT_MAGIC, 8) && header->major == WEFT_FORMAT_MAJOR &&
        header->level == WEFT_LEVEL_TRACE && header->pid == (uint32_t)getpid()) {
        rank_record.definitions = begin_table();
        rank_record.newest = find_next_chunk(&rank_record.definitions, WEFT_STREAM_DEFINITIONS, 0);
        if (rank_record.newest != NULL) return true;
    }
    if (header != NULL) munmap((void *)header, WEFT_PAGE);
    if (rank_record.fd >= 0) close(rank_record.fd);
    rank_record.fd = -1;
    rank_record.header = NULL;
    return false;
}

// Read an unsigned varint and advance the cursor.
static uint64_t read_varint(const uint8_t **cursor, const uint8_t *end) {
    uint64_t value = 0;
    for (int shift = 0; *cursor < end && shift < 64; shift += 7) {
        uint8_t part = *(*cursor)++;
        value |= (uint64_t)(part & 0x7f) << shift;
        if (!(part & 0x80)) break;
    }
    return value;
}

// Return the bytes added to the record's definitions since the last call; the caller frees them. NULL if there are
// none.
static COLD uint8_t *read_new_definitions(size_t *length) {
    struct table table = begin_table();
    uint64_t start = 0;
    uint8_t *bytes = NULL;
    *length = 0;
    for (const struct weft_chunk *chunk; (chunk = find_next_chunk(&table, WEFT_STREAM_DEFINITIONS, 0)) != NULL;
         start += get_used_bytes(chunk)) {
        uint64_t used_bytes = get_used_bytes(chunk), skip = rank_record.parsed > start ? rank_record.parsed - start : 0;
        if (skip >= used_bytes) continue;
        uint8_t *grown = realloc(bytes, *length + (used_bytes - skip));
        if (grown == NULL || pread(rank_record.fd, grown + *length, used_bytes - skip, (off_t)(chunk->offset + skip)) !=
                                 (ssize_t)(used_bytes - skip)) {
            free(grown != NULL ? grown : bytes);
            return NULL;
        }
        bytes = grown;
        *length += used_bytes - skip;
    }
    return bytes;
}

// Read from the record's new definitions which threads have called MPI by now. The lock must be held.
static COLD void read_threads_that_called_mpi(void) {
    size_t length;
    uint8_t *bytes = read_new_definitions(&length);
    const uint8_t *cursor = bytes, *end = bytes + length;
    while (bytes != NULL && cursor < end) {
        const uint8_t *start = cursor;
        uint64_t type = read_varint(&cursor, end), size = read_varint(&cursor, end);
        if (type == 0 || size > (uint64_t)(end - cursor)) {
            cursor = start;
            break;
        }
        const uint8_t *field = cursor, *stop = cursor + size;
        cursor = stop;
        if (type != WEFT_DEF_THREAD) continue;
        if (known_thread_count == known_thread_room) {
            struct known_thread *grown =
                known_thread_room < FOUND ? realloc(known_threads, (known_thread_room + 64) * 2 * sizeof *known_threads)
                                          : NULL;
            if (grown == NULL) break;
            known_threads = grown;
            known_thread_room = (known_thread_room + 64) * 2;
        }
        uint32_t slot = (uint32_t)read_varint(&field, stop);
        uint64_t first = read_varint(&field, stop);
        known_threads[known_thread_count++] = (struct known_thread){(uint32_t)read_varint(&field, stop), slot, first};
    }
    rank_record.parsed += bytes != NULL ? (uint64_t)(cursor - bytes) : 0;
    free(bytes);
}

// ---- our own file ----

static char run_path[PATH_MAX], runtime_name[32];
static enum { OFF, WAITING, ON } state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of the file, the threads, and what is read of the record
static struct weft_record *task_file;
static struct weft_stream definitions;
static struct {
    uint8_t *bytes;
    size_t used, room;
} buffered; // definitions from before there was a file
static uint32_t stream_count;
static pthread_key_t thread_end;
static uint64_t attach_calls, next_attach_call = 1;

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

static struct switches *spare_streams; // by threads that have ended
static __thread __attribute__((tls_model("initial-exec"))) struct switches *own_stream;

// Append bytes to the task file's definitions, or to a memory buffer until the file exists. Return whether that worked.
static bool append_to_file(const void *bytes, size_t byte_count) {
    if (task_file != NULL) {
        if (!weft_stream_fits(&definitions, byte_count)) return false;
        memcpy(definitions.next, bytes, byte_count);
        definitions.next += byte_count;
        weft_stream_publish(&definitions);
        return true;
    }
    if (buffered.used + byte_count > buffered.room) {
        size_t room = 2 * (buffered.room + byte_count);
        uint8_t *grown = room <= LATEST ? realloc(buffered.bytes, room) : NULL;
        if (grown == NULL) return false;
        buffered.bytes = grown;
        buffered.room = room;
    }
    memcpy(buffered.bytes + buffered.used, bytes, byte_count);
    buffered.used += byte_count;
    return true;
}

// Write a definition (a type of format.h and its payload) to the task file. Return whether that worked. The lock must
// be held.
static COLD bool write_definition(int type, const void *payload, size_t length) {
    uint8_t *whole = malloc(length + 16);
    if (whole == NULL) return false;
    whole[0] = (uint8_t)type;
    uint8_t *end = weft_put_u(whole + 1, length);
    if (length) memcpy(end, payload, length);
    bool is_good = append_to_file(whole, (size_t)(end - whole) + length);
    free(whole);
    return is_good;
}

// Write a definition to the task file, from any thread.
void weft_switches_define(int type, const void *payload, size_t length) {
    pthread_mutex_lock(&lock);
    write_definition(type, payload, length);
    pthread_mutex_unlock(&lock);
}

// Write a string, as a varint length and its bytes, and return the byte after it.
static uint8_t *put_string(uint8_t *end, const char *text, size_t length) {
    end = weft_put_u(end, length);
    memcpy(end, text, length);
    return end + length;
}

// Create this process's task file in the run, with the definitions that were buffered. Return whether that worked.
static COLD bool create_file(void) {
    const struct weft_header *rank = rank_record.header;
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/tasks/%s-%u-%s.tasks", run_path, rank->host, rank->pid, runtime_name);
    if (length < 0 || length >= (int)sizeof path) return false;
    task_file = weft_record_create(path, rank->level, rank->rank, rank->world_size);
    if (task_file == NULL) return false;
    struct weft_header *own = task_file->header;
    own->slot_size = sizeof(struct weft_switch);
    memcpy(own->job, rank->job, sizeof own->job);
    memcpy(own->magic, WEFT_TASKS_MAGIC, sizeof own->magic);
    if (!weft_stream_open(task_file, &definitions, WEFT_STREAM_DEFINITIONS, 0)) return false;
    uint8_t about[64], *end = put_string(about, runtime_name, strlen(runtime_name));
    end = put_string(end, "", 0);
    write_definition(WEFT_DEF_LIBRARY, about, (size_t)(end - about));
    return append_to_file(buffered.bytes, buffered.used);
}

// Return whether the task file exists, creating it once the process has a record. The recorder removes
// WEFT_INTERNAL_RUN from the environment when it starts; a process with neither is a child of a rank, or was looked at
// in between.
static COLD bool create_file_if_recorded(void) {
    if (getenv("WEFT_INTERNAL_RUN") != NULL) return false;
    bool is_on = false;
    pthread_mutex_lock(&lock);
    if (state == WAITING && ++attach_calls >= next_attach_call) {
        next_attach_call = 2 * attach_calls;
        if (attach_record(run_path)) state = create_file() ? ON : OFF;
    }
    is_on = state == ON;
    pthread_mutex_unlock(&lock);
    return is_on;
}

// When a thread ends: leave its stream to later threads.
static void give_back_stream(void *data) {
    struct switches *switches = data;
    own_stream = NULL;
    pthread_mutex_lock(&lock);
    switches->next_free = spare_streams;
    spare_streams = switches;
    pthread_mutex_unlock(&lock);
}

// In a forked child: record nothing, and reset the lock.
static void stop_in_child(void) {
    state = OFF;
    own_stream = NULL;
    pthread_mutex_init(&lock, NULL);
}

// Return this thread's stream of task switches: one that an ended thread has left, or a new one. NULL without memory.
static COLD struct switches *acquire_stream(void) {
    pthread_mutex_lock(&lock);
    struct switches *switches = spare_streams;
    if (switches != NULL) {
        spare_streams = switches->next_free;
        *switches = (struct switches){.stream = switches->stream, .number = switches->number};
    } else {
        switches = calloc(1, sizeof *switches);
    }
    pthread_mutex_unlock(&lock);
    own_stream = switches;
    if (switches != NULL) pthread_setspecific(thread_end, switches);
    return switches;
}

// Open a thread's stream of task switches in the file and define the thread there. Return whether that worked.
static COLD bool open_stream(struct switches *switches) {
    pthread_mutex_lock(&lock);
    bool is_good = switches->stream.base != NULL ||
                   (stream_count <= 0xffff &&
                    weft_stream_open(task_file, &switches->stream, WEFT_STREAM_EVENTS, (int)stream_count));
    if (is_good && switches->number == 0) switches->number = ++stream_count, task_file->header->threads = stream_count;
    if (is_good) {
        uint8_t payload[64], *end = weft_put_u(payload, switches->number - 1);
        end = weft_put_u(end, (uint64_t)(switches->stream.next - switches->stream.base) / sizeof(struct weft_switch));
        end = weft_put_u(end, (uint64_t)syscall(SYS_gettid));
        end = weft_put_u(end, syscall(SYS_gettid) == getpid());
        end = put_string(end, "", 0);
        end = weft_put_u(end, 0);
        is_good = write_definition(WEFT_DEF_THREAD, payload, (size_t)(end - payload));
    }
    pthread_mutex_unlock(&lock);
    return is_good;
}

// Find this thread's slot in the record; return false if it has not called MPI yet.
static COLD bool find_slot(struct switches *switches) {
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    pthread_mutex_lock(&lock);
    const struct weft_chunk *chunk;
    while ((chunk = find_next_chunk(&rank_record.definitions, WEFT_STREAM_DEFINITIONS, 0)) != NULL)
        rank_record.newest = chunk;
    switches->looked = get_used_bytes(rank_record.newest);
    read_threads_that_called_mpi();
    for (size_t i = known_thread_count; i-- > 0 && !switches->known;) {
        if (known_threads[i].tid != tid) continue;
        switches->known = true;
        switches->slot = known_threads[i].slot;
        switches->first = known_threads[i].first;
        switches->table = begin_table();
        switches->chunk = find_next_chunk(&switches->table, WEFT_STREAM_EVENTS, switches->slot);
    }
    pthread_mutex_unlock(&lock);
    return switches->known;
}

// Return how many MPI calls this thread has made, from the sizes of its chunks in the record.
static inline uint64_t count_calls(struct switches *switches) {
    if (RARELY(!switches->known)) {
        // A chunk of which nothing is used yet may not tell of what still went into the one before it.
        uint64_t defined = get_used_bytes(rank_record.newest);
        if ((defined == switches->looked && defined != 0) || !find_slot(switches)) return 0;
    }
    if (RARELY(switches->chunk == NULL) &&
        (switches->chunk = find_next_chunk(&switches->table, WEFT_STREAM_EVENTS, switches->slot)) == NULL)
        return 0;
    uint64_t used_bytes = get_used_bytes(switches->chunk);
    while (RARELY(used_bytes >= get_chunk_size(switches->chunk))) {
        const struct weft_chunk *chunk = find_next_chunk(&switches->table, WEFT_STREAM_EVENTS, switches->slot);
        if (chunk == NULL) break;
        switches->before += get_chunk_size(switches->chunk);
        switches->chunk = chunk;
        used_bytes = get_used_bytes(chunk);
    }
    return (switches->before + used_bytes) / CALL - switches->first;
}

// Stop recording task switches in the process; this thread's last switch is limited to the calls made so far.
static COLD void stop_stream(struct switches *switches) {
    state = OFF;
    if (switches == NULL || switches->last == NULL || switches->closed) return;
    uint64_t call_count = count_calls(switches) - switches->last->calls;
    switches->closed = true;
    if (call_count == 0) switches->last->task = 0;
    else switches->last->until = call_count < UINT32_MAX ? (uint32_t)call_count : UINT32_MAX;
}

// Record that from call number `call_count` on the thread is in the task `to`. If no call came since its last switch,
// that one is overwritten.
static inline void write_switch(struct switches *switches, uint64_t call_count, const struct weft_switch *to) {
    struct weft_switch *row = switches->last;
    bool is_same_call = row != NULL && row->calls == call_count;
    if (!is_same_call) {
        if (RARELY(!weft_stream_fits(&switches->stream, sizeof *row))) return stop_stream(switches); // the disk is full
        row = switches->last = (struct weft_switch *)switches->stream.next;
        row->calls = call_count;
    }
    __atomic_store_n(&row->task, 0, __ATOMIC_RELEASE);
    row->parent = to->parent;
    row->site = to->site;
    row->name = to->name;
    row->kind = to->kind;
    row->until = 0;
    __atomic_store_n(&row->task, to->task, __ATOMIC_RELEASE);
    if (is_same_call) return;
    switches->stream.next += sizeof *row;
    weft_stream_publish(&switches->stream);
}

// Open a thread's stream at its first task switch, if the process is recorded. Return whether it is open.
static COLD bool begin_stream(struct switches *switches) {
    if (state == WAITING && !create_file_if_recorded()) return false;
    if (state != ON || !open_stream(switches)) return false;
    switches->written = true;
    if (switches->now.kind != WEFT_TASK_NONE) write_switch(switches, 0, &switches->now);
    return state == ON;
}

// Record that the MPI calls of this thread belong to another task from now on.
void weft_switch(const struct weft_switch *to) {
    struct switches *switches = own_stream;
    if (RARELY(state == OFF)) return stop_stream(switches);
    if (RARELY(switches == NULL) && (switches = acquire_stream()) == NULL) return;
    if (RARELY(!switches->written) && !begin_stream(switches)) {
        switches->now = *to;
        // A look that found no record is made again later only: by then calls may have come between.
        if (getenv("WEFT_INTERNAL_RUN") == NULL) switches->now.kind = WEFT_TASK_NONE;
        return;
    }
    write_switch(switches, count_calls(switches), to);
    switches->now = *to;
}

struct weft_switch weft_switch_now(void) { return own_stream != NULL ? own_stream->now : (struct weft_switch){0}; }

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

// Write the build ID of a loaded module as hexadecimal text; nothing if it has none.
static COLD void write_build_id(const void *base, ElfW(Addr) load_address, char *out) {
    const ElfW(Ehdr) *head = base;
    const ElfW(Phdr) *segments = (const void *)((const char *)base + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++) {
        if (segments[i].p_type != PT_NOTE) continue;
        const uint8_t *cursor = (const uint8_t *)(load_address + segments[i].p_vaddr),
                      *segment_end = cursor + segments[i].p_memsz;
        while (cursor + sizeof(ElfW(Nhdr)) <= segment_end) {
            const ElfW(Nhdr) *note = (const void *)cursor;
            const uint8_t *text = cursor + sizeof *note + ((note->n_namesz + 3u) & ~3u);
            cursor = text + ((note->n_descsz + 3u) & ~3u);
            if (note->n_type != NT_GNU_BUILD_ID || note->n_descsz > 64 || cursor > segment_end) continue;
            for (uint32_t index = 0; index < note->n_descsz; index++) sprintf(out + 2 * index, "%02x", text[index]);
            return;
        }
    }
}

// Return the number of the module that contains an address, defined in the file if new, and its load address; 0 if
// there is none or no room. The lock must be held.
static COLD uint64_t find_or_define_module_number(const void *address, ElfW(Addr) * load_address) {
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || map == NULL) return 0;
    for (uint32_t i = 0; i < module_count; i++)
        if (modules[i].base == info.dli_fbase) return *load_address = modules[i].moved, modules[i].id;
    if (module_count == MODULES) return 0;
    char build_id[129] = "", executable[PATH_MAX] = "";
    const char *path = map->l_name;
    if (path == NULL || !*path) { // the program itself has no name here
        ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
        executable[length > 0 ? length : 0] = 0;
        path = executable;
    }
    write_build_id(info.dli_fbase, map->l_addr, build_id);
    uint8_t payload[PATH_MAX + 256], *end = weft_put_u(payload, module_count + 1);
    end = weft_put_u(end, map->l_addr);
    end = weft_put_u(end, 0);
    end = put_string(end, build_id, strlen(build_id));
    end = put_string(end, path, strlen(path));
    write_definition(WEFT_DEF_MODULE, payload, (size_t)(end - payload));
    modules[module_count].base = info.dli_fbase;
    modules[module_count].moved = *load_address = map->l_addr;
    modules[module_count].id = module_count + 1;
    return modules[module_count++].id;
}

// Return the number of a code site (a return address), defined in the file if new; 0 if there is no room.
static COLD uint32_t find_or_define_site_number(const void *address) {
    uint32_t found = 0;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < site_count && !found; i++)
        if (sites[i].address == address) found = i + 1;
    if (!found && site_count < SITES) {
        ElfW(Addr) load_address = 0;
        uint64_t module = find_or_define_module_number(address, &load_address);
        sites[site_count++].address = address;
        found = site_count;
        uint8_t payload[64], *end = weft_put_u(payload, found);
        end = weft_put_u(end, module);
        end = weft_put_u(end, (uintptr_t)address - load_address);
        end = weft_put_u(weft_put_u(end, 0), 0);
        end = weft_put_u(end, 0);
        write_definition(WEFT_DEF_SITE, payload, (size_t)(end - payload));
    }
    pthread_mutex_unlock(&lock);
    return found;
}

// Return the number of a code site (a return address); recent ones of the thread are cached without a lock.
uint32_t weft_switches_site(const void *address) {
    if (address == NULL) return 0;
    struct switches *switches = own_stream;
    uint64_t recent_index = (uintptr_t)address >> 2 & (RECENT - 1);
    if (switches != NULL && switches->recent[recent_index].address == address)
        return switches->recent[recent_index].site;
    uint32_t site = find_or_define_site_number(address);
    if (switches != NULL) switches->recent[recent_index].address = address, switches->recent[recent_index].site = site;
    return site;
}

// ---- the begin and the end ----

static pthread_once_t once = PTHREAD_ONCE_INIT;

// Prepare the recording of task switches if the environment names a run; called once.
static void prepare_recording(void) {
    const char *run = getenv("WEFT_INTERNAL_TASKS");
    if (run == NULL || !*run || strlen(run) >= sizeof run_path - 256) return;
    strcpy(run_path, run);
    pthread_key_create(&thread_end, give_back_stream);
    pthread_atfork(NULL, NULL, stop_in_child);
    state = WAITING;
}

// Begin to record task switches for a runtime ("openmp", "asyncio"). Return 0 if the environment names no run.
int weft_switches_begin(const char *runtime) {
    snprintf(runtime_name, sizeof runtime_name, "%s", runtime);
    pthread_once(&once, prepare_recording);
    return state != OFF;
}

// Close the task file at exit.
__attribute__((destructor)) static void close_file(void) {
    if (state != ON) return;
    state = OFF;
    weft_record_close(task_file, WEFT_STATE_EXITED);
}
