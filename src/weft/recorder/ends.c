/* When MPI itself ends the process, and calls outside of its life. Under MPI_ERRORS_ARE_FATAL a wrong call does not return.
 *
 * The launcher then kills the process, often before exit() gets to the recorder's end. So what MPI does first is
 * caught: MPICH's words on standard error, Open MPI's request to its launcher. Both go on unchanged. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "endings.h"
#include "shim.h"

enum { WORDS = 2048 };

volatile int weft_ended_by_mpi;

/* Return whether an end that MPI makes now is to be recorded: inside a recorded call, while the record is open. */
static bool is_ending_recordable(void) {
    return weft_the_record && weft_recording && weft_depth && weft_the_record->header->state == WEFT_STATE_RUNNING;
}

/* Record MPI's own words about the error for which it ends the process. */
static WEFT_COLD void record_end_by_mpi(const char *words) {
    if (!is_ending_recordable()) return;
    uint8_t payload[WORDS + 16];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_bytes(&text, words, strnlen(words, WORDS));
    weft_write_definition(WEFT_DEF_ENDED, payload, (size_t)(text.p - payload));
    weft_the_record->header->state = WEFT_STATE_EXITED;
    weft_ended_by_mpi = 1;
}

#ifdef OPEN_MPI
WEFT_GIVEN __attribute__((visibility("default"))) int PMIx_Abort(int status, const char *words, void *processes,
                                                                 size_t n);
/* Stand before PMIx_Abort, by which Open MPI ends the job: record the words of the error. */
int PMIx_Abort(int status, const char *words, void *processes, size_t n) {
    int (*real)(int, const char *, void *, size_t) = (__typeof__(real))dlsym(RTLD_NEXT, "PMIx_Abort");
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (words && *words) record_end_by_mpi(words);
    else if (is_ending_recordable()) { /* under MPI_ERRORS_ARE_FATAL the status is the error's code */
        if (status <= 0 || REAL(MPI_Error_string)(status, text, &length) != MPI_SUCCESS) text[0] = 0;
        record_end_by_mpi(text);
    }
    return real ? real(status, words, processes, n) : -1;
}
#else
/* Stand before fputs, with which MPICH prints its error before it ends the process: record the words of that error. */
WEFT_GIVEN __attribute__((visibility("default"))) int fputs(const char *restrict words, FILE *restrict stream) {
    static int (*real)(const char *, FILE *);
    if (UNLIKELY(!real)) real = (__typeof__(real))dlsym(RTLD_NEXT, "fputs");
    uintptr_t at = (uintptr_t)__builtin_return_address(0);
    if (UNLIKELY(stream == stderr && at - weft_library_start < weft_library_end - weft_library_start) &&
        strstr(words, "Abort("))
        record_end_by_mpi(words);
    return real(words, stream);
}
#endif

/* ---- what the program says of its end, and calls that it makes outside of MPI's life ---- */
/* Record that the program calls MPI_Abort, with its stack. */
void weft_record_abort(int code) {
    if (!weft_can_record_ending()) return;
    struct weft_stack stack;
    weft_record_uncaught_exception();
    weft_read_own_stack(&stack, NULL);
    weft_record_ending(
        &(struct weft_ending_report){.kind = WEFT_ENDING_ABORT, .code = code, .name = "MPI_Abort", .stack = &stack});
}

/* ---- calls outside of MPI's life ---- */
/* Return whether MPI permits a function before its initialisation and after its end, by the function's name
 * (`MPI_...`). */
static bool is_allowed_outside_mpi(const char *name) {
    static const char *const names[] = {"Initialized",   "Finalized",   "Get_version", "Get_library_version",
                                        "Abi_get_",      "Init",        "Session_",    "Info_",
                                        "Errhandler_",   "T_",          "Error_",      "Add_error_",
                                        "Remove_error_", "Wtime",       "Wtick",       "Aint_",
                                        "Status_",       "Get_address", "Pcontrol",    "Query_thread"};
    name += 4;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(name, names[i], strlen(names[i]))) return true;
    size_t length = strlen(name);
    return length > 4 && (!strcmp(name + length - 4, "_f2c") || !strcmp(name + length - 4, "_c2f"));
}

WEFT_HIDDEN void weft_start_record(void);

/* Record the first call of MPI before its initialisation, and the first one after its end; `k`: number of the called
 * function. Return true for the first call after the end, which the caller then records as an event, too. */
bool weft_record_call_outside_mpi(int k) {
    static bool said_before, said_behind;
    if (weft_depth || weft_recording || (weft_the_record && !weft_over) || is_allowed_outside_mpi(weft_names[k]))
        return false;
    bool before = !weft_the_record;
    if (before) {
        int flag = 0;
        if (__atomic_exchange_n(&said_before, true, __ATOMIC_ACQ_REL)) return false;
        if ((REAL(MPI_Initialized)(&flag) == MPI_SUCCESS && flag) ||
            (REAL(MPI_Finalized)(&flag) == MPI_SUCCESS && flag))
            return false;
        weft_start_record();
        if (!weft_the_record || !weft_recording) return false;
    }
    if (getpid() != weft_pid || (!before && __atomic_exchange_n(&said_behind, true, __ATOMIC_ACQ_REL))) return false;
    weft_begin_watching_exit();
    struct weft_stack stack;
    weft_depth = 1;
    weft_read_own_stack(&stack, NULL);
    weft_record_ending(&(struct weft_ending_report){
        .kind = before ? WEFT_ENDING_NOT_INITIALISED : WEFT_ENDING_FINALISED, .name = weft_names[k], .stack = &stack});
    weft_depth = 0;
    weft_recording = !before; /* the tables of objects ask MPI, which is not there yet */
    return !before;
}
