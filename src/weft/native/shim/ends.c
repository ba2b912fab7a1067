/* When MPI itself ends the process: under MPI_ERRORS_ARE_FATAL a wrong call does not return.
 *
 * The launcher then kills the process, often before exit() gets to the recorder's end. So what MPI does first is
 * caught: MPICH's words on standard error, Open MPI's request to its launcher. Both go on unchanged. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "endings.h"

enum { WORDS = 2048 };

volatile int weft_ended_by_mpi;

static bool ends_here(void) {
    return weft_the_record && weft_recording && weft_depth && weft_the_record->header->state == WEFT_STATE_RUNNING;
}

static WEFT_COLD void ended(const char *words) {
    if (!ends_here()) return;
    uint8_t payload[WORDS + 16];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_text_s(&text, words, strnlen(words, WORDS));
    weft_define(WEFT_DEF_ENDED, payload, (size_t)(text.p - payload));
    weft_the_record->header->state = WEFT_STATE_EXITED;
    weft_ended_by_mpi = 1;
}

#ifdef OPEN_MPI
__attribute__((visibility("default"))) int PMIx_Abort(int status, const char *words, void *processes, size_t n);
int PMIx_Abort(int status, const char *words, void *processes, size_t n) {
    int (*real)(int, const char *, void *, size_t) = (__typeof__(real))dlsym(RTLD_NEXT, "PMIx_Abort");
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (words && *words) ended(words);
    else if (ends_here()) { /* under MPI_ERRORS_ARE_FATAL the status is the error's code */
        if (status <= 0 || REAL(MPI_Error_string)(status, text, &length) != MPI_SUCCESS) text[0] = 0;
        ended(text);
    }
    return real ? real(status, words, processes, n) : -1;
}
#else
__attribute__((visibility("default"))) int fputs(const char *restrict words, FILE *restrict stream) {
    static int (*real)(const char *, FILE *);
    if (UNLIKELY(!real)) real = (__typeof__(real))dlsym(RTLD_NEXT, "fputs");
    uintptr_t at = (uintptr_t)__builtin_return_address(0);
    if (UNLIKELY(stream == stderr && at - weft_library_start < weft_library_end - weft_library_start) &&
        strstr(words, "Abort("))
        ended(words);
    return real(words, stream);
}
#endif
