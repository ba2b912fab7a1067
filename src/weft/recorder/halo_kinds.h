/* What a record of RUN/halo is, of native programs (halo_log.c) and of Python's (weft/halo/log.py). */
#ifndef WEFT_HALO_KINDS_H
#define WEFT_HALO_KINDS_H

/* What a record is. */
enum weft_halo_kind {
    PART = 1,
    USE = 2,
    RUN = 3,
    OWNED = 4,
    GHOSTS = 5,
    UNSEEN = 6, /* the values at the cells that neighbours copy had changed, and no store of the program was seen */
    GAVE_UP = 7,
    END = 8,
    ENDED = 9, /* the memory of a part whose widths are not declared is something else from here on */
};

#endif
