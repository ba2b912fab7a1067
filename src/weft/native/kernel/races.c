/* Message races (Netzer & Miller 1992; Tai 1997; Park & Chung 2008).
 *
 * Message m' of sender q' races with the wildcard receive r that took m when it travels on the same communicator, fits
 * r's tag, was not taken by a receive posted before r, is the first such message of q', and its send does not have to
 * come after the decision of r.
 *
 * One receiving rank at a time. The messages to it are grouped by the patterns (communicator, tag or any) of its
 * wildcards, in a group by sender. Its receives are taken in posting order; each sender's first message that is
 * left is its HEAD. What the head's send knows of the receiver lies in one array by sender, so that one pass over this
 * array finds all racing messages.
 */
#include <stdlib.h>
#include <string.h>

#include "races.h"
#include "ops.h"

/* Of a run with more racing receives than anybody reads, the later ones list few messages. */
#define FULLY_LISTED 65536u
#define LISTED_LATER 4u

/* Result. Receive k of `count` (a row of receives, or of probes) has messages[first[k]] .. and `total` of them. */
struct weft_races {
    uint32_t *row, *total;
    uint8_t *probe;
    uint64_t *first;
    uint32_t *messages;
    uint64_t count, room, message_count, message_room;
};

struct channel { /* one sender in a group */
    int32_t source;
    uint32_t head, end; /* in the group's messages */
};

struct group {
    int32_t comm, tag; /* tag -1: any */
    uint32_t used;
    uint32_t count, filled, begin; /* messages: entries[begin .. begin + count) */
    struct channel *channels;
    uint32_t channel_count, channel_room;
    uint32_t *heads; /* what the head's send knows of the receiver; NONE when there is none */
};

struct finder {
    const struct weft_races_input *in;
    struct weft_races *out;
    struct group *groups;
    uint32_t size, used;
    uint32_t *entries;
    uint8_t *taken; /* by send */
    uint32_t *open; /* receives posted and not decided yet */
    uint64_t open_count, open_room;
    bool patterns_differ;
};

/* Return the group of messages for a wildcard pattern (communicator, tag or -1), or the free row for it. */
static struct group *find_group_slot(struct finder *finder, int32_t comm, int32_t tag) {
    uint64_t hash = ((uint64_t)(uint32_t)comm << 32 | (uint32_t)tag) * 0x9e3779b97f4a7c15u;
    for (uint32_t i = (uint32_t)(hash >> 33) & (finder->size - 1);; i = (i + 1) & (finder->size - 1)) {
        struct group *group = &finder->groups[i];
        if (!group->used || (group->comm == comm && group->tag == tag)) return group;
    }
}

/* Add the group of messages for a wildcard pattern, if it is new. Return false without memory. */
static bool add_group(struct finder *finder, int32_t comm, int32_t tag) {
    struct group *group = find_group_slot(finder, comm, tag);
    if (group->used) return true;
    if (++finder->used * 2 > finder->size) {
        struct group *old = finder->groups;
        uint32_t old_size = finder->size;
        finder->groups = calloc(finder->size *= 2, sizeof *finder->groups);
        if (!finder->groups) {
            finder->groups = old;
            return false;
        }
        for (uint32_t i = 0; i < old_size; i++)
            if (old[i].used) *find_group_slot(finder, old[i].comm, old[i].tag) = old[i];
        free(old);
        group = find_group_slot(finder, comm, tag);
    }
    *group = (struct group){.comm = comm, .tag = tag, .used = 1};
    return true;
}

static bool is_wildcard(uint16_t flags) { return flags & WEFT_POST_ANY_SOURCE && !(flags & WEFT_POST_UNDECIDED); }

static int32_t tag_pattern(uint16_t flags, int32_t tag) { return flags & WEFT_POST_ANY_TAG ? -1 : tag; }

/* Add a group for each pattern of a rank's wildcard receives and probes, and note whether its receives differ in
 * pattern. Return false without memory. */
static bool add_rank_patterns(struct finder *finder, uint32_t rank) {
    const struct weft_races_input *input = finder->in;
    finder->patterns_differ = false;
    int32_t comm = -1, source = 0, tag = 0;
    for (uint64_t i = input->recv_first[rank]; i < input->recv_first[rank + 1]; i++) {
        int32_t tag_of_row = tag_pattern(input->recv_flags[i], input->recv_tag[i]);
        int32_t source_of_row = input->recv_flags[i] & WEFT_POST_ANY_SOURCE ? -1 : input->recv_peer[i];
        if (comm >= 0 && (comm != input->recv_comm[i] || tag != tag_of_row || source != source_of_row))
            finder->patterns_differ = true;
        comm = input->recv_comm[i], tag = tag_of_row, source = source_of_row;
        if (is_wildcard(input->recv_flags[i]) && !add_group(finder, input->recv_comm[i], tag_of_row)) return false;
    }
    for (uint64_t i = input->probe_first[rank]; i < input->probe_first[rank + 1]; i++)
        if (is_wildcard(input->probe_flags[i]) &&
            !add_group(finder, input->probe_comm[i], tag_pattern(input->probe_flags[i], input->probe_tag[i])))
            return false;
    return true;
}

/* Append a send to its sender's channel in a group. Return false without memory. */
static bool add_message(struct finder *finder, struct group *group, uint32_t send) {
    int32_t source = finder->in->send_source[send];
    struct channel *channel = group->channel_count ? &group->channels[group->channel_count - 1] : NULL;
    if (!channel || channel->source != source) {
        if (group->channel_count == group->channel_room) {
            group->channel_room = group->channel_room ? group->channel_room * 2 : 8;
            struct channel *grown = realloc(group->channels, group->channel_room * sizeof *grown);
            if (!grown) return false;
            group->channels = grown;
        }
        channel = &group->channels[group->channel_count++];
        *channel = (struct channel){source, group->begin + group->filled, group->begin + group->filled};
    }
    finder->entries[group->begin + group->filled++] = send;
    channel->end++;
    return true;
}

/* Return the latest point of the receiver that the first untaken send of a channel knows; 0 if unknown, NONE if the
 * channel is empty. */
static uint32_t find_head_knowledge(const struct finder *finder, const struct channel *channel) {
    if (channel->head == channel->end) return NONE;
    uint32_t known = finder->in->send_known[finder->entries[channel->head]];
    return known == NONE ? 0 : known;
}

/* Sort all messages to a rank into the groups of its wildcard patterns. Return false without memory. */
static bool fill_groups(struct finder *finder, uint32_t rank) {
    const struct weft_races_input *input = finder->in;
    uint64_t begin = input->to_first[rank], end = input->to_first[rank + 1];
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t k = begin; k < end; k++) {
            uint32_t send = input->to_rows[k];
            for (int is_any_tag = 0; is_any_tag < 2; is_any_tag++) {
                struct group *group =
                    find_group_slot(finder, input->send_comm[send], is_any_tag ? -1 : input->send_tag[send]);
                if (!group->used) continue;
                if (!pass) group->count++;
                else if (!add_message(finder, group, send)) return false;
            }
        }
        if (pass) break;
        uint32_t total = 0;
        for (uint32_t i = 0; i < finder->size; i++) {
            finder->groups[i].begin = total;
            total += finder->groups[i].count;
        }
        free(finder->entries);
        finder->entries = malloc(((size_t)total + 1) * sizeof *finder->entries);
        if (!finder->entries) return false;
    }
    for (uint32_t i = 0; i < finder->size; i++) {
        struct group *group = &finder->groups[i];
        if (!group->used) continue;
        group->heads = malloc((group->channel_count + 1) * sizeof *group->heads);
        if (!group->heads) return false;
        for (uint32_t channel_index = 0; channel_index < group->channel_count; channel_index++)
            group->heads[channel_index] = find_head_knowledge(finder, &group->channels[channel_index]);
    }
    return true;
}

/* Move the head of a sender's channel to its first message that no receive has taken. */
static void advance_head(struct finder *finder, struct group *group, int32_t source) {
    uint32_t low = 0, high = group->channel_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (group->channels[middle].source < source) low = middle + 1;
        else high = middle;
    }
    if (low == group->channel_count || group->channels[low].source != source) return;
    struct channel *channel = &group->channels[low];
    while (channel->head < channel->end && finder->taken[finder->entries[channel->head]]) channel->head++;
    group->heads[low] = find_head_knowledge(finder, channel);
}

/* Mark a message as taken by a receive, and advance the channels it is in. */
static void mark_message_taken(struct finder *finder, uint32_t send) {
    finder->taken[send] = 1;
    for (int is_any_tag = 0; is_any_tag < 2; is_any_tag++) {
        struct group *group =
            find_group_slot(finder, finder->in->send_comm[send], is_any_tag ? -1 : finder->in->send_tag[send]);
        if (group->used) advance_head(finder, group, finder->in->send_source[send]);
    }
}

/* Return how many heads are below a limit. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx2", "default")))
#endif
static uint32_t
count_heads_below(const uint32_t *heads, uint32_t count, uint32_t limit) {
    uint32_t below = 0;
    for (uint32_t i = 0; i < count; i++) below += heads[i] < limit;
    return below;
}

/* Return whether a message fits a receive's communicator, source and tag. */
static bool does_message_fit(const struct weft_races_input *input, uint64_t recv, uint32_t send) {
    return input->recv_comm[recv] == input->send_comm[send] &&
           (input->recv_flags[recv] & WEFT_POST_ANY_SOURCE || input->recv_peer[recv] == input->send_source[send]) &&
           (input->recv_flags[recv] & WEFT_POST_ANY_TAG || input->recv_tag[recv] == input->send_tag[send]);
}

/* Return whether `receive` could not get `message`, because a pending receive posted earlier would take it, or takes an
 * earlier message of the same sender. */
static bool is_blocked_by_earlier(const struct finder *finder, uint64_t receive, uint32_t limit, uint32_t message) {
    const struct weft_races_input *input = finder->in;
    for (uint64_t k = 0; k < finder->open_count; k++) {
        uint32_t other = finder->open[k], own_message = input->recv_partner[other];
        if (own_message == NONE || input->recv_reach[other] < limit || input->recv_reach[other] == NONE) continue;
        bool is_overtaken = input->send_source[own_message] == input->send_source[message] && own_message < message &&
                            does_message_fit(input, receive, own_message);
        if (is_overtaken || does_message_fit(input, other, message)) return true;
    }
    return false;
}

/* Add a racing receive or probe, still without messages, to the result. Return false without memory. */
static bool add_race(struct finder *finder, uint32_t row, uint8_t is_probe) {
    struct weft_races *out = finder->out;
    if (out->count == out->room) {
        uint64_t room = out->room ? out->room * 2 : 256;
        uint32_t *rows = realloc(out->row, room * sizeof *rows);
        if (rows) out->row = rows;
        uint32_t *totals = realloc(out->total, room * sizeof *totals);
        if (totals) out->total = totals;
        uint8_t *probes = realloc(out->probe, room);
        if (probes) out->probe = probes;
        uint64_t *firsts = realloc(out->first, (room + 1) * sizeof *firsts);
        if (firsts) out->first = firsts;
        if (!rows || !totals || !probes || !firsts) return false;
        out->room = room;
    }
    out->row[out->count] = row;
    out->total[out->count] = 0;
    out->probe[out->count] = is_probe;
    out->first[out->count++] = out->message_count;
    return true;
}

/* Add a message to the newest race. Return false without memory. */
static bool add_message_to_race(struct weft_races *out, uint32_t send) {
    if (out->message_count == out->message_room) {
        uint64_t room = out->message_room ? out->message_room * 2 : 1024;
        uint32_t *grown = realloc(out->messages, room * sizeof *grown);
        if (!grown) return false;
        out->messages = grown;
        out->message_room = room;
    }
    out->messages[out->message_count++] = send;
    return true;
}

/* Add a race for a wildcard receive or probe with all messages that it could have taken instead of `taken_send`, if
 * there are any. `known_event`: the call that proves what it took. Return false without memory. */
static bool find_racing_messages(struct finder *finder, struct group *group, uint32_t row, bool is_probe,
                                 uint32_t taken_send, uint32_t known_event) {
    const struct weft_races_input *input = finder->in;
    uint32_t limit = 2 * known_event + 2;
    if (count_heads_below(group->heads, group->channel_count, limit) == 0) return true;
    bool may_be_blocked = !is_probe && finder->open_count && finder->patterns_differ;
    struct weft_races *out = finder->out;
    uint64_t race_index = out->count, old_message_count = out->message_count;
    uint32_t listed_messages = race_index >= FULLY_LISTED && input->most > LISTED_LATER ? LISTED_LATER : input->most;
    if (!add_race(finder, row, is_probe)) return false;
    for (uint32_t channel_index = 0; channel_index < group->channel_count; channel_index++) {
        if (group->heads[channel_index] >= limit ||
            group->channels[channel_index].source == input->send_source[taken_send])
            continue;
        uint32_t send = finder->entries[group->channels[channel_index].head];
        if (may_be_blocked && is_blocked_by_earlier(finder, row, limit, send)) continue;
        if (out->total[race_index]++ < listed_messages && !add_message_to_race(out, send)) return false;
    }
    if (out->total[race_index] == 0) {
        out->count = race_index;
        out->message_count = old_message_count;
    }
    return true;
}

/* Drop the pending receives whose message was decided before `receive` was posted. */
static bool drop_decided_receives(struct finder *finder, uint32_t receive) {
    uint32_t event = finder->in->recv_event[receive];
    uint64_t kept = 0;
    for (uint64_t k = 0; k < finder->open_count; k++)
        if (finder->in->recv_decided[finder->open[k]] > event) finder->open[kept++] = finder->open[k];
    finder->open_count = kept;
    return true;
}

/* Add a receive to the pending ones, unless its message is decided at once. Return false without memory. */
static bool add_pending_receive(struct finder *finder, uint32_t receive) {
    if (finder->in->recv_decided[receive] == finder->in->recv_event[receive]) return true;
    if (finder->open_count == finder->open_room) {
        uint64_t room = finder->open_room ? finder->open_room * 2 : 64;
        uint32_t *grown = realloc(finder->open, room * sizeof *grown);
        if (!grown) return false;
        finder->open = grown;
        finder->open_room = room;
    }
    finder->open[finder->open_count++] = receive;
    return true;
}

/* Find the races of one wildcard probe. Return false without memory. */
static bool find_races_of_probe(struct finder *finder, uint64_t probe) {
    const struct weft_races_input *input = finder->in;
    if (!is_wildcard(input->probe_flags[probe]) || input->probe_partner[probe] == NONE) return true;
    struct group *group = find_group_slot(finder, input->probe_comm[probe],
                                          tag_pattern(input->probe_flags[probe], input->probe_tag[probe]));
    return !group->used || find_racing_messages(finder, group, (uint32_t)probe, true, input->probe_partner[probe],
                                                input->probe_event[probe]);
}

/* Find the races of one receive, then mark its message as taken. Return false without memory. */
static bool find_races_of_receive(struct finder *finder, uint64_t receive) {
    const struct weft_races_input *input = finder->in;
    uint32_t taken_send = input->recv_partner[receive];
    if (finder->patterns_differ) drop_decided_receives(finder, (uint32_t)receive);
    if (is_wildcard(input->recv_flags[receive]) && taken_send != NONE && input->recv_known[receive] != NONE) {
        struct group *group = find_group_slot(finder, input->recv_comm[receive],
                                              tag_pattern(input->recv_flags[receive], input->recv_tag[receive]));
        if (group->used &&
            !find_racing_messages(finder, group, (uint32_t)receive, false, taken_send, input->recv_known[receive]))
            return false;
    }
    if (taken_send != NONE) mark_message_taken(finder, taken_send);
    return !finder->patterns_differ || add_pending_receive(finder, (uint32_t)receive);
}

/* Clear the groups and pending receives before the next rank. */
static void clear_finder(struct finder *finder) {
    for (uint32_t i = 0; i < finder->size; i++) {
        free(finder->groups[i].channels);
        free(finder->groups[i].heads);
    }
    memset(finder->groups, 0, finder->size * sizeof *finder->groups);
    finder->used = 0;
    finder->open_count = 0;
}

/* Find the races of all receives and probes of one rank. Return false without memory. */
static bool find_races_of_rank(struct finder *finder, uint32_t rank) {
    const struct weft_races_input *input = finder->in;
    if (!add_rank_patterns(finder, rank)) return false;
    if (finder->used == 0) return true;
    bool is_good = fill_groups(finder, rank);
    uint64_t probe = input->probe_first[rank], end = input->recv_first[rank + 1];
    for (uint64_t receive = input->recv_first[rank]; receive <= end && is_good; receive++) {
        for (; is_good && probe < input->probe_first[rank + 1] &&
               (receive == end || input->probe_event[probe] < input->recv_event[receive]);
             probe++)
            is_good = find_races_of_probe(finder, probe);
        if (receive < end) is_good = is_good && find_races_of_receive(finder, receive);
    }
    clear_finder(finder);
    return is_good;
}

/* Free what weft_find_races() returned; NULL is allowed. */
void weft_races_free(struct weft_races *races) {
    if (!races) return;
    free(races->row);
    free(races->total);
    free(races->probe);
    free(races->first);
    free(races->messages);
    free(races);
}

/* Find all message races of a run. `counts` gets the numbers of racing receives and of listed messages. NULL without
 * memory. */
struct weft_races *weft_find_races(const struct weft_races_input *input, uint64_t sends, uint64_t counts[2]) {
    struct weft_races *out = calloc(1, sizeof *out);
    struct finder finder = {.in = input, .out = out, .size = 16};
    finder.groups = calloc(finder.size, sizeof *finder.groups);
    finder.taken = calloc(sends + 1, 1);
    bool is_good = out && finder.groups && finder.taken;
    for (uint32_t rank = 0; rank < input->ranks && is_good; rank++) is_good = find_races_of_rank(&finder, rank);
    if (finder.groups) clear_finder(&finder);
    free(finder.groups);
    free(finder.taken);
    free(finder.entries);
    free(finder.open);
    if (!is_good) {
        weft_races_free(out);
        return NULL;
    }
    counts[0] = out->count;
    counts[1] = out->message_count;
    return out;
}

/* Copy the races to the caller's arrays, sized by the counts of weft_find_races(), and free them. */
void weft_take_races(struct weft_races *races, uint32_t *row, uint8_t *probe, uint32_t *total, uint64_t *first,
                     uint32_t *messages) {
    if (races->count) {
        memcpy(row, races->row, races->count * sizeof *row);
        memcpy(probe, races->probe, races->count);
        memcpy(total, races->total, races->count * sizeof *total);
        memcpy(first, races->first, races->count * sizeof *first);
        memcpy(messages, races->messages, races->message_count * sizeof *messages);
    }
    first[races->count] = races->message_count;
    weft_races_free(races);
}
