/* The writer of value_format.h's files: appends to memory that is a file, of which a few MiB are mapped at a time. */
#ifndef WEFT_VALUE_WRITER_H
#define WEFT_VALUE_WRITER_H

#include <stdbool.h>
#include <stddef.h>

#include "value_format.h"

struct weft_values_header *weft_values_create(const char *path, uint64_t limit);

/* Whether a record of so many bytes may be begun: it then lies between weft_values_put and weft_values_whole. */
bool weft_values_begin_record(uint64_t bytes);
void weft_values_append(const void *bytes, size_t count);
void weft_values_end_record(void);

void weft_values_stop(int reason);
void weft_values_close(void);

#endif
