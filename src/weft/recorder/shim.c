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
#include "process.h"
#include "wrap.h"

__thread int weft_fortran_entry;
int weft_watching;
static char record_path[PATH_MAX];
static bool names_bound, gave_up, sessions_used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
enum { FORTRAN_MODULES = 8 };
static struct {
    uintptr_t start, end;
} fortran_modules[FORTRAN_MODULES];
static int fortran_module_count;

/* ---- finding the MPI library that this process uses ---- */
struct library {
    char path[PATH_MAX], other[PATH_MAX];
    uintptr_t start, end;
};

/* Sets the range of addresses of a module's code. */
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

static bool is_wanted(const char *name) {
    size_t length = strlen(weft_soname);
    return !strncmp(name, weft_soname, length) && (!name[length] || name[length] == '.');
}

/* The name that a library has for itself: where links are copies, as in wheels, its file may have another. "" for none. */
static const char *own_name(const struct dl_phdr_info *info) {
    const ElfW(Dyn) *d = NULL;
    uintptr_t strings = 0, name = 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_STRTAB) strings = d->d_un.d_ptr;
        if (d->d_tag == DT_SONAME) name = d->d_un.d_val;
    }
    if (!strings || !name) return "";
    return (const char *)((strings < info->dlpi_addr ? info->dlpi_addr : 0) + strings + name);
}

/* Debian's libmpich.so.12 goes by the ABI's name libmpi.so.12, through a link, for programs built elsewhere. */
static bool is_wanted_behind(const char *link) {
    char path[PATH_MAX];
    return realpath(link, path) && is_wanted(weft_find_file_name(path));
}

/* Fortran's entries: libmpifort, libmpichfort, libmpi_mpifh, libmpi_usempi*, libmpi_usempif08 */
static bool is_fortran(const char *name) {
    return (strstr(name, "fort") || strstr(name, "mpifh") || strstr(name, "usempi")) && strstr(name, "mpi");
}

/* Calls from there are a binding's. */
static void fortran_module_add(uintptr_t start, uintptr_t end) {
    int n = fortran_module_count;
    for (int i = 0; i < n; i++)
        if (fortran_modules[i].start == start) return;
    if (n == FORTRAN_MODULES) return;
    fortran_modules[n].start = start;
    fortran_modules[n].end = end;
    __atomic_store_n(&fortran_module_count, n + 1, __ATOMIC_RELEASE);
}

struct module_at {
    uintptr_t at, start, end;
};

/* Visits a loaded module: is it the one that holds an address? */
static int module_at_visit(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct module_at *m = data;
    module_code(info, &m->start, &m->end);
    return m->at >= m->start && m->at < m->end;
}

/* The code of the module that a function is of. */
static bool module_code_at(const void *function, uintptr_t *start, uintptr_t *end) {
    struct module_at m = {.at = (uintptr_t)function};
    if (!dl_iterate_phdr(module_at_visit, &m)) return false;
    *start = m.start;
    *end = m.end;
    return true;
}

/* Visits a loaded module: finds the MPI library and the bindings for Fortran. */
static int library_visit(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct library *found = data;
    const char *name = weft_find_file_name(info->dlpi_name ? info->dlpi_name : "");
    uintptr_t start, end;
    module_code(info, &start, &end);
    if (is_fortran(name)) fortran_module_add(start, end);
    if (!found->path[0] && (is_wanted(name) || (!strncmp(name, "libmp", 5) &&
                                                (is_wanted(own_name(info)) || is_wanted_behind(info->dlpi_name))))) {
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

/* Returns whether an address is in a binding for Fortran. */
bool weft_is_in_fortran_binding(void *address) {
    for (int i = 0; i < fortran_module_count; i++)
        if ((uintptr_t)address >= fortran_modules[i].start && (uintptr_t)address < fortran_modules[i].end) return true;
    return false;
}

static uintptr_t module_base(const void *address) {
    Dl_info info;
    return address && dladdr(address, &info) ? (uintptr_t)info.dli_fbase : 0;
}

/* Leaves word for `weft run`, which tells the user. */
static void note_library(const char *what, const char *path) {
    char name[PATH_MAX + 64], host[64] = "";
    gethostname(host, sizeof host - 1);
    if (!weft_run_path[0]) return;
    snprintf(name, sizeof name, "%s/ranks/%s-mpi-%s-%d.txt", weft_run_path, what, host, (int)getpid());
    FILE *file = fopen(name, "wxe");
    if (!file) return;
    fprintf(file, "%s\n%s\n", path, weft_soname);
    fclose(file);
}

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
    weft_remove_own_variables();
    fflush(NULL);
    execvp(words[0], words);
}

static void slots_through(void) {
    for (int k = 0; k < weft_count; k++) weft_slots[k] = weft_slots[weft_count + k] = weft_next[k];
}

/* First MPI call of the process: finds the MPI's own functions and decides what the stubs jump to. The symbols of
 * the library are the global ones in a program that is linked with MPI, and private to a handle under Python, which
 * loads MPI with RTLD_LOCAL. */
WEFT_HIDDEN void weft_bind_functions(void);
static void loaded(void);
/* Finds the functions of the MPI library that the process has loaded, once; they are called from then on. */
void weft_bind_functions(void) {
    pthread_mutex_lock(&lock);
    if (names_bound) goto done;
    loaded(); /* Open MPI's libmpi_cxx calls MPI from a constructor that runs before ours */
    struct library library = {.path = ""};
    dl_iterate_phdr(library_visit, &library);
    void *handle = library.path[0] ? dlopen(library.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    bool mine = handle != NULL;
    if (!handle) { /* another MPI than the recorder was built for: every call goes straight on */
        note_library("other", library.other);
        if (weft_level) start_again();
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
        void *wrapper = weft_level == WEFT_LEVEL_OUTCOMES ? weft_outcomes[k] : weft_trace[k];
        weft_under[k] = weft_replay_path[0] && weft_replayed[k] ? weft_replayed[k] : weft_next[k];
        if (!wrapper || !weft_level) continue;
        weft_slots[k] = wrapper;
        if (!tool) weft_slots[weft_count + k] = wrapper;
    }
bound_now:
    __atomic_store_n(&names_bound, true, __ATOMIC_RELEASE);
done:
    pthread_mutex_unlock(&lock);
}

/* ---- entries of Fortran ---- */
struct entry {
    const char *name;
    void *found;
};

/* A library of Fortran's entries that was loaded with RTLD_LOCAL has them for those only who name it. */
static int entry_visit(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct entry *entry = data;
    if (!info->dlpi_name || !is_fortran(weft_find_file_name(info->dlpi_name))) return 0;
    void *handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    entry->found = handle ? dlsym(handle, entry->name) : NULL;
    if (handle) dlclose(handle);
    return entry->found != NULL;
}

/* The library that a function is of stays loaded though the program closes it: the slots hold the function's address, and
 * the library would come to another one when the program opens it again. */
static void pin_library(const void *function) {
    Dl_info info;
    void *handle = dladdr(function, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) : NULL;
    if (handle) dlclose(handle);
}

/* First call of an entry: Fortran's libraries may come at any time, by dlopen(). */
WEFT_HIDDEN void weft_bind_fortran_function(int entry);
/* Finds a function of the binding for Fortran at its first call. */
void weft_bind_fortran_function(int entry) {
    struct entry wanted = {.name = weft_fortran_names[entry]};
    uintptr_t start, end;
    weft_bind_functions();
    wanted.found = dlsym(RTLD_NEXT, wanted.name);
    if (!wanted.found) dl_iterate_phdr(entry_visit, &wanted);
    if (!wanted.found) { /* what the loader says where there is no such function */
        fprintf(stderr, "%s: symbol lookup error: undefined symbol: %s\n", program_invocation_name, wanted.name);
        _exit(127);
    }
    pin_library(wanted.found);
    pthread_mutex_lock(&lock);
    if (module_code_at(wanted.found, &start, &end)) fortran_module_add(start, end);
    pthread_mutex_unlock(&lock);
    __atomic_store_n(&weft_fortran_slots[entry], wanted.found, __ATOMIC_RELEASE);
}

/* ---- an MPI that the recorder did not see ---- */
/* Visits a loaded module: is it an MPI library that was initialised without the recorder? */
static int unseen_visit(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    const char *name = weft_find_file_name(info->dlpi_name ? info->dlpi_name : "");
    if (strncmp(name, "libmp", 5)) return 0;
    void *handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    int (*initialized)(int *) = handle ? (int (*)(int *))dlsym(handle, "PMPI_Initialized") : NULL;
    int flag = 0;
    if (initialized && initialized(&flag)) flag = 0;
    if (handle) dlclose(handle);
    if (flag) snprintf(data, PATH_MAX, "%s", info->dlpi_name);
    return flag;
}

/* At the end of a process without a record: its MPI was initialised all the same, by functions that it found with dlsym() or
 * that a part opened with RTLD_DEEPBIND is bound to. */
static void tell_unseen(void) {
    char path[PATH_MAX];
    if (weft_the_record || gave_up || !weft_run_path[0]) return;
    if (dl_iterate_phdr(unseen_visit, path)) note_library("unseen", path);
}

/* ---- initialisation ---- */
/* Returns the rank that the launcher has put into the environment, -1 for none. */
static int environment_rank(void) {
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value >= '0' && *value <= '9') return atoi(value);
    }
    return -1;
}

/* A name that is the same for all ranks of one world and for no other world of the run. Hydra gives none: there the
 * first world is told by its not being spawned, and a spawned one by the spawn that the recorder of its parent named,
 * or else by its proxy, the ranks' parent process. */
static void job_name(char *out, size_t size) {
    const char *name = getenv("PMIX_NAMESPACE"), *step = getenv("SLURM_STEP_ID");
    if (!name) name = getenv("PMI_JOBID");
    if (name) snprintf(out, size, "%s", name);
    else if (getenv("PMI_SPAWNED") && (name = getenv("WEFT_INTERNAL_SPAWN"))) snprintf(out, size, "spawned-%s", name);
    else if (getenv("PMI_SPAWNED")) snprintf(out, size, "spawned-%d", (int)getppid());
    else if (getenv("PMI_RANK") || getenv("PMI_FD")) snprintf(out, size, "world");
    else if (getenv("SLURM_PROCID") && (name = getenv("SLURM_JOB_ID")))
        snprintf(out, size, "%s.%s", name, step ? step : "");
    else snprintf(out, size, "single-%d", (int)getpid());
}

/* Prepares for calls of several threads: with real locks, and with posts one after the other. */
void weft_prepare_for_threads(void) {
    weft_begin_locking_objects();
    for (int k = 0; k < weft_count; k++)
        if (weft_split[k] && *weft_find_lowest_slot(k) == weft_next[k]) *weft_find_lowest_slot(k) = weft_split[k];
}

/* Stops recording in a child of fork(), which is not the rank. */
static void child_after_fork(void) {
    weft_stop_recording_in_child();
    weft_reset_object_locks();
    pthread_mutex_init(&lock, NULL);
    weft_reset_posting_lock();
    weft_end_access_watch_in_child();
}

/* Returns a hash of a job's name. */
static uint32_t job_hash(const char *job) {
    uint32_t h = 2166136261u;
    for (; *job; job++) h = (h ^ (uint8_t)*job) * 16777619u;
    return h;
}

/* Sets the path of the record: by job and rank if they are known, else by host and process. False if it is too long. */
static bool record_path_set(const char *job, int rank) {
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    int n =
        rank >= 0
            ? snprintf(record_path, sizeof record_path, "%s/ranks/%08x-%06d.weft", weft_run_path, job_hash(job), rank)
            : snprintf(record_path, sizeof record_path, "%s/ranks/tmp-%s-%d.weft", weft_run_path, host, (int)getpid());
    return n > 0 && n < (int)sizeof record_path;
}

/* Called at entry to MPI_Init, MPI_Init_thread or MPI_Session_init, whichever comes first. */
WEFT_HIDDEN void weft_start_record(void);
/* Begins the record of this process, before MPI is initialised. */
void weft_start_record(void) {
    pthread_mutex_lock(&lock);
    if (weft_the_record || gave_up || !weft_run_path[0]) {
        /* A call before the initialisation made the record, or MPI begins anew after its end (a session). */
        if (weft_the_record && !weft_the_record->stopped && getpid() == weft_pid) weft_recording = 1;
        pthread_mutex_unlock(&lock);
        return;
    }
    char job[128];
    job_name(job, sizeof job);
    int rank = environment_rank();
    if (record_path_set(job, rank)) weft_the_record = weft_record_create(record_path, weft_level, rank, -1);
    if (!weft_the_record && errno == EEXIST && record_path_set(job, -1)) /* singletons that share a run */
        weft_the_record = weft_record_create(record_path, weft_level, rank, -1);
    struct weft_record *record = weft_the_record;
    gave_up = !weft_begin_process_record();
    pthread_mutex_unlock(&lock);
    if (gave_up) return;
    snprintf(record->header->job, sizeof record->header->job, "%s", job);
    weft_enter_predefined_objects();
    pthread_atfork(NULL, NULL, child_after_fork);
    weft_record_surroundings();
    weft_look_for_python();
    weft_recording = 1;
}

/* Renames the record once the rank is known. */
static void record_rename(void) {
    char before[PATH_MAX];
    struct weft_header *header = weft_the_record->header;
    memcpy(before, record_path, sizeof before);
    if (record_path_set(header->job, header->rank) && strcmp(before, record_path)) {
        if (access(record_path, F_OK) == 0 || rename(before, record_path)) memcpy(record_path, before, sizeof before);
    }
}

/* Called before MPI_Init, MPI_Init_thread (world) or MPI_Session_init (session) returns with success. */
WEFT_HIDDEN void weft_complete_record_start(bool world, int provided);
/* Writes rank, size and thread level into the record once MPI is initialised. `world`: not by a session. */
void weft_complete_record_start(bool world, int provided) {
    static bool described;
    sessions_used |= !world;
    struct weft_header *header = weft_the_record->header;
    header->thread_level = provided == MPI_THREAD_MULTIPLE     ? 3
                           : provided == MPI_THREAD_SERIALIZED ? 2
                           : provided == MPI_THREAD_FUNNELED   ? 1
                                                               : 0;
    if (world) {
        weft_define_world();
        int rank = -1, size = -1;
        REAL(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
        REAL(MPI_Comm_size)(MPI_COMM_WORLD, &size);
        header->rank = rank;
        header->world_size = size;
    }
    header->state = WEFT_STATE_RUNNING;
    if (header->rank >= 0) record_rename();
    int replayed = world && weft_replay_path[0] ? weft_start_replay(weft_replay_path, header->rank) : -1;
    if (!weft_replay_path[0] && weft_level == WEFT_LEVEL_TRACE) weft_begin_access_watch(provided != MPI_THREAD_SINGLE);
    if (weft_level == WEFT_LEVEL_TRACE) weft_begin_hashing();
    if (described) return;
    described = true;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    Dl_info info = {.dli_fname = ""};
    void *get = weft_next[K_MPI_Get_library_version];
    if (((int (*)(char *, int *))get)(version, &length) != MPI_SUCCESS) length = 0;
    version[length] = 0;
    dladdr(get, &info);
    weft_write_text_definition(WEFT_DEF_LIBRARY, (const char *[]){version, info.dli_fname}, 2, false);
    weft_remove_own_variables();
    weft_remove_own_variables_from_python();
    weft_begin_watching_exit();
    if (!weft_agent_path[0]) weft_begin_signal_handling(); /* a debugger meets the crash itself */
    weft_begin_watching_python_exit();
    if (weft_agent_path[0] && replayed >= 0) weft_prepare_for_debugger(replayed);
}

/* ---- spawned processes ---- */
/* Frees what weft_make_spawn_arguments has made. */
void weft_free_spawn_arguments(struct weft_spawn *spawn) {
    for (int i = 0; i < spawn->n; i++) {
        /* The rest are the program's own. A vector that is not complete has none of these. */
        for (int k = 0; spawn->vectors[i] && (spawn->commands[i] ? k < spawn->own : spawn->vectors[i][k] != NULL); k++)
            free(spawn->vectors[i][k]);
        free(spawn->vectors[i]);
    }
    free(spawn->commands);
    free(spawn->vectors);
}

/* The command as env(1) is to find it; NULL for one that it would not start as MPI does: its `path` MPI searches alone, for
 * env(1) as well. Owned by the caller. */
static char *spawned_command(const char *command, MPI_Info info) {
    int given = 0, length;
    if (info != MPI_INFO_NULL && REAL(MPI_Info_get_valuelen)(info, "path", &length, &given) != MPI_SUCCESS) given = 0;
    return given || strchr(command, '=') ? NULL : strdup(command);
}

__thread char weft_spawn_name[64];

/* `env WEFT_INTERNAL_SPAWN=... command arguments` for each command: its world is told by that name, and whose it is.
 * Where the MPI does not hand on the launcher's environment, LD_PRELOAD=..., WEFT_INTERNAL_RUN=... and the like stand
 * there, too. */
struct weft_spawn weft_make_spawn_arguments(int n, char *const *commands, char *const *const *vectors,
                                            const MPI_Info *infos, int multiple) {
    struct weft_spawn spawn = {.n = 0};
    static unsigned count_of_spawns;
    weft_spawn_name[0] = 0;
    if (n <= 0 || !commands || !infos) return spawn;
    const char *own = NULL;
#ifdef OPEN_MPI
    Dl_info self;
    if (!dladdr((void *)weft_bind_functions, &self) || !(own = self.dli_fname)) return spawn;
#endif
    if (multiple && vectors && vectors == (char *const *const *)MPI_ARGVS_NULL) vectors = NULL;
    char name[sizeof weft_spawn_name];
    const struct weft_header *header = weft_the_record->header;
    snprintf(name, sizeof name, "%u-%llu-%u", header->pid, (unsigned long long)header->start.realtime_ns,
             __atomic_add_fetch(&count_of_spawns, 1, __ATOMIC_RELAXED));
    spawn.commands = calloc((size_t)n, sizeof *spawn.commands);
    spawn.vectors = calloc((size_t)n, sizeof *spawn.vectors);
    for (int i = 0; i < n && spawn.commands && spawn.vectors; i++) {
        char *const *given = multiple ? (vectors ? vectors[i] : NULL) : *vectors;
        if (given == (char *const *)MPI_ARGV_NULL) given = NULL;
        size_t count = 0;
        while (given && given[count]) count++;
        char **vector = spawn.vectors[i] = calloc(count + 12, sizeof *vector);
        size_t at = 0;
        spawn.n = i + 1;
        if (!vector || asprintf(&vector[at++], "WEFT_INTERNAL_SPAWN=%s", name) < 0) break;
        if (own) {
            if (asprintf(&vector[at++], "LD_PRELOAD=%s", own) < 0) break;
            if (asprintf(&vector[at++], "WEFT_INTERNAL_RUN=%s", weft_run_path) < 0) break;
            const char *level = weft_level == WEFT_LEVEL_OUTCOMES ? "outcomes" : "trace";
            if (asprintf(&vector[at++], "WEFT_INTERNAL_LEVEL=%s", level) < 0) break;
            if (weft_replay_path[0] && asprintf(&vector[at++], "WEFT_INTERNAL_REPLAY=%s", weft_replay_path) < 0) break;
            if (weft_agent_path[0] && asprintf(&vector[at++], "WEFT_INTERNAL_AGENT=%s", weft_agent_path) < 0) break;
            if (weft_hashing && asprintf(&vector[at++], "WEFT_INTERNAL_HASH=1") < 0) break;
            if (weft_keep && asprintf(&vector[at++], "WEFT_INTERNAL_KEEP=%llu", (unsigned long long)weft_keep) < 0)
                break;
            if (weft_patient && asprintf(&vector[at++], "WEFT_INTERNAL_PATIENT=1") < 0) break;
            const char *without = getenv("WEFT_WITHOUT");
            if (without && asprintf(&vector[at++], "WEFT_WITHOUT=%s", without) < 0) break;
        }
        if (!(vector[at] = spawned_command(commands[i], infos[i]))) break;
        spawn.own = (int)++at;
        for (size_t k = 0; k < count; k++) vector[at + k] = given[k];
        spawn.commands[i] = (char *)"/usr/bin/env";
    }
    if (spawn.n < n || !spawn.commands[n - 1]) { /* no memory, or a command that env(1) cannot find */
        weft_free_spawn_arguments(&spawn);
        return (struct weft_spawn){.n = 0};
    }
    memcpy(weft_spawn_name, name, sizeof name);
    return spawn;
}

/* ---- the end ---- */
WEFT_HIDDEN void weft_end_record_at_finalize(void);
/* Ends the record after MPI_Finalize. */
void weft_end_record_at_finalize(void) {
    weft_end_ghost_watch();
    weft_the_record->header->state = WEFT_STATE_FINALIZED;
    if (sessions_used) return; /* a session may live on */
    weft_over = 1;
    weft_recording = 0; /* a call from here on is made outside of MPI's life, or begins a new one */
}

WEFT_HIDDEN void weft_end_record_at_session_end(void);
/* Marks the record as ended after a session, unless MPI goes on. */
void weft_end_record_at_session_end(void) {
    int initialized = 0; /* the world model ends with its own MPI_Finalize */
    if (REAL(MPI_Initialized)(&initialized) == MPI_SUCCESS && !initialized)
        weft_the_record->header->state = WEFT_STATE_FINALIZED;
}

WEFT_HIDDEN void weft_mark_record_aborted(int code);
/* Records that the program calls MPI_Abort with this code. */
void weft_mark_record_aborted(int code) {
    if (!weft_the_record || !weft_recording) return;
    weft_the_record->header->state = WEFT_STATE_ABORTED;
    weft_record_abort(code);
}

/* Returns the class of an error code, as the record stores it. */
uint8_t weft_find_error_class(int code) {
    int class = -1;
    REAL(MPI_Error_class)(code, &class);
    return class >= 0 && class < (int)WEFT_ERROR_OTHER ? (uint8_t)class : WEFT_ERROR_OTHER;
}

/* Runs when the recorder is loaded into the process: reads what to record. */
__attribute__((constructor)) static void loaded(void) {
    static bool done;
    if (done) return;
    done = true;
    const char *watch = getenv("WEFT_INTERNAL_BUFFERS");
    weft_read_own_variables(); /* without a run every call only goes through */
    if (weft_run_path[0]) atexit(tell_unseen);
    weft_watching = weft_is_left_out(WEFT_BUFFERS) ? 0
                    : !watch                       ? 1
                    : strcmp(watch, "all")         ? strcmp(watch, "0") != 0
                                                   : 2;
}

/* Runs at the end of the process: closes the record. */
__attribute__((destructor)) static void unloaded(void) {
    if (!weft_the_record || !(weft_recording || weft_over) || getpid() != weft_pid) return;
    weft_end_ghost_watch();
    weft_recording = weft_over = 0;
    uint32_t state = weft_the_record->header->state;
    weft_record_close(weft_the_record, state == WEFT_STATE_RUNNING ? WEFT_STATE_EXITED : (int)state);
}
