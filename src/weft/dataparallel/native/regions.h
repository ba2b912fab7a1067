/* Regions for a device, the copies on host and device, and tasks. */
#ifndef WEFT_CHECK_REGIONS_H
#define WEFT_CHECK_REGIONS_H

#include "objects.h"

extern bool weft_in_region, weft_on_host, weft_sequential_checked;
extern int weft_io;
bool is_written_by_region(stamp_t stamp);
stamp_t region_start(void);
stamp_t region_end_stamp(void); /* the last region's */
stamp_t find_last_update_of_element(const struct object *object, uintptr_t address, bool is_get_actual);
extern struct task_state {
    int tasks;
    bool in_task;
    int64_t task;
    stamp_t base, begun;
    int construct;
} weft_task;

#endif
