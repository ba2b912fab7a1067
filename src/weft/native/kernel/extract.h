/* extract.c as Python calls it. */
#ifndef WEFT_EXTRACT_H
#define WEFT_EXTRACT_H

#include "ops.h"

struct weft_ops;

EXPORT void weft_ops_free(struct weft_ops *ops);

/* At most how many sends, receives, probes and collectives the rank has. */
EXPORT void weft_bound_op_counts(const struct weft_extract_input *input, uint64_t most[4]);

/* Reads one rank, into the memory of another one's result where `used` is one. The caller owns the result (weft_ops_free);
 * counts gets sends, receives, probes, collectives. NULL when there is no memory: then `used` is gone too. */
EXPORT struct weft_ops *weft_extract_ops(const struct weft_extract_input *input, struct weft_ops *used,
                                         uint64_t counts[4]);

/* Where the columns of all ranks' operations lie; each rank writes from `first` on. */
struct weft_post_columns {
    uint32_t *event, *args, *completion, *decided;
    int32_t *comm, *peer, *tag;
    uint16_t *flags;
};

/* Writes the sends (which 0), receives (1) or probes (2) from row `first` on. */
EXPORT void weft_copy_posts(const struct weft_ops *ops, int sort, const struct weft_post_columns *columns,
                            uint64_t first);

struct weft_coll_columns {
    uint32_t *event, *completion;
    int32_t *comm;
    uint32_t *parent, *ordinal;
    uint16_t *function, *flags;
};

/* Writes the collectives from row `first` on; parents stay indices in this rank's own. */
EXPORT void weft_copy_collectives(const struct weft_ops *ops, const struct weft_coll_columns *columns, uint64_t first);

#endif
