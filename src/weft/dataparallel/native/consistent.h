/* Arrays of which every processor has a copy, made alike at the end of a loop. */
#ifndef WEFT_CHECK_CONSISTENT_H
#define WEFT_CHECK_CONSISTENT_H

#include <stdbool.h>

struct object;
bool is_in_consistent_clause(const struct object *object);
void undefine_unfinished_consistent_arrays(void);

#endif
