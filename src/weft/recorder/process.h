/* The process that is recorded: process.c, beneath the recorder of each system. */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <limits.h>

#include "endings.h"

/* What `weft run` put into the environment; empty: nothing is recorded, replayed or debugged. */
extern WEFT_HIDDEN char weft_run_path[PATH_MAX], weft_replay_path[PATH_MAX], weft_agent_path[PATH_MAX];
extern WEFT_HIDDEN int weft_level; /* enum weft_level, 0: nothing is recorded */

WEFT_COLD void weft_process_look(void);  /* reads the environment */
WEFT_COLD bool weft_process_begin(void); /* weft_the_record was just made; false: it cannot be written */
WEFT_COLD void weft_process_child(void); /* in a child after fork() */
WEFT_COLD void weft_define_text(int type, const char *const *texts, size_t n, bool counted);
WEFT_COLD void weft_define_surroundings(void);
WEFT_COLD void weft_clean_environment(void);
WEFT_COLD void weft_clean_python_environment(void);
WEFT_COLD void weft_debug_attend(int rank);

WEFT_INLINE const char *weft_soname_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Each system gives it: a second thread is about to make a call. */
WEFT_COLD void weft_several_threads(void);

#endif
