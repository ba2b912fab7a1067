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

/* Set the addresses between which the code of a loaded module lies. */
static void find_code_range(const struct dl_phdr_info *info, uintptr_t *start, uintptr_t *end) {
    *start = UINTPTR_MAX;
    *end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X)) continue;
        uintptr_t from = info->dlpi_addr + segment->p_vaddr, to = from + segment->p_memsz;
        if (from < *start) *start = from;
        if (to > *end) *end = to;
    }
}

/* Return whether a file name is that of the MPI library that this recorder was built for, maybe with a version behind
 * it. */
static bool is_wanted_library(const char *name) {
    size_t length = strlen(weft_soname);
    return !strncmp(name, weft_soname, length) && (!name[length] || name[length] == '.');
}

/* Return the name that a loaded library has for itself (DT_SONAME), as its file may have another where links are
 * copies, as in wheels; "" for none. */
static const char *find_soname(const struct dl_phdr_info *info) {
    const ElfW(Dyn) *entry = NULL;
    uintptr_t strings = 0, name = 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
        if (entry->d_tag == DT_SONAME) name = entry->d_un.d_val;
    }
    if (!strings || !name) return "";
    return (const char *)((strings < info->dlpi_addr ? info->dlpi_addr : 0) + strings + name);
}

/* Return whether a link leads to the MPI library that this recorder was built for, as Debian's libmpi.so.12 to
 * libmpich.so.12. */
static bool is_link_to_wanted_library(const char *link) {
    char path[PATH_MAX];
    return realpath(link, path) && is_wanted_library(weft_find_file_name(path));
}

/* Return whether a file name is that of an MPI binding for Fortran: libmpifort, libmpichfort, libmpi_mpifh,
 * libmpi_usempi* and the like. */
static bool is_fortran_binding(const char *name) {
    return (strstr(name, "fort") || strstr(name, "mpifh") || strstr(name, "usempi")) && strstr(name, "mpi");
}

/* Note the code of a binding for Fortran: calls from there are the binding's, not the program's. */
static void add_fortran_binding(uintptr_t start, uintptr_t end) {
    int count = fortran_module_count;
    for (int i = 0; i < count; i++)
        if (fortran_modules[i].start == start) return;
    if (count == FORTRAN_MODULES) return;
    fortran_modules[count].start = start;
    fortran_modules[count].end = end;
    __atomic_store_n(&fortran_module_count, count + 1, __ATOMIC_RELEASE);
}

struct module_at {
    uintptr_t at, start, end;
};

/* Callback of dl_iterate_phdr: return whether a loaded module's code holds the address that is searched for, whose
 * range is set then. */
static int visit_module_for_address(struct dl_phdr_info *info, size_t size, void *search_data) {
    (void)size;
    struct module_at *search = search_data;
    find_code_range(info, &search->start, &search->end);
    return search->at >= search->start && search->at < search->end;
}

/* Set the range of the code of the module that a function belongs to; return false if there is none. */
static bool find_code_range_of_function(const void *function, uintptr_t *start, uintptr_t *end) {
    struct module_at search = {.at = (uintptr_t)function};
    if (!dl_iterate_phdr(visit_module_for_address, &search)) return false;
    *start = search.start;
    *end = search.end;
    return true;
}

/* Callback of dl_iterate_phdr: note the MPI library that this recorder was built for, another MPI library, and the
 * bindings for Fortran. Always return 0, so that all modules are visited. */
static int visit_module_for_mpi(struct dl_phdr_info *info, size_t size, void *search_data) {
    (void)size;
    struct library *found = search_data;
    const char *name = weft_find_file_name(info->dlpi_name ? info->dlpi_name : "");
    uintptr_t start, end;
    find_code_range(info, &start, &end);
    if (is_fortran_binding(name)) add_fortran_binding(start, end);
    if (!found->path[0] &&
        (is_wanted_library(name) || (!strncmp(name, "libmp", 5) && (is_wanted_library(find_soname(info)) ||
                                                                    is_link_to_wanted_library(info->dlpi_name))))) {
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

/* Return whether an address lies in the code of a binding for Fortran. */
bool weft_is_in_fortran_binding(void *address) {
    for (int i = 0; i < fortran_module_count; i++)
        if ((uintptr_t)address >= fortran_modules[i].start && (uintptr_t)address < fortran_modules[i].end) return true;
    return false;
}

/* Return the address at which the module that holds an address is loaded, 0 for none. */
static uintptr_t find_load_address(const void *address) {
    Dl_info info;
    return address && dladdr(address, &info) ? (uintptr_t)info.dli_fbase : 0;
}

/* Leave a file in the run's folder that names an MPI library which was not recorded, so that `weft run` tells the user.
 * `kind`: `other` or `unseen`, the file's prefix. */
static void leave_library_note(const char *kind, const char *path) {
    char name[PATH_MAX + 64], host[64] = "";
    gethostname(host, sizeof host - 1);
    if (!weft_run_path[0]) return;
    snprintf(name, sizeof name, "%s/ranks/%s-mpi-%s-%d.txt", weft_run_path, kind, host, (int)getpid());
    FILE *file = fopen(name, "wxe");
    if (!file) return;
    fprintf(file, "%s\n%s\n", path, weft_soname);
    fclose(file);
}

/* Start the program again without the recorder, as it has loaded another MPI than the one whose names this library
 * offers: calls may already be bound to names that its MPI does not have. The program has not begun with MPI yet.
 * Return only if that fails. */
static WEFT_COLD void restart_without_recorder(void) {
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
    weft_remove_recorder_variables();
    fflush(NULL);
    execvp(words[0], words);
}

/* Let the stubs of all functions jump straight to MPI's own functions. */
static void bypass_recorder(void) {
    for (int k = 0; k < weft_count; k++) weft_slots[k] = weft_slots[weft_count + k] = weft_next[k];
}

WEFT_HIDDEN void weft_bind_functions(void);
static void read_environment_at_load(void);
/* Find the functions of the MPI library that the process has loaded, and decide what each stub jumps to; the first call
 * of MPI does it, once. The library's symbols are global in a program that is linked with MPI, and private to a handle
 * under Python, which loads MPI with RTLD_LOCAL. */
void weft_bind_functions(void) {
    pthread_mutex_lock(&lock);
    if (names_bound) goto done;
    read_environment_at_load(); /* Open MPI's libmpi_cxx calls MPI from a constructor that runs before ours */
    struct library library = {.path = ""};
    dl_iterate_phdr(visit_module_for_mpi, &library);
    void *handle = library.path[0] ? dlopen(library.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    bool mine = handle != NULL;
    if (!handle) { /* another MPI than the recorder was built for: every call goes straight on */
        leave_library_note("other", library.other);
        if (weft_level) restart_without_recorder();
        handle = library.other[0] ? dlopen(library.other, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (!handle) handle = RTLD_NEXT;
    }
    uintptr_t home = mine ? find_load_address(dlsym(handle, "PMPI_Init")) : 0;
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
    bypass_recorder();
    if (!mine) {
        gave_up = true;
        goto bound_now;
    }
    weft_library_start = library.start;
    weft_library_end = library.end;
    for (int k = 0; k < weft_count; k++) {
        /* Another tool's wrapper between us and MPI keeps its place; then its own PMPI calls are not recorded twice. */
        void *chained = dlsym(RTLD_NEXT, weft_names[k]);
        bool tool = chained && chained != weft_next[k] && find_load_address(chained) != home;
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

/* Callback of dl_iterate_phdr: search a binding for Fortran for an entry by its name; return whether it has it. One
 * that was loaded with RTLD_LOCAL has its entries for those only who name it. */
static int visit_module_for_fortran_entry(struct dl_phdr_info *info, size_t size, void *search_data) {
    (void)size;
    struct entry *entry = search_data;
    if (!info->dlpi_name || !is_fortran_binding(weft_find_file_name(info->dlpi_name))) return 0;
    void *handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    entry->found = handle ? dlsym(handle, entry->name) : NULL;
    if (handle) dlclose(handle);
    return entry->found != NULL;
}

/* Keep the library of a function loaded though the program may close it, as the slots hold the function's address. */
static void pin_library(const void *function) {
    Dl_info info;
    void *handle = dladdr(function, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) : NULL;
    if (handle) dlclose(handle);
}

WEFT_HIDDEN void weft_bind_fortran_function(int entry);
/* Find an entry of the binding for Fortran at its first call, as the binding may be loaded at any time. `entry`: its
 * place among the Fortran names. A program without it ends as the dynamic linker would end it. */
void weft_bind_fortran_function(int entry) {
    struct entry wanted = {.name = weft_fortran_names[entry]};
    uintptr_t start, end;
    weft_bind_functions();
    wanted.found = dlsym(RTLD_NEXT, wanted.name);
    if (!wanted.found) dl_iterate_phdr(visit_module_for_fortran_entry, &wanted);
    if (!wanted.found) { /* what the loader says where there is no such function */
        fprintf(stderr, "%s: symbol lookup error: undefined symbol: %s\n", program_invocation_name, wanted.name);
        _exit(127);
    }
    pin_library(wanted.found);
    pthread_mutex_lock(&lock);
    if (find_code_range_of_function(wanted.found, &start, &end)) add_fortran_binding(start, end);
    pthread_mutex_unlock(&lock);
    __atomic_store_n(&weft_fortran_slots[entry], wanted.found, __ATOMIC_RELEASE);
}

/* ---- an MPI that the recorder did not see ---- */
/* Callback of dl_iterate_phdr: return whether a module is an MPI library that was initialised; its path is copied to
 * the PATH_MAX bytes at `path`. */
static int visit_module_for_unseen_mpi(struct dl_phdr_info *info, size_t size, void *path) {
    (void)size;
    const char *name = weft_find_file_name(info->dlpi_name ? info->dlpi_name : "");
    if (strncmp(name, "libmp", 5)) return 0;
    void *handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    int (*initialized)(int *) = handle ? (int (*)(int *))dlsym(handle, "PMPI_Initialized") : NULL;
    int flag = 0;
    if (initialized && initialized(&flag)) flag = 0;
    if (handle) dlclose(handle);
    if (flag) snprintf(path, PATH_MAX, "%s", info->dlpi_name);
    return flag;
}

/* At the end of a process without a record: note an MPI library that was initialised all the same, by functions found
 * with dlsym() or bound with RTLD_DEEPBIND. */
static void note_unseen_mpi(void) {
    char path[PATH_MAX];
    if (weft_the_record || gave_up || !weft_run_path[0]) return;
    if (dl_iterate_phdr(visit_module_for_unseen_mpi, path)) leave_library_note("unseen", path);
}

/* ---- initialisation ---- */
/* Return the rank that the launcher has put into the environment, -1 for none. */
static int read_rank_from_environment(void) {
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value >= '0' && *value <= '9') return atoi(value);
    }
    return -1;
}

/* Write a name that is the same for all ranks of one world and for no other world of the run. Hydra gives none: there
 * the first world is known by its not being spawned, and a spawned one by the name that the recorder of its parent gave
 * the spawn, or else by its proxy, the ranks' parent process. */
static void write_job_name(char *text, size_t size) {
    const char *name = getenv("PMIX_NAMESPACE"), *step = getenv("SLURM_STEP_ID");
    if (!name) name = getenv("PMI_JOBID");
    if (name) snprintf(text, size, "%s", name);
    else if (getenv("PMI_SPAWNED") && (name = getenv("WEFT_INTERNAL_SPAWN"))) snprintf(text, size, "spawned-%s", name);
    else if (getenv("PMI_SPAWNED")) snprintf(text, size, "spawned-%d", (int)getppid());
    else if (getenv("PMI_RANK") || getenv("PMI_FD")) snprintf(text, size, "world");
    else if (getenv("SLURM_PROCID") && (name = getenv("SLURM_JOB_ID")))
        snprintf(text, size, "%s.%s", name, step ? step : "");
    else snprintf(text, size, "single-%d", (int)getpid());
}

/* Prepare for calls of several threads, before the second one makes a call: use real locks, and let threads hand their
 * calls to MPI one after the other. */
void weft_prepare_for_threads(void) {
    weft_begin_locking_objects();
    for (int k = 0; k < weft_count; k++)
        if (weft_split[k] && *weft_find_lowest_slot(k) == weft_next[k]) *weft_find_lowest_slot(k) = weft_split[k];
}

/* Stop recording in a child of fork(), which is not the rank. */
static void stop_recording_after_fork(void) {
    weft_stop_recording_in_child();
    weft_reset_object_locks();
    pthread_mutex_init(&lock, NULL);
    weft_reset_posting_lock();
    weft_end_access_watch_in_child();
}

/* Return a hash of a job's name, for the names of files. */
static uint32_t hash_job_name(const char *job) {
    uint32_t hash = 2166136261u;
    for (; *job; job++) hash = (hash ^ (uint8_t)*job) * 16777619u;
    return hash;
}

/* Set the path of the record: by job and rank if the rank is known, else by host and process. Return false if it is too
 * long. */
static bool set_record_path(const char *job, int rank) {
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    int length = rank >= 0 ? snprintf(record_path, sizeof record_path, "%s/ranks/%08x-%06d.weft", weft_run_path,
                                      hash_job_name(job), rank)
                           : snprintf(record_path, sizeof record_path, "%s/ranks/tmp-%s-%d.weft", weft_run_path, host,
                                      (int)getpid());
    return length > 0 && length < (int)sizeof record_path;
}

WEFT_HIDDEN void weft_start_record(void);
/* Begin the record of this process, at entry to MPI_Init, MPI_Init_thread or MPI_Session_init, whichever comes
 * first. */
void weft_start_record(void) {
    pthread_mutex_lock(&lock);
    if (weft_the_record || gave_up || !weft_run_path[0]) {
        /* A call before the initialisation made the record, or MPI begins anew after its end (a session). */
        if (weft_the_record && !weft_the_record->stopped && getpid() == weft_pid) weft_recording = 1;
        pthread_mutex_unlock(&lock);
        return;
    }
    char job[128];
    write_job_name(job, sizeof job);
    int rank = read_rank_from_environment();
    if (set_record_path(job, rank)) weft_the_record = weft_record_create(record_path, weft_level, rank, -1);
    if (!weft_the_record && errno == EEXIST && set_record_path(job, -1)) /* singletons that share a run */
        weft_the_record = weft_record_create(record_path, weft_level, rank, -1);
    struct weft_record *record = weft_the_record;
    gave_up = !weft_begin_process_record();
    pthread_mutex_unlock(&lock);
    if (gave_up) return;
    snprintf(record->header->job, sizeof record->header->job, "%s", job);
    weft_enter_predefined_objects();
    pthread_atfork(NULL, NULL, stop_recording_after_fork);
    weft_record_surroundings();
    weft_look_for_python();
    weft_recording = 1;
    weft_record_other_threads();
}

/* Rename the file of the record once the rank is known. */
static void rename_record(void) {
    char before[PATH_MAX];
    struct weft_header *header = weft_the_record->header;
    memcpy(before, record_path, sizeof before);
    if (set_record_path(header->job, header->rank) && strcmp(before, record_path)) {
        if (access(record_path, F_OK) == 0 || rename(before, record_path)) memcpy(record_path, before, sizeof before);
    }
}

WEFT_HIDDEN void weft_complete_record_start(bool world, int provided);
/* Write rank, size and thread level into the record, and begin all other watching, once MPI is initialised. `world`: by
 * MPI_Init or MPI_Init_thread, not by a session. `provided`: the thread level. */
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
    if (header->rank >= 0) rename_record();
    int replayed = world && weft_replay_path[0] ? weft_start_replay(weft_replay_path, header->rank) : -1;
    if (!weft_replay_path[0] && weft_level == WEFT_LEVEL_TRACE) weft_begin_access_watch(provided != MPI_THREAD_SINGLE);
    if (weft_level == WEFT_LEVEL_TRACE) weft_begin_hashing();
    if (described) return;
    described = true;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    Dl_info info = {.dli_fname = ""};
    void *get_version = weft_next[K_MPI_Get_library_version];
    if (((int (*)(char *, int *))get_version)(version, &length) != MPI_SUCCESS) length = 0;
    version[length] = 0;
    dladdr(get_version, &info);
    weft_write_text_definition(WEFT_DEF_LIBRARY, (const char *[]){version, info.dli_fname}, 2, false);
    weft_remove_recorder_variables();
    weft_remove_recorder_variables_from_python();
    weft_begin_watching_exit();
    if (!weft_agent_path[0]) weft_begin_signal_handling(); /* a debugger meets the crash itself */
    weft_begin_watching_python_exit();
    if (weft_agent_path[0] && replayed >= 0) weft_prepare_for_debugger(replayed);
}

/* ---- spawned processes ---- */
/* Free what weft_make_spawn_arguments has made. */
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

/* Return a copy of a command that env(1) can find, owned by the caller; NULL for one that env would not start as MPI
 * does: only MPI searches the `path` of an info object. */
static char *copy_spawned_command(const char *command, MPI_Info info) {
    int given = 0, length;
    if (info != MPI_INFO_NULL && REAL(MPI_Info_get_valuelen)(info, "path", &length, &given) != MPI_SUCCESS) given = 0;
    return given || strchr(command, '=') ? NULL : strdup(command);
}

__thread char weft_spawn_name[64];

/* Return the arguments of MPI_Comm_spawn(_multiple) changed to `env WEFT_INTERNAL_SPAWN=... command arguments` for each
 * of `n` commands, so that the spawned world is recorded and known by that name. Where the MPI does not hand on the
 * launcher's environment, the recorder's other variables stand there, too. `n` of the result is 0 where that is not
 * possible. */
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
        size_t position = 0;
        spawn.n = i + 1;
        if (!vector || asprintf(&vector[position++], "WEFT_INTERNAL_SPAWN=%s", name) < 0) break;
        if (own) {
            if (asprintf(&vector[position++], "LD_PRELOAD=%s", own) < 0) break;
            if (asprintf(&vector[position++], "WEFT_INTERNAL_RUN=%s", weft_run_path) < 0) break;
            const char *level = weft_level == WEFT_LEVEL_OUTCOMES ? "outcomes" : "trace";
            if (asprintf(&vector[position++], "WEFT_INTERNAL_LEVEL=%s", level) < 0) break;
            if (weft_replay_path[0] && asprintf(&vector[position++], "WEFT_INTERNAL_REPLAY=%s", weft_replay_path) < 0)
                break;
            if (weft_agent_path[0] && asprintf(&vector[position++], "WEFT_INTERNAL_AGENT=%s", weft_agent_path) < 0)
                break;
            if (weft_hashing && asprintf(&vector[position++], "WEFT_INTERNAL_HASH=1") < 0) break;
            if (weft_keep &&
                asprintf(&vector[position++], "WEFT_INTERNAL_KEEP=%llu", (unsigned long long)weft_keep) < 0)
                break;
            if (weft_patient && asprintf(&vector[position++], "WEFT_INTERNAL_PATIENT=1") < 0) break;
            const char *without = getenv("WEFT_WITHOUT");
            if (without && asprintf(&vector[position++], "WEFT_WITHOUT=%s", without) < 0) break;
        }
        if (!(vector[position] = copy_spawned_command(commands[i], infos[i]))) break;
        spawn.own = (int)++position;
        for (size_t k = 0; k < count; k++) vector[position + k] = given[k];
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
/* Mark the record as complete after MPI_Finalize, and end it unless sessions may live on. */
void weft_end_record_at_finalize(void) {
    weft_end_ghost_watch();
    weft_the_record->header->state = WEFT_STATE_FINALIZED;
    if (sessions_used) return; /* a session may live on */
    weft_over = 1;
    weft_recording = 0; /* a call from here on is made outside of MPI's life, or begins a new one */
}

WEFT_HIDDEN void weft_end_record_at_session_end(void);
/* Mark the record as complete after a session has ended, unless the world model goes on until its own MPI_Finalize. */
void weft_end_record_at_session_end(void) {
    int initialized = 0; /* the world model ends with its own MPI_Finalize */
    if (REAL(MPI_Initialized)(&initialized) == MPI_SUCCESS && !initialized)
        weft_the_record->header->state = WEFT_STATE_FINALIZED;
}

WEFT_HIDDEN void weft_mark_record_aborted(int code);
/* Record that the program calls MPI_Abort with this code, before it does. */
void weft_mark_record_aborted(int code) {
    if (!weft_the_record || !weft_recording) return;
    weft_the_record->header->state = WEFT_STATE_ABORTED;
    weft_record_abort(code);
}

/* Return the class of an error code as the record stores it. */
uint8_t weft_find_error_class(int code) {
    int class = -1;
    REAL(MPI_Error_class)(code, &class);
    return class >= 0 && class < (int)WEFT_ERROR_OTHER ? (uint8_t)class : WEFT_ERROR_OTHER;
}

/* Run when the recorder is loaded into the process: read from the environment what to record. */
__attribute__((constructor)) static void read_environment_at_load(void) {
    static bool done;
    if (done) return;
    done = true;
    const char *watch = getenv("WEFT_INTERNAL_BUFFERS");
    weft_read_recorder_variables(); /* without a run every call only goes through */
    if (weft_run_path[0]) atexit(note_unseen_mpi);
    weft_watching = weft_is_left_out(WEFT_BUFFERS) ? 0
                    : !watch                       ? 1
                    : strcmp(watch, "all")         ? strcmp(watch, "0") != 0
                                                   : 2;
}

/* Run at the end of the process: close the record. */
__attribute__((destructor)) static void close_record_at_exit(void) {
    if (!weft_the_record || !(weft_recording || weft_over) || getpid() != weft_pid) return;
    weft_end_ghost_watch();
    weft_recording = weft_over = 0;
    uint32_t state = weft_the_record->header->state;
    weft_record_close(weft_the_record, state == WEFT_STATE_RUNNING ? WEFT_STATE_EXITED : (int)state);
}
