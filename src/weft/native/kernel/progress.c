/* Re-running a matched record: how far does each process come when its calls wait for what they are said to need?
 *
 * A process has a list of constraints in program order: at its event `at` it waits until
 *   target >= 0        process `target` has entered its event `value`
 *   target < 0         gathering -1 - target: value 0 arrives there, value 1 waits until `size` have arrived
 * Each process waits for one thing at a time, so the waiting lists are threaded through one array, and all is linear
 * in the number of constraints (a waiter is looked at again only when the one it waits for has moved).
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define NOBODY (-1)

/* The caller owns all arrays. first: processes + 1; at, target, value: first[processes] constraints; size: arrivals
 * that each gathering needs; place (out): for each process the constraint it stands at, its end when it came through.
 * 0, or -1 without memory. */
int weft_progress(int64_t processes, const int64_t *first, const int64_t *at, const int64_t *target,
                  const int64_t *value, int64_t gatherings, const int64_t *size, int64_t *place) {
    int64_t *heads = malloc(sizeof(int64_t) * (size_t)(processes + gatherings + 1));
    int64_t *next = malloc(sizeof(int64_t) * (size_t)(processes + 1));
    int64_t *ready = malloc(sizeof(int64_t) * (size_t)(processes + 1));
    int64_t *arrived = calloc((size_t)(gatherings + 1), sizeof(int64_t));
    if (!heads || !next || !ready || !arrived) {
        free(heads), free(next), free(ready), free(arrived);
        return -1;
    }
    for (int64_t i = 0; i < processes + gatherings; i++) heads[i] = NOBODY;
    int64_t left = 0;
    for (int64_t p = processes - 1; p >= 0; p--) {
        place[p] = first[p];
        ready[left++] = p;
    }
    while (left > 0) {
        int64_t p = ready[--left], c = place[p], start = c, end = first[p + 1], waits_on = NOBODY;
        while (c < end) {
            int64_t t = target[c];
            if (t >= 0) {
                bool there = t == p ? at[c] >= value[c]
                                    : place[t] >= first[t + 1] || at[place[t]] >= value[c];
                if (!there) {
                    waits_on = t;
                    break;
                }
            } else {
                int64_t g = -1 - t;
                if (value[c] == 0) {
                    if (++arrived[g] == size[g]) {
                        for (int64_t w = heads[processes + g]; w != NOBODY; w = next[w]) ready[left++] = w;
                        heads[processes + g] = NOBODY;
                    }
                } else if (arrived[g] < size[g]) {
                    waits_on = processes + g;
                    break;
                }
            }
            c++;
        }
        place[p] = c;
        if (waits_on != NOBODY) {
            next[p] = heads[waits_on];
            heads[waits_on] = p;
        }
        if (c != start) {
            for (int64_t w = heads[p]; w != NOBODY; w = next[w]) ready[left++] = w;
            heads[p] = NOBODY;
        }
    }
    free(heads), free(next), free(ready), free(arrived);
    return 0;
}
