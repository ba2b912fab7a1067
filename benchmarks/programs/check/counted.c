/* Tells callgrind what to count: all between count_begin and count_end. */
#include <valgrind/callgrind.h>

void count_begin(void) { CALLGRIND_START_INSTRUMENTATION; }
void count_end(void) { CALLGRIND_STOP_INSTRUMENTATION; }
