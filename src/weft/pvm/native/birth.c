/* Birth and end of the recorder in a task. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "pvm.h"

volatile int weft_pvm_begun, weft_ended_by_mpi, weft_attention;
bool weft_pvm_serves;
int weft_pvm_rank = -1;

static char record_path[PATH_MAX + 64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool gave_up, left;

/* Return PVM's own function of this name: behind this library or, where the program loads PVM itself, in what it has
 * loaded. NULL if there is none. */
void *weft_pvm_find_real_function(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    for (const char *const *library = (const char *const[]){"libpvm3.so.3", "libgpvm3.so.3", NULL}; !found && *library;
         library++) {
        void *handle = dlopen(*library, RTLD_LAZY | RTLD_NOLOAD);
        if (!handle) continue;
        found = dlsym(handle, name);
        dlclose(handle);
    }
    return found;
}

/* What calls.h asks of a system that has nothing to say to it. */
void weft_check_plan_and_look_up_buffers(struct weft_thread *thread, struct weft_event *event) {
    (void)thread, (void)event;
}
void weft_look_up_buffers_at_next_call(struct weft_thread *thread) { (void)thread; }
void weft_note_buffer_for_lookup(const void *buffer) { (void)buffer; }
void weft_record_caller_frames(const struct weft_site_cached *site) { (void)site; }
bool weft_is_in_fortran_binding(void *address) { return (void)address, false; }
void weft_prepare_for_threads(void) {}
__thread uint64_t weft_decided;

/* PVM's codes of errors are -2 to -36; the record keeps them without the sign. */
uint8_t weft_find_error_class(int code) { return code < 0 && code > -255 ? (uint8_t)-code : WEFT_ERROR_OTHER; }

/* In a forked child of a task: let the child not record, and renew the lock that another thread may have held. */
static void reset_after_fork(void) {
    weft_stop_recording_in_child();
    weft_pvm_begun = 1;
    pthread_mutex_init(&lock, NULL);
}

/* Return whether this process is PVM's group server (pvmgs), by the name of its program. */
static bool is_group_server(void) {
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) return false;
    path[n] = 0;
    return !strcmp(weft_find_file_name(path), "pvmgs");
}

/* Write into the record which version of PVM the program uses and the path of its library. */
static void define_pvm_library(void) {
    const char *version = "PVM";
    char *(*ask)(void) = (char *(*)(void))weft_pvm_find_real_function("pvm_version");
    Dl_info info = {.dli_fname = ""};
    if (ask) version = ask();
    if (ask) dladdr((void *)ask, &info);
    weft_write_text_definition(WEFT_DEF_LIBRARY, (const char *[]){version, info.dli_fname ? info.dli_fname : ""}, 2,
                               false);
}

/* Take this task's rank and create its record in the run's directory. Return false if that fails. */
static bool create_record(int tid, int parent) {
    weft_pvm_rank = weft_pvm_take_rank(tid, parent);
    if (weft_pvm_rank < 0) return false;
    snprintf(record_path, sizeof record_path, "%s/ranks/pvm-%06d.weft", weft_run_path, weft_pvm_rank);
    weft_the_record = weft_record_create(record_path, weft_level, weft_pvm_rank, (int)weft_pvm_task_count());
    if (!weft_begin_process_record()) return false;
    snprintf(weft_the_record->header->job, sizeof weft_the_record->header->job, "pvm");
    return true;
}

/* Begin to record, before the process's first call of PVM, which enrols it as a task: take its rank, create its record,
 * begin a replay if wanted. Return whether calls are recorded. Taken up again where the task left PVM and came back. */
bool weft_pvm_begin_recording(void) {
    if (!weft_run_path[0]) return false;
    pthread_mutex_lock(&lock);
    if (weft_pvm_begun) goto done;
    weft_depth = 1;
    int tid = real_pvm_mytid();
    if (tid <= 0 || gave_up) { /* no daemon: the program hears so from its own call */
        weft_depth = 0;
        pthread_mutex_unlock(&lock);
        return false;
    }
    int parent = real_pvm_parent();
    if (left) { /* it left PVM before, and is another task now, of the same name */
        weft_pvm_take_rank(tid, parent);
        weft_the_record->header->state = WEFT_STATE_RUNNING;
        weft_recording = 1;
        weft_over = 0;
        left = false;
    } else if (!weft_pvm_open_tasks() || !create_record(tid, parent)) {
        gave_up = true;
    } else {
        weft_pvm_serves = is_group_server();
        pthread_atfork(NULL, NULL, reset_after_fork);
        weft_record_surroundings();
        weft_look_for_python();
        define_pvm_library();
        weft_the_record->header->state = WEFT_STATE_RUNNING;
        if (weft_replay_path[0]) weft_follow_begin_replay(weft_replay_path, weft_pvm_rank);
        weft_remove_recorder_variables();
        unsetenv("WEFT_INTERNAL_PVM_RANK");
        weft_begin_watching_exit();
        if (!weft_agent_path[0] && !weft_pvm_serves) weft_begin_signal_handling();
        if (weft_agent_path[0]) weft_prepare_for_debugger(weft_pvm_rank);
        weft_recording = 1;
    }
    weft_pvm_begun = 1;
    weft_depth = 0;
done:
    pthread_mutex_unlock(&lock);
    return weft_recording;
}

/* End the record after pvm_exit; the next call of PVM takes it up again. */
void weft_pvm_end_recording(void) {
    weft_pvm_set_state(WEFT_TASK_LEFT);
    weft_follow_left();
    weft_the_record->header->state = WEFT_STATE_FINALIZED;
    weft_over = 1;
    weft_recording = 0;
    left = true;
    weft_pvm_begun = 0; /* the next call begins anew */
}

__attribute__((constructor)) static void on_load(void) { weft_read_recorder_variables(); }

/* When the library is unloaded: mark the task as gone and close its record. Not in a forked child. */
__attribute__((destructor)) static void close_record_at_unload(void) {
    if (!weft_the_record || !(weft_recording || weft_over) || getpid() != weft_pid) return;
    weft_recording = weft_over = 0;
    weft_pvm_set_state(WEFT_TASK_LEFT);
    weft_follow_left();
    uint32_t state = weft_the_record->header->state;
    weft_record_close(weft_the_record, state == WEFT_STATE_RUNNING ? WEFT_STATE_EXITED : (int)state);
}
