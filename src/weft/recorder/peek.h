/* The one way by which the recorder looks at the program's memory, which may not be the host's, or gone. It cannot fault. */
#ifndef WEFT_PEEK_H
#define WEFT_PEEK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "calls.h"

/* Whether all bytes were there. Says nothing of those that were not. */
WEFT_HIDDEN bool weft_copy_if_readable(void *to, uintptr_t from, size_t bytes);

/* The same for what a call was given, from pieces one behind the other: how many bytes there were, up to the first that
 * cannot be read; -1: the kernel does not let us look. */
WEFT_HIDDEN ssize_t weft_copy_readable_pieces(void *to, const struct iovec *pieces, int n);

/* The same for a buffer: what lies on this thread's own stack is read without the kernel. Where it cannot be read, the record
 * says so, once. */
WEFT_HIDDEN bool weft_copy_buffer(void *to, const void *from, size_t bytes);

/* Whether each page of a range can be read. */
WEFT_HIDDEN bool weft_is_readable(const void *from, size_t bytes);

/* Puts bytes into a buffer, where they can be written. */
WEFT_HIDDEN void weft_write_buffer(void *to, const void *from, size_t bytes);

/* Something of a call was not looked at, as it could not be read. */
WEFT_COLD void weft_note_unreadable_buffer(void);

/* Whether bytes lie in the live part of this thread's stack (sites.c). */
WEFT_HIDDEN bool weft_is_on_own_stack(const void *from, size_t bytes);

#endif
