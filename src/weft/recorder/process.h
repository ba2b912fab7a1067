/* The process that is recorded: process.c, beneath the recorder of each system. */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <limits.h>

#include "endings.h"

/* What `weft run` put into the environment; empty: nothing is recorded, replayed or debugged. */
extern WEFT_HIDDEN char weft_run_path[PATH_MAX], weft_replay_path[PATH_MAX], weft_agent_path[PATH_MAX];
extern WEFT_HIDDEN int weft_level; /* enum weft_level, 0: nothing is recorded */

WEFT_COLD void weft_read_recorder_variables(void);  /* reads the environment */
WEFT_COLD void weft_record_other_threads(void);
WEFT_COLD bool weft_begin_process_record(void); /* weft_the_record was just made; false: it cannot be written */
WEFT_COLD void weft_stop_recording_in_child(void); /* in a child after fork() */
WEFT_COLD void weft_write_text_definition(int type, const char *const *texts, size_t n, bool counted);
WEFT_COLD void weft_record_surroundings(void);
WEFT_COLD void weft_remove_recorder_variables(void);
WEFT_COLD void weft_remove_recorder_variables_from_python(void);
WEFT_COLD void weft_prepare_for_debugger(int rank);

/* Return the last part of a path. */
WEFT_INLINE const char *weft_find_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Each system gives it: a second thread is about to make a call. */
WEFT_COLD void weft_prepare_for_threads(void);

#endif
