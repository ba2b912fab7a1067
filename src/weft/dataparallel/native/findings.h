/* What is found, and how it is told. */
#ifndef WEFT_CHECK_FINDINGS_H
#define WEFT_CHECK_FINDINGS_H

#include "objects.h"

struct reduction;
void findings_write_run_counts(int construct_id, uint64_t times, uint64_t iterations);
void findings_write_place_count(unsigned count);
struct detail {
    const char *kind, *why;
    struct object *object;
    int data;
    uintptr_t address, place;
    size_t size;
    bool write;
    stamp_t other;
    bool has_delta;
    bool steady; /* the same is wrong in all of the site's interval */
    int64_t delta[WEFT_MAX_RANK];
    int construct;
};
uint64_t *report_finding(const struct detail *detail);
uint64_t count_findings_of_kind(const char *kind); /* until now, of all places */
void findings_report_index_at_line(const char *file, unsigned line, unsigned column, const char *type, int64_t index);
void findings_report_index(int variable_id, uintptr_t base_address, int dimension, int64_t index, int64_t low,
                           int64_t high, uintptr_t pc);
void findings_report_parameter(const char *why, int construct_id, int variable_id, int dimension, int64_t value,
                               int64_t low, int64_t high);
void findings_report_directive(const char *why, int construct_id, int variable_id);
void findings_report_reduction(const char *kind, const char *why, const struct reduction *reduction,
                               const char *expected, const char *got, int other_variable_id);
void findings_report_localize(int construct_id, int variable_id, int target_id, const int64_t index[],
                              int dimension_count, int64_t value);
void stop_for_usage_error(const char *why, int construct_id, int variable_id);

#endif
