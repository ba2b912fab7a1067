/* cuts.c as Python calls it. */
#ifndef WEFT_CUTS_H
#define WEFT_CUTS_H

#include "ops.h"

/* From now on what another process cuts off a file that is mapped here reads as zeros, where the system would end this
 * process by SIGBUS. Returns 0, or -1 where that cannot be. */
EXPORT int weft_survive_cuts(void);

/* Pages that were read and were no longer there. */
EXPORT uint64_t weft_count_lost_pages(void);

#endif
