/* The recorder in a process, whatever system it records: its definitions and threads, its environment, its debugger. */
#define _GNU_SOURCE
#include "process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct weft_thread *weft_self;
__thread int weft_depth, weft_work;
__thread void *weft_fortran_site;
volatile int weft_recording, weft_threaded;
int weft_clock_kind, weft_level;
uint64_t weft_keep;
bool weft_patient;
uint64_t weft_ticket;
uintptr_t weft_library_start, weft_library_end;
struct weft_record *weft_the_record;
char weft_run_path[PATH_MAX], weft_replay_path[PATH_MAX], weft_agent_path[PATH_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t thread_end, thread_crash;
static struct weft_thread *free_threads;
static uint32_t thread_count;
static struct weft_stream definitions_stream;

unsigned weft_left_out;
const char *const weft_works[WEFT_WORKS] = {"", "heap", "buffers", "hashes", "accesses", "halo", "lines"};

static void crash_ended(void *data);
static void thread_ended(void *data);

/* WEFT_WITHOUT=heap,hashes */
static void look_left_out(const char *names) {
    for (const char *name = names; name && *name; name += strcspn(name, ","), name += *name == ',')
        for (unsigned part = 1; part < WEFT_WORKS; part++)
            if (strlen(weft_works[part]) == strcspn(name, ",") &&
                !strncmp(name, weft_works[part], strlen(weft_works[part])))
                weft_left_out |= 1u << part;
}

/* Reads the environment variables by which `weft run` says what to record, and where. */
void weft_read_own_variables(void) {
    const char *run = getenv("WEFT_INTERNAL_RUN"), *wanted = getenv("WEFT_INTERNAL_LEVEL");
    if (!run || !*run || strlen(run) >= sizeof weft_run_path - 64) return;
    strcpy(weft_run_path, run);
    weft_level = wanted && !strcmp(wanted, "outcomes") ? WEFT_LEVEL_OUTCOMES : WEFT_LEVEL_TRACE;
    const char *replay = getenv("WEFT_INTERNAL_REPLAY"), *keep = getenv("WEFT_INTERNAL_KEEP");
    weft_patient = getenv("WEFT_INTERNAL_PATIENT") != NULL;
    look_left_out(getenv("WEFT_WITHOUT"));
    if (keep && weft_level == WEFT_LEVEL_TRACE) weft_keep = strtoull(keep, NULL, 10);
    if (replay && strlen(replay) < sizeof weft_replay_path - 64 && weft_level == WEFT_LEVEL_TRACE)
        strcpy(weft_replay_path, replay);
    const char *agent = getenv("WEFT_INTERNAL_AGENT");
    if (weft_replay_path[0] && agent && strlen(agent) < sizeof weft_agent_path - 64) strcpy(weft_agent_path, agent);
}

/* Begins the record of this process; false if it cannot be written. */
bool weft_begin_process_record(void) {
    struct weft_record *record = weft_the_record;
    weft_pid = getpid();
    if (record) weft_record_keep(record, weft_keep);
    if (record && !weft_patient && !weft_replay_path[0]) weft_record_hurry(record);
    if (!record || !weft_stream_open(record, &definitions_stream, WEFT_STREAM_DEFINITIONS, 0)) return false;
    weft_clock_kind = record->header->clock;
    pthread_key_create(&thread_end, thread_ended);
    pthread_key_create(&thread_crash, crash_ended);
    return true;
}

/* Stops recording in a child of fork(), which is not the rank. */
void weft_stop_recording_in_child(void) {
    weft_recording = 0;
    weft_stop_watching_exit_in_child();
    weft_reset_site_lock();
    pthread_mutex_init(&lock, NULL);
}

/* ---- values in tails and definitions ---- */
void weft_write_long_number(struct weft_text *t, uint64_t v) {
    if (UNLIKELY(t->end - t->p < 10)) t->overflow = true;
    else t->p = weft_put_u(t->p, v);
}

/* Writes `n` integers of `size` bytes each, as differences. */
WEFT_GIVEN void weft_write_numbers(struct weft_text *t, int64_t n, const void *numbers, size_t size) {
    weft_write_unsigned(t, (uint64_t)n);
    for (int64_t i = 0, last = 0; i < n; i++) {
        int64_t v = weft_read_element(numbers, i, size);
        weft_write_signed(t, v - last);
        last = v;
    }
}

WEFT_GIVEN void weft_write_string(struct weft_text *t, const char *string) {
    weft_write_bytes(t, string, string ? strnlen(string, 4096) : 0);
}

/* Writes an array of strings up to its NULL, at most `most`. */
WEFT_GIVEN void weft_write_strings(struct weft_text *t, int64_t most, char *const *strings) {
    uint64_t n = 0;
    while (strings && n < WEFT_STRINGS && (int64_t)n < most && strings[n]) n++;
    weft_write_unsigned(t, n);
    for (uint64_t i = 0; i < n; i++) weft_write_string(t, strings[i]);
}

/* ---- definitions ---- */
/* Returns whether a stream can get room for `bytes` bytes; in a handler of a signal the lock for that may be taken. */
static bool room_can_be_made(struct weft_stream *stream, size_t bytes) {
    if (!weft_careful || (size_t)(stream->end - stream->next) >= bytes) return true;
    if (!weft_take_lock(&weft_the_record->lock)) return false;
    pthread_mutex_unlock(&weft_the_record->lock);
    return true;
}

/* Writes a definition into the record, if there is room for it. */
void weft_write_definition(int type, const void *payload, size_t length) {
    static pthread_mutex_t definitions = PTHREAD_MUTEX_INITIALIZER;
    struct weft_stream *stream = &definitions_stream;
    if (weft_the_record->stopped || !weft_take_lock(&definitions)) return;
    if (!room_can_be_made(stream, length + 16)) {
        pthread_mutex_unlock(&definitions);
        return;
    }
    if (weft_stream_fits(stream, length + 16)) {
        uint8_t *p = stream->next;
        *p++ = (uint8_t)type;
        p = weft_put_u(p, length);
        memcpy(p, payload, length);
        stream->next = p + length;
        weft_stream_publish(stream);
    } else weft_stop_recording();
    pthread_mutex_unlock(&definitions);
}

void weft_stop_recording(void) { weft_recording = 0; }

/* Writes a definition that consists of texts; `counted`: after their number. */
void weft_write_text_definition(int type, const char *const *texts, size_t n, bool counted) {
    size_t size = 32;
    for (size_t i = 0; i < n; i++) size += strlen(texts[i]) + 10;
    uint8_t *payload = malloc(size);
    if (!payload) return;
    struct weft_text text = {.p = payload, .end = payload + size};
    if (counted) weft_write_unsigned(&text, n);
    for (size_t i = 0; i < n; i++) weft_write_bytes(&text, texts[i], strlen(texts[i]));
    weft_write_definition(type, payload, (size_t)(text.p - payload));
    free(payload);
}

extern char **environ;

/* Writes what the process runs in: the variables that MPI and its like read, the command, the folder. */
void weft_record_surroundings(void) {
    static const char *const kept[] = {
        "OMP_",    "MPICH_",           "MPIR_",   "OMPI_", "PMI_", "PMIX_", "SLURM_", "I_MPI_", "UCX_", "FI_", "PYTHON",
        "MPI4PY_", "LD_LIBRARY_PATH=", "MALLOC_", "GOMP_", "KMP_"};
    for (char **e = environ; e && *e; e++)
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            if (!strncmp(*e, kept[i], strlen(kept[i])))
                weft_write_text_definition(WEFT_DEF_ENV, (const char *const *)e, 1, false);
    char buffer[PATH_MAX];
    if (getcwd(buffer, sizeof buffer)) weft_write_text_definition(WEFT_DEF_CWD, (const char *[]){buffer}, 1, false);
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    static char line[1 << 16];
    ssize_t length = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
    if (fd >= 0) close(fd);
    const char *words[1024];
    size_t n = 0;
    for (ssize_t at = 0; at < length && n < 1024; at += (ssize_t)strlen(line + at) + 1) words[n++] = line + at;
    weft_write_text_definition(WEFT_DEF_ARGV, words, n, true);
    weft_record_cores();
}

/* ---- threads ---- */
/* Writes the definition of a thread: its slot, its id in the kernel, and its name. */
static void thread_define(struct weft_thread *thread) {
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    uint8_t payload[96];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    pid_t tid = (pid_t)syscall(SYS_gettid);
    weft_write_unsigned(&text, thread->slot);
    weft_write_unsigned(&text, (uint64_t)(thread->events.next - thread->events.base) / sizeof(struct weft_event));
    weft_write_unsigned(&text, (uint64_t)tid);
    weft_write_unsigned(&text, tid == getpid());
    weft_write_bytes(&text, name, strlen(name));
    thread->made = weft_made || tid == getpid() ? weft_made : WEFT_MADE_UNKNOWN;
    thread->accesses = 0;
    weft_write_unsigned(&text, thread->made);
    weft_write_definition(WEFT_DEF_THREAD, payload, (size_t)(text.p - payload));
}

/* Returns the recorder's state of the calling thread, new or of a thread that ended; NULL for none. */
struct weft_thread *weft_make_thread(void) {
    pthread_mutex_lock(&lock);
    struct weft_thread *thread = free_threads;
    if (thread) free_threads = thread->next_free; /* the streams of a thread that ended */
    else if ((thread = calloc(1, sizeof *thread))) {
        thread->slot = thread_count++;
        struct weft_record *record = weft_the_record;
        bool opened = weft_level == WEFT_LEVEL_OUTCOMES
                          ? weft_stream_open(record, &thread->outcomes, WEFT_STREAM_OUTCOMES, (int)thread->slot)
                          : weft_stream_open(record, &thread->events, WEFT_STREAM_EVENTS, (int)thread->slot) &&
                                weft_stream_open(record, &thread->tails, WEFT_STREAM_TAILS, (int)thread->slot);
        if (!opened) {
            weft_stop_recording();
            free(thread);
            thread = NULL;
        } else record->header->threads = thread_count;
    }
    if (thread_count > 1 && !weft_threaded) {
        weft_prepare_for_threads();
        weft_threaded = 1;
    }
    pthread_mutex_unlock(&lock);
    if (!thread) return NULL;
    weft_clear_site_cache(thread);
    weft_self = thread;
    pthread_setspecific(thread_end, thread);
    thread_define(thread);
    return thread;
}

/* Threads are known from run to run by the order in which the program makes them; those that MPI makes do not count. */
__thread uint32_t weft_made;
struct birth {
    void *(*body)(void *);
    void *argument;
    uint32_t made;
};

/* WEFT_GIVEN: what it calls may go on to the C library by a jump, without a frame of its own. */
static WEFT_GIVEN void *born(void *data) {
    struct birth birth = *(struct birth *)data;
    free(data);
    weft_made = birth.made;
    weft_give_thread_signal_stack();
    pthread_setspecific(thread_crash, &thread_crash);
    return birth.body(birth.argument);
}

/* Stands before the C library's pthread_create: numbers the threads that the program makes. */
WEFT_GIVEN __attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    static uint32_t count;
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_create");
    uintptr_t at = (uintptr_t)__builtin_return_address(0);
    bool ours = weft_recording && !weft_depth && at - weft_library_start >= weft_library_end - weft_library_start;
    struct birth *birth = ours ? malloc(sizeof *birth) : NULL;
    if (!birth) return real(thread, attributes, body, argument);
    *birth = (struct birth){body, argument, __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED)};
    int code = real(thread, attributes, born, birth);
    if (code) free(birth);
    return code;
}

static void crash_ended(void *data) {
    (void)data;
    weft_free_thread_signal_stack();
}

/* Puts the state of a thread that ends aside for another thread. */
static void thread_ended(void *data) {
    struct weft_thread *thread = data;
    pthread_mutex_lock(&lock);
    thread->fold = NULL;
    thread->replay = NULL;
    thread->next_free = free_threads;
    free_threads = thread;
    pthread_mutex_unlock(&lock);
    weft_self = NULL;
}

/* Returns memory of the thread for at least `bytes` bytes, valid until the next use; NULL without memory. */
void *weft_grow_scratch(struct weft_thread *thread, size_t bytes) {
    if (bytes > thread->scratch_size) {
        free(thread->scratch);
        thread->scratch_size = bytes * 2;
        thread->scratch = malloc(thread->scratch_size);
        if (!thread->scratch) thread->scratch_size = 0;
    }
    return thread->scratch;
}

/* Python keeps a copy of the environment, made at its start, and gives that to its children. */
void weft_remove_own_variables_from_python(void) {
    int (*initialized)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
    int (*run)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
    if (!initialized || !ensure || !release || !run || !initialized()) return;
    const char *kept = getenv("LD_PRELOAD");
    char code[2 * PATH_MAX + 512], quoted[PATH_MAX] = "";
    for (size_t n = 0; kept && *kept && n + 3 < sizeof quoted; kept++) {
        if (*kept == '\'' || *kept == '\\') quoted[n++] = '\\';
        quoted[n++] = *kept;
        quoted[n] = 0;
    }
    snprintf(code, sizeof code,
             "[__import__('os').environ.pop(n, None) for n in ('LD_PRELOAD', 'WEFT_INTERNAL_RUN', "
             "'WEFT_INTERNAL_LEVEL', 'WEFT_INTERNAL_BUFFERS', "
             "'WEFT_INTERNAL_HASH', 'WEFT_INTERNAL_SPAWN', 'WEFT_INTERNAL_KEEP', 'WEFT_INTERNAL_PATIENT', "
             "'WEFT_INTERNAL_REPLAY', 'WEFT_INTERNAL_AGENT')] and "
             "'%s' and __import__('os').environ.__setitem__('LD_PRELOAD', '%s')\n",
             quoted, quoted);
    int state = ensure();
    run(code);
    release(state);
}

/* ---- a replay under `weft debug` ---- */
__attribute__((visibility("default"))) void weft_debug_aside(void);
/* The calling thread is the debugger's: its calls of MPI are neither recorded nor held against the plan. */
void weft_debug_aside(void) { weft_depth = 1; }

/* Where the debugger has made a folder `output`, what this rank writes from here on goes there, a file for each of its two
 * streams: an editor shows it by rank. */
static WEFT_COLD void write_apart(int rank) {
    for (int stream = STDOUT_FILENO; stream <= STDERR_FILENO; stream++) {
        char path[PATH_MAX + 64];
        snprintf(path, sizeof path, "%s/output/rank-%d.%s", weft_agent_path, rank,
                 stream == STDOUT_FILENO ? "out" : "err");
        int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (file < 0) return;
        dup2(file, stream);
        close(file);
    }
}

/* Lets the debugger's gdb in where Yama restricts it to children, and starts weft/debug/agent.py in a Python rank. Its
 * thread does not count among those that the program makes. */
void weft_prepare_for_debugger(int rank) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    write_apart(rank);
    int (*initialized)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
    int (*run)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
    if (!initialized || !ensure || !release || !run || !initialized() || strpbrk(weft_agent_path, "'\\\n")) return;
    char code[2 * PATH_MAX + 256];
    snprintf(code, sizeof code,
             "(lambda p: exec(compile(open(p + '/agent.py').read(), p + '/agent.py', 'exec'), "
             "{'__name__': 'weft_agent', 'FOLDER': p, 'RANK': %d}))('%s')\n",
             rank, weft_agent_path);
    int depth = weft_depth, state = ensure();
    weft_depth = 1;
    run(code);
    weft_depth = depth;
    release(state);
}

/* Children of this process are not ranks: what the launcher put into the environment is taken out again, the rest of
 * a user's own LD_PRELOAD stays. */
void weft_remove_own_variables(void) {
    const char *preload = getenv("LD_PRELOAD");
    Dl_info self;
    if (preload && dladdr((void *)weft_remove_own_variables, &self) && self.dli_fname) {
        char kept[PATH_MAX] = "";
        char *copy = strdup(preload);
        for (char *state = NULL, *word = copy ? strtok_r(copy, ": ", &state) : NULL; word;
             word = strtok_r(NULL, ": ", &state)) {
            if (!strcmp(weft_find_file_name(word), weft_find_file_name(self.dli_fname))) continue;
            if (kept[0]) strncat(kept, ":", sizeof kept - strlen(kept) - 1);
            strncat(kept, word, sizeof kept - strlen(kept) - 1);
        }
        free(copy);
        if (kept[0]) setenv("LD_PRELOAD", kept, 1);
        else unsetenv("LD_PRELOAD");
    }
    unsetenv("WEFT_INTERNAL_RUN");
    unsetenv("WEFT_INTERNAL_LEVEL");
    unsetenv("WEFT_INTERNAL_BUFFERS");
    unsetenv("WEFT_INTERNAL_HASH");
    unsetenv("WEFT_INTERNAL_SPAWN");
    unsetenv("WEFT_INTERNAL_KEEP");
    unsetenv("WEFT_INTERNAL_PATIENT");
    unsetenv("WEFT_INTERNAL_REPLAY");
    unsetenv("WEFT_INTERNAL_AGENT");
}
