#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "value_format.h"

/* A line of the plan, its words parted by tabs:
 *
 *   scope  name  level  form  first  last  step  every  ranks
 *   loop   sweep -1     0     0      100   10    1      0-3,7
 *
 * `ranks` is * for all. The first line is `limit BYTES`. */
struct line {
    char scope[16];
    char *name;
    struct weft_rule rule;
};

static struct line *lines;
static size_t count;
static uint64_t limit = 1ull << 30;

static const struct weft_rule nothing = {WEFT_KEEP_UNSAID, 0, INT64_MIN, INT64_MAX, 1, 1, true};

/* Return whether a rank is in a list such as `0-3,7`; `*` stands for all ranks. */
static bool is_rank_listed(const char *ranks, int rank) {
    if (*ranks == '*') return true;
    for (char *end; *ranks; ranks = *end == ',' ? end + 1 : end) {
        long first = strtol(ranks, &end, 10), last = first;
        if (end == ranks) return false;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (rank >= first && rank <= last) return true;
    }
    return false;
}

/* Parse one line of the plan into a rule. Return false if it is invalid, or without memory. */
static bool add_rule_line(char *text, int rank) {
    char *word[9], *rest = text;
    for (int i = 0; i < 9; i++)
        if (!(word[i] = strsep(&rest, "\t"))) return false;
    void *grown = realloc(lines, (count + 1) * sizeof *lines);
    if (!grown) return false;
    lines = grown;
    struct line *line = &lines[count];
    snprintf(line->scope, sizeof line->scope, "%s", word[0]);
    line->rule = (struct weft_rule){
        .level = atoi(word[2]),
        .form = atoi(word[3]),
        .first = strtoll(word[4], NULL, 10),
        .last = strtoll(word[5], NULL, 10),
        .step = strtoll(word[6], NULL, 10),
        .every = strtoull(word[7], NULL, 10),
        .here = is_rank_listed(word[8], rank),
    };
    if (line->rule.step < 1 || line->rule.every < 1 || !(line->name = strdup(word[1]))) return false;
    count++;
    return true;
}

/* Read the run's plan of what to record on this rank; without a plan everything is recorded. Return false if it is
 * invalid. */
bool weft_read_rules(const char *path, int rank) {
    FILE *plan = fopen(path, "re");
    if (!plan) return true;
    char *text = NULL;
    size_t capacity = 0;
    bool is_good = true;
    for (ssize_t length; is_good && (length = getline(&text, &capacity, plan)) > 0;) {
        if (text[length - 1] == '\n') text[length - 1] = 0;
        if (!strncmp(text, "limit\t", 6)) limit = strtoull(text + 6, NULL, 10);
        else is_good = add_rule_line(text, rank);
    }
    free(text);
    fclose(plan);
    return is_good;
}

uint64_t weft_rules_limit(void) { return limit; }

/* Return whether `given` equals a path or its last components. */
static bool is_path_or_end(const char *path, const char *given) {
    size_t path_length = strlen(path), given_length = strlen(given);
    return given_length <= path_length && !strcmp(path + path_length - given_length, given) &&
           (given_length == path_length || path[path_length - given_length - 1] == '/');
}

/* Fill in what a rule leaves open from a weaker rule. */
static void merge_rule(struct weft_rule *into, const struct weft_rule *more) {
    if (into->level == WEFT_KEEP_UNSAID) into->level = more->level;
    if (!into->form) into->form = more->form;
    if (into->first == nothing.first) into->first = more->first;
    if (into->last == nothing.last) into->last = more->last;
    if (into->step == 1) into->step = more->step;
    if (into->every == 1) into->every = more->every;
    into->here = into->here && more->here;
}

/* Find the rule for a place itself, and the combined rule of its procedure, its file and the program, in order of
 * precedence. */
void weft_find_rules(int kind, const char *name, const char *file, const char *function, struct weft_rule *own_rule,
                     struct weft_rule *outer_rule) {
    static const char *const order[] = {"procedure", "file", "program"};
    const char *scope = kind == WEFT_PLACE_LOOP ? "loop" : kind == WEFT_PLACE_REGION ? "region" : "probe";
    *own_rule = *outer_rule = nothing;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(lines[i].scope, scope) && !strcmp(lines[i].name, name)) merge_rule(own_rule, &lines[i].rule);
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < count; i++)
            if (!strcmp(lines[i].scope, order[k]) &&
                (k == 2 || (k == 1 ? is_path_or_end(file, lines[i].name) : !strcmp(lines[i].name, function))))
                merge_rule(outer_rule, &lines[i].rule);
}
