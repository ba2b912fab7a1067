/* Birth, threads and end of the recorder in a process. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "access.h"
#include "endings.h"
#include "wrap.h"

__thread struct weft_thread *weft_self;
__thread int weft_depth;
__thread void *weft_fortran_site;
__thread int weft_fortran_entry;
volatile int weft_recording, weft_threaded;
int weft_clock_kind, weft_watching;
uint64_t weft_ticket;
uintptr_t weft_library_start, weft_library_end;
struct weft_record *weft_the_record;

static char run_path[PATH_MAX], record_path[PATH_MAX], replay_path[PATH_MAX], agent_path[PATH_MAX];
static int level;
static bool names_bound, gave_up, sessions_used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t thread_end, thread_crash;
static struct weft_thread *free_threads;
static uint32_t thread_count;
static struct weft_stream definitions_stream;
static struct {
    uintptr_t start, end;
} fortran_modules[8];
static int fortran_module_count;

/* ---- finding the MPI library that this process uses ---- */
struct library {
    char path[PATH_MAX], other[PATH_MAX];
    uintptr_t start, end;
};

static void module_code(const struct dl_phdr_info *info, uintptr_t *start, uintptr_t *end) {
    *start = UINTPTR_MAX;
    *end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *s = &info->dlpi_phdr[i];
        if (s->p_type != PT_LOAD || !(s->p_flags & PF_X)) continue;
        uintptr_t from = info->dlpi_addr + s->p_vaddr, to = from + s->p_memsz;
        if (from < *start) *start = from;
        if (to > *end) *end = to;
    }
}

static const char *soname_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_wanted(const char *name) {
    size_t length = strlen(weft_soname);
    return !strncmp(name, weft_soname, length) && (!name[length] || name[length] == '.');
}

/* Debian's libmpich.so.12 goes by the ABI's name libmpi.so.12, through a link, for programs built elsewhere. */
static bool is_wanted_behind(const char *link) {
    char path[PATH_MAX];
    return realpath(link, path) && is_wanted(soname_of(path));
}

static int library_visit(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct library *found = data;
    const char *name = soname_of(info->dlpi_name ? info->dlpi_name : "");
    uintptr_t start, end;
    module_code(info, &start, &end);
    /* Fortran's entries: libmpifort, libmpichfort, libmpi_mpifh, libmpi_usempi*, libmpi_usempif08 */
    if ((strstr(name, "fort") || strstr(name, "mpifh") || strstr(name, "usempi")) && strstr(name, "mpi") &&
        fortran_module_count < 8) {
        fortran_modules[fortran_module_count].start = start;
        fortran_modules[fortran_module_count++].end = end;
    }
    if (!found->path[0] && (is_wanted(name) || (!strncmp(name, "libmp", 5) && is_wanted_behind(info->dlpi_name)))) {
        snprintf(found->path, sizeof found->path, "%s", info->dlpi_name);
        found->start = start;
        found->end = end;
    } else if (!found->other[0] && !strncmp(name, "libmp", 5)) {
        void *handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
        if (handle && dlsym(handle, "PMPI_Init")) snprintf(found->other, sizeof found->other, "%s", info->dlpi_name);
        if (handle) dlclose(handle);
    }
    return 0;
}

bool weft_in_fortran(void *address) {
    for (int i = 0; i < fortran_module_count; i++)
        if ((uintptr_t)address >= fortran_modules[i].start && (uintptr_t)address < fortran_modules[i].end) return true;
    return false;
}

static uintptr_t module_base(const void *address) {
    Dl_info info;
    return address && dladdr(address, &info) ? (uintptr_t)info.dli_fbase : 0;
}

/* Leaves word for `weft run`, which tells the user. */
static void note_other_library(const char *path) {
    char name[PATH_MAX + 64], host[64] = "";
    gethostname(host, sizeof host - 1);
    if (!run_path[0]) return;
    snprintf(name, sizeof name, "%s/ranks/other-mpi-%s-%d.txt", run_path, host, (int)getpid());
    FILE *file = fopen(name, "wxe");
    if (!file) return;
    fprintf(file, "%s\n%s\n", path, weft_soname);
    fclose(file);
}

static void clean_environment(void);
static void crash_ended(void *data);

/* The program has loaded another MPI than the one whose names this library offers, so calls may already be bound to
 * names that its MPI does not have. The program has not begun with MPI yet: it starts again without the recorder. */
static WEFT_COLD void start_again(void) {
    static char line[1 << 20];
    char *words[4096];
    size_t n = 0;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
    if (fd >= 0) close(fd);
    for (ssize_t at = 0; at < length && n + 1 < sizeof words / sizeof *words; at += (ssize_t)strlen(line + at) + 1)
        words[n++] = line + at;
    words[n] = NULL;
    if (!n || length >= (ssize_t)sizeof line - 1) return;
    clean_environment();
    fflush(NULL);
    execvp(words[0], words);
}

static void slots_through(void) {
    for (int k = 0; k < weft_count; k++) weft_slots[k] = weft_slots[weft_count + k] = weft_next[k];
}

/* First MPI call of the process: finds the MPI's own functions and decides what the stubs jump to. The symbols of
 * the library are the global ones in a program that is linked with MPI, and private to a handle under Python, which
 * loads MPI with RTLD_LOCAL. */
WEFT_HIDDEN void weft_bind(void);
static void loaded(void);
void weft_bind(void) {
    pthread_mutex_lock(&lock);
    if (names_bound) goto done;
    loaded(); /* Open MPI's libmpi_cxx calls MPI from a constructor that runs before ours */
    struct library library = {.path = ""};
    dl_iterate_phdr(library_visit, &library);
    void *handle = library.path[0] ? dlopen(library.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    bool mine = handle != NULL;
    if (!handle) { /* another MPI than the recorder was built for: every call goes straight on */
        note_other_library(library.other);
        if (level) start_again();
        handle = library.other[0] ? dlopen(library.other, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (!handle) handle = RTLD_NEXT;
    }
    uintptr_t home = mine ? module_base(dlsym(handle, "PMPI_Init")) : 0;
    for (int k = 0; k < weft_count; k++) {
        char name[128];
        snprintf(name, sizeof name, "P%s", weft_names[k]);
        weft_next[k] = dlsym(handle, name);
        if (!weft_next[k]) weft_next[k] = dlsym(handle, weft_names[k]);
        if (!weft_next[k] && handle != RTLD_NEXT) weft_next[k] = dlsym(RTLD_NEXT, weft_names[k]);
    }
    /* A program that is linked with MPI may hold the one copy of a library's variable itself (copy relocation). */
    for (const struct weft_variable *v = weft_variables; v->name; v++)
        if (!(*v->address = dlsym(RTLD_DEFAULT, v->name))) *v->address = dlsym(handle, v->name);
    slots_through();
    if (!mine) {
        gave_up = true;
        goto bound_now;
    }
    weft_library_start = library.start;
    weft_library_end = library.end;
    for (int k = 0; k < weft_count; k++) {
        /* Another tool's wrapper between us and MPI keeps its place; then its own PMPI calls are not recorded twice. */
        void *chained = dlsym(RTLD_NEXT, weft_names[k]);
        bool tool = chained && chained != weft_next[k] && module_base(chained) != home;
        if (tool) weft_next[k] = weft_slots[k] = chained;
        void *wrapper = level == WEFT_LEVEL_OUTCOMES ? weft_outcomes[k] : weft_trace[k];
        weft_under[k] = replay_path[0] && weft_replayed[k] ? weft_replayed[k] : weft_next[k];
        if (!wrapper || !level) continue;
        weft_slots[k] = wrapper;
        if (!tool) weft_slots[weft_count + k] = wrapper;
    }
bound_now:
    for (int k = 0; k < weft_fortran_count; k++)
        if (!weft_fortran_slots[k]) weft_fortran_slots[k] = dlsym(RTLD_NEXT, weft_fortran_names[k]);
    __atomic_store_n(&names_bound, true, __ATOMIC_RELEASE);
done:
    pthread_mutex_unlock(&lock);
}

/* ---- definitions ---- */
static bool room_can_be_made(struct weft_stream *stream, size_t bytes) {
    if (!weft_careful || (size_t)(stream->end - stream->next) >= bytes) return true;
    if (!weft_lock_taken(&weft_the_record->lock)) return false;
    pthread_mutex_unlock(&weft_the_record->lock);
    return true;
}

void weft_define(int type, const void *payload, size_t length) {
    static pthread_mutex_t definitions = PTHREAD_MUTEX_INITIALIZER;
    struct weft_stream *stream = &definitions_stream;
    if (weft_the_record->stopped || !weft_lock_taken(&definitions)) return;
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
    } else weft_stop();
    pthread_mutex_unlock(&definitions);
}

void weft_stop(void) { weft_recording = 0; }

static void define_text(int type, const char *const *texts, size_t n, bool counted) {
    size_t size = 32;
    for (size_t i = 0; i < n; i++) size += strlen(texts[i]) + 10;
    uint8_t *payload = malloc(size);
    if (!payload) return;
    struct weft_text text = {.p = payload, .end = payload + size};
    if (counted) weft_text_u(&text, n);
    for (size_t i = 0; i < n; i++) weft_text_s(&text, texts[i], strlen(texts[i]));
    weft_define(type, payload, (size_t)(text.p - payload));
    free(payload);
}

extern char **environ;

static void define_surroundings(void) {
    static const char *const kept[] = {
        "OMP_",    "MPICH_",           "MPIR_",   "OMPI_", "PMI_", "PMIX_", "SLURM_", "I_MPI_", "UCX_", "FI_", "PYTHON",
        "MPI4PY_", "LD_LIBRARY_PATH=", "MALLOC_", "GOMP_", "KMP_"};
    for (char **e = environ; e && *e; e++)
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            if (!strncmp(*e, kept[i], strlen(kept[i]))) define_text(WEFT_DEF_ENV, (const char *const *)e, 1, false);
    char buffer[PATH_MAX];
    if (getcwd(buffer, sizeof buffer)) define_text(WEFT_DEF_CWD, (const char *[]){buffer}, 1, false);
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    static char line[1 << 16];
    ssize_t length = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
    if (fd >= 0) close(fd);
    const char *words[1024];
    size_t n = 0;
    for (ssize_t at = 0; at < length && n < 1024; at += (ssize_t)strlen(line + at) + 1) words[n++] = line + at;
    define_text(WEFT_DEF_ARGV, words, n, true);
    weft_define_cores();
}

/* ---- threads ---- */
static void thread_define(struct weft_thread *thread) {
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    uint8_t payload[96];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    pid_t tid = (pid_t)syscall(SYS_gettid);
    weft_text_u(&text, thread->slot);
    weft_text_u(&text, (uint64_t)(thread->events.next - thread->events.base) / sizeof(struct weft_event));
    weft_text_u(&text, (uint64_t)tid);
    weft_text_u(&text, tid == getpid());
    weft_text_s(&text, name, strlen(name));
    thread->made = weft_made || tid == getpid() ? weft_made : WEFT_MADE_UNKNOWN;
    thread->accesses = 0;
    weft_text_u(&text, thread->made);
    weft_define(WEFT_DEF_THREAD, payload, (size_t)(text.p - payload));
}

struct weft_thread *weft_thread_new(void) {
    pthread_mutex_lock(&lock);
    struct weft_thread *thread = free_threads;
    if (thread) free_threads = thread->next_free; /* the streams of a thread that ended */
    else if ((thread = calloc(1, sizeof *thread))) {
        thread->slot = thread_count++;
        struct weft_record *record = weft_the_record;
        bool opened = level == WEFT_LEVEL_OUTCOMES
                          ? weft_stream_open(record, &thread->outcomes, WEFT_STREAM_OUTCOMES, (int)thread->slot)
                          : weft_stream_open(record, &thread->events, WEFT_STREAM_EVENTS, (int)thread->slot) &&
                                weft_stream_open(record, &thread->tails, WEFT_STREAM_TAILS, (int)thread->slot);
        if (!opened) {
            weft_stop();
            free(thread);
            thread = NULL;
        } else record->header->threads = thread_count;
    }
    if (thread_count > 1 && !weft_threaded) {
        weft_objects_share();
        weft_threaded = 1;
        for (int k = 0; k < weft_count; k++)
            if (weft_split[k] && *weft_lowest(k) == weft_next[k]) *weft_lowest(k) = weft_split[k];
    }
    pthread_mutex_unlock(&lock);
    if (!thread) return NULL;
    weft_sites_forget(thread);
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

static void *born(void *data) {
    struct birth birth = *(struct birth *)data;
    free(data);
    weft_made = birth.made;
    weft_crash_thread();
    pthread_setspecific(thread_crash, &thread_crash);
    return birth.body(birth.argument);
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                          void *(*body)(void *), void *argument) {
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
    weft_crash_thread_end();
}

static void thread_ended(void *data) {
    struct weft_thread *thread = data;
    pthread_mutex_lock(&lock);
    thread->poll = NULL;
    thread->replay = NULL;
    thread->next_free = free_threads;
    free_threads = thread;
    pthread_mutex_unlock(&lock);
    weft_self = NULL;
}

void *weft_thread_scratch(struct weft_thread *thread, size_t bytes) {
    if (bytes > thread->scratch_size) {
        free(thread->scratch);
        thread->scratch_size = bytes * 2;
        thread->scratch = malloc(thread->scratch_size);
        if (!thread->scratch) thread->scratch_size = 0;
    }
    return thread->scratch;
}

/* ---- initialisation ---- */
static int environment_rank(void) {
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value >= '0' && *value <= '9') return atoi(value);
    }
    return -1;
}

/* A name that is the same for all ranks of one world and for no other world of the run. Hydra gives none: there the
 * first world is told by its not being spawned, and a spawned one by its proxy, the ranks' parent process. */
static void job_name(char *out, size_t size) {
    const char *name = getenv("PMIX_NAMESPACE"), *step = getenv("SLURM_STEP_ID");
    if (!name) name = getenv("PMI_JOBID");
    if (name) snprintf(out, size, "%s", name);
    else if (getenv("PMI_SPAWNED")) snprintf(out, size, "spawned-%d", (int)getppid());
    else if (getenv("PMI_RANK") || getenv("PMI_FD")) snprintf(out, size, "world");
    else if (getenv("SLURM_PROCID") && (name = getenv("SLURM_JOB_ID")))
        snprintf(out, size, "%s.%s", name, step ? step : "");
    else snprintf(out, size, "single-%d", (int)getpid());
}

/* Python keeps a copy of the environment, made at its start, and gives that to its children. */
static void clean_python_environment(void) {
    int (*initialized)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
    int (*run)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
    if (!initialized || !ensure || !release || !run || !initialized()) return;
    const char *kept = getenv("LD_PRELOAD");
    char code[PATH_MAX + 256], quoted[PATH_MAX] = "";
    for (size_t n = 0; kept && *kept && n + 3 < sizeof quoted; kept++) {
        if (*kept == '\'' || *kept == '\\') quoted[n++] = '\\';
        quoted[n++] = *kept;
        quoted[n] = 0;
    }
    snprintf(code, sizeof code,
             "[__import__('os').environ.pop(n, None) for n in ('LD_PRELOAD', 'WEFT_RUN', 'WEFT_LEVEL', 'WEFT_WATCH', "
             "'WEFT_HASH', "
             "'WEFT_REPLAY', 'WEFT_AGENT')] and "
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
        snprintf(path, sizeof path, "%s/output/rank-%d.%s", agent_path, rank, stream == STDOUT_FILENO ? "out" : "err");
        int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (file < 0) return;
        dup2(file, stream);
        close(file);
    }
}

/* Lets the debugger's gdb in where Yama restricts it to children, and starts weft/debug/agent.py in a Python rank. Its
 * thread does not count among those that the program makes. */
static WEFT_COLD void debug_attend(int rank) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    write_apart(rank);
    int (*initialized)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
    int (*run)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
    if (!initialized || !ensure || !release || !run || !initialized() || strpbrk(agent_path, "'\\\n")) return;
    char code[2 * PATH_MAX + 256];
    snprintf(code, sizeof code,
             "(lambda p: exec(compile(open(p + '/agent.py').read(), p + '/agent.py', 'exec'), "
             "{'__name__': 'weft_agent', 'FOLDER': p, 'RANK': %d}))('%s')\n",
             rank, agent_path);
    int depth = weft_depth, state = ensure();
    weft_depth = 1;
    run(code);
    weft_depth = depth;
    release(state);
}

/* Children of this process are not ranks: what the launcher put into the environment is taken out again, the rest of
 * a user's own LD_PRELOAD stays. */
static void clean_environment(void) {
    const char *preload = getenv("LD_PRELOAD");
    Dl_info self;
    if (preload && dladdr((void *)weft_bind, &self) && self.dli_fname) {
        char kept[PATH_MAX] = "";
        char *copy = strdup(preload);
        for (char *state = NULL, *word = copy ? strtok_r(copy, ": ", &state) : NULL; word;
             word = strtok_r(NULL, ": ", &state)) {
            if (!strcmp(soname_of(word), soname_of(self.dli_fname))) continue;
            if (kept[0]) strncat(kept, ":", sizeof kept - strlen(kept) - 1);
            strncat(kept, word, sizeof kept - strlen(kept) - 1);
        }
        free(copy);
        if (kept[0]) setenv("LD_PRELOAD", kept, 1);
        else unsetenv("LD_PRELOAD");
    }
    unsetenv("WEFT_RUN");
    unsetenv("WEFT_LEVEL");
    unsetenv("WEFT_WATCH");
    unsetenv("WEFT_HASH");
    unsetenv("WEFT_REPLAY");
    unsetenv("WEFT_AGENT");
}

static void child_after_fork(void) {
    weft_recording = 0;
    weft_endings_child();
    weft_objects_reset();
    weft_sites_reset();
    pthread_mutex_init(&lock, NULL);
    weft_post_reset();
    weft_access_fork();
}

static uint32_t job_hash(const char *job) {
    uint32_t h = 2166136261u;
    for (; *job; job++) h = (h ^ (uint8_t)*job) * 16777619u;
    return h;
}

static bool record_path_set(const char *job, int rank) {
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    int n = rank >= 0
                ? snprintf(record_path, sizeof record_path, "%s/ranks/%08x-%06d.weft", run_path, job_hash(job), rank)
                : snprintf(record_path, sizeof record_path, "%s/ranks/tmp-%s-%d.weft", run_path, host, (int)getpid());
    return n > 0 && n < (int)sizeof record_path;
}

/* Called at entry to MPI_Init, MPI_Init_thread or MPI_Session_init, whichever comes first. */
WEFT_HIDDEN void weft_start(void);
void weft_start(void) {
    pthread_mutex_lock(&lock);
    if (weft_the_record || gave_up || !run_path[0]) {
        /* A call before the initialisation made the record, or MPI begins anew after its end (a session). */
        if (weft_the_record && !weft_the_record->stopped && getpid() == weft_pid) weft_recording = 1;
        pthread_mutex_unlock(&lock);
        return;
    }
    char job[128];
    job_name(job, sizeof job);
    int rank = environment_rank();
    if (record_path_set(job, rank)) weft_the_record = weft_record_create(record_path, level, rank, -1);
    if (!weft_the_record && errno == EEXIST && record_path_set(job, -1)) /* singletons that share a run */
        weft_the_record = weft_record_create(record_path, level, rank, -1);
    struct weft_record *record = weft_the_record;
    if (record && !weft_stream_open(record, &definitions_stream, WEFT_STREAM_DEFINITIONS, 0)) record = NULL;
    gave_up = !record;
    weft_pid = getpid();
    pthread_mutex_unlock(&lock);
    if (!record) return;
    snprintf(record->header->job, sizeof record->header->job, "%s", job);
    weft_clock_kind = record->header->clock;
    weft_objects_predefine();
    pthread_key_create(&thread_end, thread_ended);
    pthread_key_create(&thread_crash, crash_ended);
    pthread_atfork(NULL, NULL, child_after_fork);
    define_surroundings();
    weft_python_look();
    weft_recording = 1;
}

static void record_rename(void) {
    char before[PATH_MAX];
    struct weft_header *header = weft_the_record->header;
    memcpy(before, record_path, sizeof before);
    if (record_path_set(header->job, header->rank) && strcmp(before, record_path)) {
        if (access(record_path, F_OK) == 0 || rename(before, record_path)) memcpy(record_path, before, sizeof before);
    }
}

/* Called before MPI_Init, MPI_Init_thread (world) or MPI_Session_init (session) returns with success. */
WEFT_HIDDEN void weft_started(bool world, int provided);
void weft_started(bool world, int provided) {
    static bool described;
    sessions_used |= !world;
    struct weft_header *header = weft_the_record->header;
    header->thread_level = provided == MPI_THREAD_MULTIPLE     ? 3
                           : provided == MPI_THREAD_SERIALIZED ? 2
                           : provided == MPI_THREAD_FUNNELED   ? 1
                                                               : 0;
    if (world) {
        weft_objects_world();
        int rank = -1, size = -1;
        REAL(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
        REAL(MPI_Comm_size)(MPI_COMM_WORLD, &size);
        header->rank = rank;
        header->world_size = size;
    }
    header->state = WEFT_STATE_RUNNING;
    if (header->rank >= 0) record_rename();
    int replayed = world && replay_path[0] ? weft_replay_start(replay_path, header->rank) : -1;
    if (!replay_path[0] && level == WEFT_LEVEL_TRACE) weft_access_begin(provided != MPI_THREAD_SINGLE);
    if (level == WEFT_LEVEL_TRACE) weft_hash_begin();
    if (described) return;
    described = true;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    Dl_info info = {.dli_fname = ""};
    void *get = weft_next[K_MPI_Get_library_version];
    if (((int (*)(char *, int *))get)(version, &length) != MPI_SUCCESS) length = 0;
    version[length] = 0;
    dladdr(get, &info);
    define_text(WEFT_DEF_LIBRARY, (const char *[]){version, info.dli_fname}, 2, false);
    clean_environment();
    clean_python_environment();
    weft_endings_begin();
    if (!agent_path[0]) weft_crash_begin(); /* a debugger meets the crash itself */
    weft_leaving_begin();
    if (agent_path[0] && replayed >= 0) debug_attend(replayed);
}

/* ---- spawned processes ---- */
void weft_spawn_free(struct weft_spawn *spawn) {
    for (int i = 0; i < spawn->n; i++) {
        for (int k = 0; k < spawn->variables; k++) free(spawn->vectors[i][k]);
        free(spawn->vectors[i]);
    }
    free(spawn->commands);
    free(spawn->vectors);
}

/* `env LD_PRELOAD=... WEFT_RUN=... WEFT_LEVEL=... command arguments` for each command, where the MPI needs it. */
struct weft_spawn weft_spawn_through(int n, char *const *commands, char *const *const *vectors, int multiple) {
    struct weft_spawn spawn = {.n = 0};
#ifdef OPEN_MPI
    Dl_info self;
    if (n <= 0 || !commands || !dladdr((void *)weft_bind, &self) || !self.dli_fname) return spawn;
    if (multiple && vectors && vectors == (char *const *const *)MPI_ARGVS_NULL) vectors = NULL;
    spawn.commands = calloc((size_t)n, sizeof *spawn.commands);
    spawn.vectors = calloc((size_t)n, sizeof *spawn.vectors);
    for (int i = 0; i < n && spawn.commands && spawn.vectors; i++) {
        char *const *given = multiple ? (vectors ? vectors[i] : NULL) : *vectors;
        if (given == (char *const *)MPI_ARGV_NULL) given = NULL;
        size_t count = 0;
        while (given && given[count]) count++;
        char **vector = calloc(count + 8, sizeof *vector);
        size_t at = 3;
        if (!vector || asprintf(&vector[0], "LD_PRELOAD=%s", self.dli_fname) < 0 ||
            asprintf(&vector[1], "WEFT_RUN=%s", run_path) < 0 ||
            asprintf(&vector[2], "WEFT_LEVEL=%s", level == WEFT_LEVEL_OUTCOMES ? "outcomes" : "trace") < 0)
            break;
        if (replay_path[0] && asprintf(&vector[at++], "WEFT_REPLAY=%s", replay_path) < 0) break;
        if (agent_path[0] && asprintf(&vector[at++], "WEFT_AGENT=%s", agent_path) < 0) break;
        if (weft_hashing && asprintf(&vector[at++], "WEFT_HASH=1") < 0) break;
        spawn.variables = (int)at;
        vector[at++] = commands[i];
        for (size_t k = 0; k < count; k++) vector[at + k] = given[k];
        spawn.commands[i] = (char *)"/usr/bin/env";
        spawn.vectors[i] = vector;
        spawn.n = i + 1;
    }
    if (spawn.n < n) { /* no memory: the children go unrecorded */
        weft_spawn_free(&spawn);
        spawn = (struct weft_spawn){.n = 0};
    }
#else
    (void)n, (void)commands, (void)vectors, (void)multiple;
#endif
    return spawn;
}

/* ---- the end ---- */
WEFT_HIDDEN void weft_finalized(void);
void weft_finalized(void) {
    weft_the_record->header->state = WEFT_STATE_FINALIZED;
    if (sessions_used) return; /* a session may live on */
    weft_over = 1;
    weft_recording = 0; /* a call from here on is made outside of MPI's life, or begins a new one */
}

WEFT_HIDDEN void weft_session_finalized(void);
void weft_session_finalized(void) {
    int initialized = 0; /* the world model ends with its own MPI_Finalize */
    if (REAL(MPI_Initialized)(&initialized) == MPI_SUCCESS && !initialized)
        weft_the_record->header->state = WEFT_STATE_FINALIZED;
}

WEFT_HIDDEN void weft_aborting(int code);
void weft_aborting(int code) {
    if (!weft_the_record || !weft_recording) return;
    weft_the_record->header->state = WEFT_STATE_ABORTED;
    weft_abort_told(code);
}

uint8_t weft_error_class(int code) {
    int class = -1;
    REAL(MPI_Error_class)(code, &class);
    return class >= 0 && class < (int)WEFT_ERROR_OTHER ? (uint8_t)class : WEFT_ERROR_OTHER;
}

__attribute__((constructor)) static void loaded(void) {
    static bool done;
    if (done) return;
    done = true;
    const char *run = getenv("WEFT_RUN"), *wanted = getenv("WEFT_LEVEL"), *watch = getenv("WEFT_WATCH");
    if (!run || !*run || strlen(run) >= sizeof run_path - 64) return; /* then every call only goes through */
    strcpy(run_path, run);
    level = wanted && !strcmp(wanted, "outcomes") ? WEFT_LEVEL_OUTCOMES : WEFT_LEVEL_TRACE;
    weft_watching = !watch ? 1 : strcmp(watch, "all") ? strcmp(watch, "0") != 0 : 2;
    const char *replay = getenv("WEFT_REPLAY");
    if (replay && strlen(replay) < sizeof replay_path - 64 && level == WEFT_LEVEL_TRACE) strcpy(replay_path, replay);
    const char *agent = getenv("WEFT_AGENT");
    if (replay_path[0] && agent && strlen(agent) < sizeof agent_path - 64) strcpy(agent_path, agent);
}

__attribute__((destructor)) static void unloaded(void) {
    if (!weft_the_record || !(weft_recording || weft_over) || getpid() != weft_pid) return;
    weft_recording = weft_over = 0;
    uint32_t state = weft_the_record->header->state;
    weft_record_close(weft_the_record, state == WEFT_STATE_RUNNING ? WEFT_STATE_EXITED : (int)state);
}
