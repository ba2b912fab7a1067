/* What is to be kept of which place: the configuration as weft.values.configuration wrote it for this run. */
#ifndef WEFT_VALUE_RULES_H
#define WEFT_VALUE_RULES_H

#include <stdbool.h>
#include <stdint.h>

/* How much is kept. */
enum weft_values_level { WEFT_KEEP_UNSAID = -1, WEFT_KEEP_NONE, WEFT_KEEP_MINIMAL, WEFT_KEEP_CHANGES, WEFT_KEEP_FULL };

struct weft_rule {
    int level; /* enum weft_values_level */
    int form;  /* enum weft_value_form for what is no single number, 0: by the level */
    int64_t first, last, step;
    uint64_t every;
    bool here; /* whether this rank is among those that were named */
};

/* Reads the plan of a run; without one all is kept. False where it cannot be understood. */
bool weft_read_rules(const char *path, int rank);
uint64_t weft_rules_limit(void);

/* The rule of a place of its own, and what its procedure, its file and the program say, in this order. */
void weft_find_rules(int kind, const char *name, const char *file, const char *function, struct weft_rule *own_rule,
                     struct weft_rule *outer_rule);

#endif
