// Linked into the serial elision of a Cilk program, built with -finstrument-functions: how often its procedures are called.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 1 << 12 };
static struct {
    void *function;
    int counts;
} known[PLACES];
static unsigned long calls;

// WEFT_NAMES: `:fib:main:`
__attribute__((no_instrument_function)) static int is_procedure(void *function) {
    Dl_info info;
    char name[256];
    if (!dladdr(function, &info) || info.dli_sname == NULL) return 0;
    snprintf(name, sizeof name, ":%s:", info.dli_sname);
    return strstr(getenv("WEFT_NAMES"), name) != NULL;
}

__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *site) {
    (void)site;
    unsigned at = (unsigned)((unsigned long)function >> 2) % PLACES;
    while (known[at].function != NULL && known[at].function != function) at = (at + 1) % PLACES;
    if (known[at].function == NULL) {
        known[at].function = function;
        known[at].counts = is_procedure(function);
    }
    calls += (unsigned long)known[at].counts;
}

__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function, void *site) {
    (void)function, (void)site;
}

__attribute__((destructor, no_instrument_function)) static void told(void) {
    fprintf(stderr, "elision: %lu calls\n", calls);
}
