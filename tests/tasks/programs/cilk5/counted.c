// Linked into a program of Cilk-5 that Weft has built: at its end, how many tasks have begun and ended, and were stolen.
#include "weft-cilk.h"
#include <stdio.h>

__attribute__((destructor)) static void told(void) {
    unsigned long begun = 0, ended = 0, taken = 0;
    for (int at = 0; at < weft_tasks.count; at++) {
        begun += weft_tasks.worker[at].begun;
        ended += weft_tasks.worker[at].ended;
        taken += weft_tasks.worker[at].taken;
    }
    fprintf(stderr, "weft-cilk: %lu begun, %lu ended, %lu taken\n", begun, ended, taken);
}
