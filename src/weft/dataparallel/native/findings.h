/* What is found, and how it is told. */
#ifndef WEFT_CHECK_FINDINGS_H
#define WEFT_CHECK_FINDINGS_H

#include "objects.h"

struct reduction;
void write_line_of_run_counts(int construct_id, uint64_t times, uint64_t iterations);
void write_line_of_place_count(unsigned count);
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
void report_index_out_of_bounds_at_line(const char *file, unsigned line, unsigned column, const char *type,
                                        int64_t index);
void report_index_out_of_bounds(int variable_id, uintptr_t base_address, int dimension, int64_t index, int64_t low,
                                int64_t high, uintptr_t pc);
void report_directive_parameter(const char *why, int construct_id, int variable_id, int dimension, int64_t value,
                                int64_t low, int64_t high);
void report_misplaced_directive(const char *why, int construct_id, int variable_id);
void report_reduction_fault(const char *kind, const char *why, const struct reduction *reduction, const char *expected,
                            const char *got, int other_variable_id);
void report_remote_localized_value(int construct_id, int variable_id, int target_id, const int64_t index[],
                                   int dimension_count, int64_t value);
void stop_for_usage_error(const char *why, int construct_id, int variable_id);

#endif
