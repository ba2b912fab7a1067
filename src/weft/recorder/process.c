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

static void free_signal_stack_at_thread_end(void *data);
static void put_thread_aside(void *data);

/* Note the parts of the recorder that the user leaves out, from names between commas: WEFT_WITHOUT=heap,hashes */
static void read_left_out_parts(const char *names) {
    for (const char *name = names; name && *name; name += strcspn(name, ","), name += *name == ',')
        for (unsigned part = 1; part < WEFT_WORKS; part++)
            if (strlen(weft_works[part]) == strcspn(name, ",") &&
                !strncmp(name, weft_works[part], strlen(weft_works[part])))
                weft_left_out |= 1u << part;
}

/* Read the environment variables by which `weft run` says what to record, and where. */
void weft_read_recorder_variables(void) {
    const char *run = getenv("WEFT_INTERNAL_RUN"), *wanted = getenv("WEFT_INTERNAL_LEVEL");
    if (!run || !*run || strlen(run) >= sizeof weft_run_path - 64) return;
    strcpy(weft_run_path, run);
    weft_level = wanted && !strcmp(wanted, "outcomes") ? WEFT_LEVEL_OUTCOMES : WEFT_LEVEL_TRACE;
    const char *replay = getenv("WEFT_INTERNAL_REPLAY"), *keep = getenv("WEFT_INTERNAL_KEEP");
    weft_patient = getenv("WEFT_INTERNAL_PATIENT") != NULL;
    read_left_out_parts(getenv("WEFT_WITHOUT"));
    if (keep && weft_level == WEFT_LEVEL_TRACE) weft_keep = strtoull(keep, NULL, 10);
    if (replay && strlen(replay) < sizeof weft_replay_path - 64 && weft_level == WEFT_LEVEL_TRACE)
        strcpy(weft_replay_path, replay);
    const char *agent = getenv("WEFT_INTERNAL_AGENT");
    if (weft_replay_path[0] && agent && strlen(agent) < sizeof weft_agent_path - 64) strcpy(weft_agent_path, agent);
}

/* Begin the record of this process, weft_the_record, which was just made; return false if it cannot be written. */
bool weft_begin_process_record(void) {
    struct weft_record *record = weft_the_record;
    weft_pid = getpid();
    if (record) weft_record_keep(record, weft_keep);
    if (record && !weft_patient && !weft_replay_path[0]) weft_record_hurry(record);
    if (!record || !weft_stream_open(record, &definitions_stream, WEFT_STREAM_DEFINITIONS, 0)) return false;
    weft_clock_kind = record->header->clock;
    pthread_key_create(&thread_end, put_thread_aside);
    pthread_key_create(&thread_crash, free_signal_stack_at_thread_end);
    return true;
}

/* Stop recording in a child of fork(), which is not the rank. */
void weft_stop_recording_in_child(void) {
    weft_recording = 0;
    weft_stop_watching_exit_in_child();
    weft_reset_site_lock();
    pthread_mutex_init(&lock, NULL);
}

/* ---- values in tails and definitions ---- */
/* Write any unsigned number as a varint; mark the text as too long if there is no room. */
void weft_write_long_number(struct weft_text *text, uint64_t value) {
    if (UNLIKELY(text->end - text->p < 10)) text->overflow = true;
    else text->p = weft_put_u(text->p, value);
}

/* Write an array of `n` integers of `size` bytes each, as differences. */
WEFT_GIVEN void weft_write_numbers(struct weft_text *text, int64_t n, const void *numbers, size_t size) {
    weft_write_unsigned(text, (uint64_t)n);
    for (int64_t i = 0, last = 0; i < n; i++) {
        int64_t value = weft_read_element(numbers, i, size);
        weft_write_signed(text, value - last);
        last = value;
    }
}

/* Write a string of at most 4096 bytes; NULL is written as an empty one. */
WEFT_GIVEN void weft_write_string(struct weft_text *text, const char *string) {
    weft_write_bytes(text, string, string ? strnlen(string, 4096) : 0);
}

/* Write an array of strings up to its NULL, at most `most`. */
WEFT_GIVEN void weft_write_strings(struct weft_text *text, int64_t most, char *const *strings) {
    uint64_t n = 0;
    while (strings && n < WEFT_STRINGS && (int64_t)n < most && strings[n]) n++;
    weft_write_unsigned(text, n);
    for (uint64_t i = 0; i < n; i++) weft_write_string(text, strings[i]);
}

/* ---- definitions ---- */
/* Return whether the stream can get room for `bytes` bytes without waiting: in a signal handler the record's lock,
 * which that needs, may be taken. */
static bool can_make_room(struct weft_stream *stream, size_t bytes) {
    if (!weft_careful || (size_t)(stream->end - stream->next) >= bytes) return true;
    if (!weft_take_lock(&weft_the_record->lock)) return false;
    pthread_mutex_unlock(&weft_the_record->lock);
    return true;
}

/* Write a definition into the record. `type`: WEFT_DEF_*. Without room for it the recording stops. In a signal handler
 * the definition is left out if a lock stays taken. */
void weft_write_definition(int type, const void *payload, size_t length) {
    static pthread_mutex_t definitions = PTHREAD_MUTEX_INITIALIZER;
    struct weft_stream *stream = &definitions_stream;
    if (weft_the_record->stopped || !weft_take_lock(&definitions)) return;
    if (!can_make_room(stream, length + 16)) {
        pthread_mutex_unlock(&definitions);
        return;
    }
    if (weft_stream_fits(stream, length + 16)) {
        uint8_t *next = stream->next;
        *next++ = (uint8_t)type;
        next = weft_put_u(next, length);
        memcpy(next, payload, length);
        stream->next = next + length;
        weft_stream_publish(stream);
    } else weft_stop_recording();
    pthread_mutex_unlock(&definitions);
}

void weft_stop_recording(void) { weft_recording = 0; }

/* Write a definition that consists of `n` texts, after their number if `counted`. */
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

/* Write what the process runs in: the variables that MPI and its like read, the folder, the command, the cores. */
void weft_record_surroundings(void) {
    static const char *const prefixes[] = {
        "OMP_",    "MPICH_",           "MPIR_",   "OMPI_", "PMI_", "PMIX_", "SLURM_", "I_MPI_", "UCX_", "FI_", "PYTHON",
        "MPI4PY_", "LD_LIBRARY_PATH=", "MALLOC_", "GOMP_", "KMP_"};
    for (char **variable = environ; variable && *variable; variable++)
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
            if (!strncmp(*variable, prefixes[i], strlen(prefixes[i])))
                weft_write_text_definition(WEFT_DEF_ENV, (const char *const *)variable, 1, false);
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
    weft_record_processors();
}

/* ---- threads ---- */
/* Write the definition of the calling thread: its slot, its first event, its id in the kernel, its name and its number
 * among the threads that the program has made. */
static void record_thread_definition(struct weft_thread *thread) {
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

/* ---- threads of the program that have not called MPI ---- */
static pthread_mutex_t others_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t other_threads, other_tids[WEFT_OTHER_TIDS];
static pthread_key_t other_end;
static __thread uint32_t own_other_tid; /* 0: the thread is none of them */

/* Copy what is known of the program's other threads into the record, if there is one. Needs others_lock. */
static void publish_other_threads(void) {
    struct weft_record *record = weft_the_record;
    if (!record || !weft_recording) return;
    record->header->other_threads = (uint16_t)(other_threads < UINT16_MAX ? other_threads : UINT16_MAX);
    memcpy(record->header->other_tids, other_tids, sizeof other_tids);
}

/* Count one more, or one less, of the program's threads that have not called MPI. `from`, `to`: what its place in the
 * table held and holds; equal: it has none yet. */
static void change_other_threads(int change, uint32_t from, uint32_t to) {
    pthread_mutex_lock(&others_lock);
    other_threads += (uint32_t)change;
    for (uint32_t i = 0; from != to && i < WEFT_OTHER_TIDS; i++)
        if (other_tids[i] == from) {
            other_tids[i] = to;
            break;
        }
    publish_other_threads();
    pthread_mutex_unlock(&others_lock);
}

/* The calling thread calls MPI from now on, or ends. */
static void leave_other_threads(void) {
    if (!own_other_tid) return;
    change_other_threads(-1, own_other_tid, 0);
    own_other_tid = 0;
}

static void leave_other_threads_at_end(void *unused) {
    (void)unused;
    leave_other_threads();
}

static void make_other_key(void) { pthread_key_create(&other_end, leave_other_threads_at_end); }

/* Write into the record which threads there are, as it begins. */
void weft_record_other_threads(void) { change_other_threads(0, 0, 0); }

/* Return whether the caller at this address makes threads that never call MPI for the program: MPI itself and what it
 * uses, or a library of linear algebra. */
static bool makes_threads_for_itself(uintptr_t address) {
    static const char *const names[] = {"libmpi",   "libopen-", "libpmix", "libprrte", "libuc",  "libfabric", "libpsm",
                                        "libevent", "libcuda",  "libnccl", "openblas", "libmkl", "libblis",   "-fi.so"};
    Dl_info info;
    if (!dladdr((void *)address, &info) || !info.dli_fname) return false;
    const char *slash = strrchr(info.dli_fname, '/'), *file = slash ? slash + 1 : info.dli_fname;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(file, names[i])) return true;
    return false;
}

/* Return the recorder's state for the calling thread, new or of a thread that has ended; NULL if it cannot be made. */
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
    leave_other_threads();
    pthread_setspecific(thread_end, thread);
    record_thread_definition(thread);
    return thread;
}

/* Threads are known from run to run by the order in which the program makes them; those that MPI makes do not count. */
__thread uint32_t weft_made;
struct birth {
    void *(*body)(void *);
    void *argument;
    uint32_t made;
    bool other; /* it is counted in other_threads */
};

/* Run a thread that the program makes, under its number: the start routine that our pthread_create gives the C library.
 * WEFT_GIVEN: what it calls may go on to the C library by a jump, without a frame of its own. */
static WEFT_GIVEN void *run_numbered_thread(void *birth_data) {
    struct birth birth = *(struct birth *)birth_data;
    free(birth_data);
    weft_made = birth.made;
    if (birth.other) {
        own_other_tid = (uint32_t)syscall(SYS_gettid);
        change_other_threads(0, 0, own_other_tid);
        pthread_setspecific(other_end, &other_end);
    }
    if (birth.made) {
        weft_give_thread_signal_stack();
        pthread_setspecific(thread_crash, &thread_crash);
    }
    return birth.body(birth.argument);
}

/* Stand before the C library's pthread_create: number the threads that the program makes, and count those that have not
 * called MPI. Those that MPI makes do not count. */
WEFT_GIVEN __attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    static uint32_t count;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_create");
    uintptr_t at = (uintptr_t)__builtin_return_address(0);
    bool outside = !weft_depth && at - weft_library_start >= weft_library_end - weft_library_start;
    bool numbered = outside && weft_recording, other = outside && !makes_threads_for_itself(at);
    struct birth *birth = numbered || other ? malloc(sizeof *birth) : NULL;
    if (!birth) return real(thread, attributes, body, argument);
    *birth = (struct birth){body, argument, numbered ? __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) : 0, other};
    if (other) pthread_once(&once, make_other_key), change_other_threads(1, 0, 0);
    int code = real(thread, attributes, run_numbered_thread, birth);
    if (code) {
        if (other) change_other_threads(-1, 0, 0);
        free(birth);
    }
    return code;
}

/* Free the thread's stack for signal handlers; the destructor of a thread-specific key. */
static void free_signal_stack_at_thread_end(void *unused) {
    (void)unused;
    weft_free_thread_signal_stack();
}

/* Keep the state of a thread that ends for a later thread; the destructor of a thread-specific key. */
static void put_thread_aside(void *ended) {
    struct weft_thread *thread = ended;
    pthread_mutex_lock(&lock);
    thread->fold = NULL;
    thread->replay = NULL;
    thread->next_free = free_threads;
    free_threads = thread;
    pthread_mutex_unlock(&lock);
    weft_self = NULL;
}

/* Return memory of the thread for at least `bytes` bytes, valid until the next use; NULL without memory. */
void *weft_grow_scratch(struct weft_thread *thread, size_t bytes) {
    if (bytes > thread->scratch_size) {
        free(thread->scratch);
        thread->scratch_size = bytes * 2;
        thread->scratch = malloc(thread->scratch_size);
        if (!thread->scratch) thread->scratch_size = 0;
    }
    return thread->scratch;
}

/* Remove the recorder's variables from the copy of the environment that Python made at its start and gives to its
 * children. */
void weft_remove_recorder_variables_from_python(void) {
    int (*initialized)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
    int (*run)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
    if (!initialized || !ensure || !release || !run || !initialized()) return;
    const char *preload = getenv("LD_PRELOAD");
    char code[2 * PATH_MAX + 512], quoted[PATH_MAX] = "";
    for (size_t n = 0; preload && *preload && n + 3 < sizeof quoted; preload++) {
        if (*preload == '\'' || *preload == '\\') quoted[n++] = '\\';
        quoted[n++] = *preload;
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
/* Called by the debugger's thread in this process: its calls of MPI are neither recorded nor compared with the plan. */
void weft_debug_aside(void) { weft_depth = 1; }

/* Send what this rank writes to files of its own, one for standard output and one for standard error, if the debugger
 * has made a folder `output` for them: an editor shows the output by rank. */
static WEFT_COLD void redirect_output(int rank) {
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

/* Let the debugger's gdb attach where Yama restricts that to parents, and start weft/debug/agent.py in a Python rank.
 * The agent's thread does not count among those that the program makes. */
void weft_prepare_for_debugger(int rank) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    redirect_output(rank);
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

/* Remove from the environment what the launcher put there for the recorder, as children of this process are not ranks.
 * The rest of a user's own LD_PRELOAD stays. */
void weft_remove_recorder_variables(void) {
    const char *preload = getenv("LD_PRELOAD");
    Dl_info self;
    if (preload && dladdr((void *)weft_remove_recorder_variables, &self) && self.dli_fname) {
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
