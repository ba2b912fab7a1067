/* Handles and the objects that they name: ids, definitions, pending requests.
 *
 * Handles are used again after their object is freed, ids never. Ids of predefined objects come from the table that
 * Python generated (predefined.h); everything else is numbered as it is created.
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "access.h"

/* ---- one table a class: handle -> id and what hangs on it ---- */
struct entry {
    uintptr_t handle;
    uint32_t id;
    uint32_t state;
    void *extra;
    struct reference *under;
};
/* What a handle named before it was made once more without having been freed: two calls of MPI_Comm_group give one handle
 * that is to be freed twice. The newest is freed first. */
struct reference {
    uint32_t id;
    void *extra;
    struct reference *under;
};
enum { FREE = 0, FULL = 1, GONE = 2 };

static struct table {
    struct entry *entries;
    size_t capacity, filled; /* filled counts GONE too */
    uint32_t next_id;
    uint32_t generation; /* rises when a handle changes its meaning; the threads' caches compare it */
    volatile char busy;
} tables[WEFT_CLASS_END];

/* One thread alone takes no lock, as an atomic operation costs as much as the rest of a look-up: it only says that it
 * is inside. Before a second thread comes, weft_begin_locking_objects() makes the flag's value known to all (membarrier, the
 * slow side of an asymmetric Dekker lock) and waits until the first one is outside. */
static volatile bool is_locking, is_first_thread_inside;
static __thread bool is_inside_unlocked;

/* Lock the table of handles of one class, to be unlocked by unlock_handle_table. As long as one thread alone calls MPI it
 * takes no lock, and only says that it is inside. */
static inline void lock_handle_table(struct table *table) {
    if (LIKELY(!is_locking)) {
        is_first_thread_inside = true;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (LIKELY(!is_locking)) {
            is_inside_unlocked = true;
            return;
        }
        is_first_thread_inside = false;
    }
    while (__atomic_test_and_set(&table->busy, __ATOMIC_ACQUIRE)) {
    }
}

/* Unlock a table of handles that lock_handle_table has locked. */
static inline void unlock_handle_table(struct table *table) {
    if (LIKELY(is_inside_unlocked)) {
        is_inside_unlocked = false;
        __atomic_store_n(&is_first_thread_inside, false, __ATOMIC_RELEASE);
    } else {
        __atomic_clear(&table->busy, __ATOMIC_RELEASE);
    }
}

/* Make the system call membarrier; return whether the kernel knows the command. */
static bool call_membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

/* Let all threads use real locks for the tables of handles from now on, and wait until the first thread is outside.
 * Called before a second thread calls MPI. */
void weft_begin_locking_objects(void) {
    is_locking = true;
    if (call_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
        while (__atomic_load_n(&is_first_thread_inside, __ATOMIC_ACQUIRE)) sched_yield();
}

static inline size_t hash_handle(uintptr_t handle) { return (size_t)((handle * 0x9e3779b97f4a7c15u) >> 20); }

/* Return the entry of a handle, NULL if the table has none. Needs the table's lock. */
static inline struct entry *find_handle_entry(struct table *table, uintptr_t handle) {
    if (!table->capacity) return NULL;
    for (size_t index = hash_handle(handle) & (table->capacity - 1);; index = (index + 1) & (table->capacity - 1)) {
        struct entry *entry = &table->entries[index];
        if (entry->state == FREE) return NULL;
        if (entry->state == FULL && entry->handle == handle) return entry;
    }
}

/* Make a table of handles larger, without the entries that were deleted; return false without memory. Needs the table's
 * lock. */
static WEFT_COLD bool enlarge_handle_table(struct table *table) {
    size_t full = 0;
    for (size_t i = 0; i < table->capacity; i++) full += table->entries[i].state == FULL;
    size_t capacity = 256;
    while (capacity < full * 4) capacity *= 2;
    struct entry *entries = calloc(capacity, sizeof *entries);
    if (!entries) return false;
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->entries[i].state != FULL) continue;
        size_t index = hash_handle(table->entries[i].handle) & (capacity - 1);
        while (entries[index].state) index = (index + 1) & (capacity - 1);
        entries[index] = table->entries[i];
    }
    free(table->entries);
    table->entries = entries;
    table->capacity = capacity;
    table->filled = full;
    return true;
}

/* Return the entry of a handle, a new one (id 0) if the table has none; NULL without memory. Needs the table's lock. */
static struct entry *find_or_make_handle_entry(struct table *table, uintptr_t handle) {
    struct entry *entry = find_handle_entry(table, handle);
    if (entry) return entry;
    if (table->filled * 2 >= table->capacity && !enlarge_handle_table(table)) return NULL;
    size_t index = hash_handle(handle) & (table->capacity - 1);
    while (table->entries[index].state == FULL) index = (index + 1) & (table->capacity - 1);
    entry = &table->entries[index];
    table->filled += entry->state == FREE;
    *entry = (struct entry){.handle = handle, .state = FULL};
    return entry;
}

/* Give a predefined handle its fixed id. Of two names for one handle (MPI_LONG_LONG and MPI_LONG_LONG_INT) the first
 * one's id stays. */
static void enter_predefined_handle(int class, uintptr_t handle, uint32_t id) {
    struct table *table = &tables[class];
    struct entry *entry = find_handle_entry(table, handle);
    if (entry) return; /* one handle under two names (MPI_LONG_LONG and MPI_LONG_LONG_INT): the first one stays */
    if ((entry = find_or_make_handle_entry(table, handle))) entry->id = id;
}

/* Return the id of the object that a handle names, by the table of its class, and put it into the thread's cache. A
 * handle that no recorded call made gets a new id; 0 without memory. */
uint32_t weft_find_object_id_in_table(struct weft_thread *thread, int class, uintptr_t handle) {
    struct table *table = &tables[class];
    lock_handle_table(table);
    struct entry *entry = find_or_make_handle_entry(table, handle);
    uint32_t id = 0;
    if (entry) {
        /* A handle that no recorded call made: its object stays without a definition. */
        if (!entry->id) entry->id = table->next_id++;
        id = entry->id;
        thread->caches[class][hash_handle(handle) % WEFT_CACHED] =
            (struct weft_cached){.handle = handle, .id = id, .generation = table->generation};
    }
    unlock_handle_table(table);
    return id;
}

/* Return the id of the object that a handle names: from the thread's cache, else from the table of its class. */
uint32_t weft_find_object_id(struct weft_thread *thread, int class, uintptr_t handle) {
    const struct weft_cached *cached = &thread->caches[class][hash_handle(handle) % WEFT_CACHED];
    if (LIKELY(cached->handle == handle && cached->id && cached->generation == tables[class].generation))
        return cached->id;
    return weft_find_object_id_in_table(thread, class, handle);
}

/* Return whether MPI counts the references to objects of a class, so that calls may give one handle several times. Of
 * other classes a handle that comes again names a new object: the old one was freed unseen. */
static bool has_counted_references(int class) {
    return class == WEFT_CLASS_GROUP || class == WEFT_CLASS_DATATYPE || class == WEFT_CLASS_ERRHANDLER;
}

/* Keep what a handle names beneath what it is to name from now on, as a call has made one more reference to an object.
 * Needs the table's lock. */
static void push_reference(struct entry *entry) {
    struct reference *under = malloc(sizeof *under);
    if (!under) return;
    *under = (struct reference){.id = entry->id, .extra = entry->extra, .under = entry->under};
    entry->under = under;
}

/* Let a handle name again what it named before its newest reference. Return whether there was anything. Needs the
 * table's lock. */
static bool pop_reference(struct entry *entry) {
    struct reference *under = entry->under;
    if (!under) return false;
    entry->id = under->id;
    entry->extra = under->extra;
    entry->under = under->under;
    free(under);
    return true;
}

/* Return the id of a handle that a call has made: a new one, or the fixed one if the object is predefined; 0 without
 * memory. `extra`: what is known of the object. */
static uint32_t assign_id_to_handle(int class, uintptr_t handle, void *extra) {
    struct table *table = &tables[class];
    lock_handle_table(table);
    struct entry *entry = find_or_make_handle_entry(table, handle);
    uint32_t id = 0;
    if (entry) {
        if (entry->id && entry->id < WEFT_ID_DYNAMIC)
            id = entry->id; /* a predefined object came out, or a null handle */
        else {
            if (entry->id && has_counted_references(class)) push_reference(entry);
            if (entry->id) table->generation++;
            id = entry->id = table->next_id++;
            entry->extra = extra;
        }
    }
    unlock_handle_table(table);
    return id;
}

/* Return the id of a handle that a call has made, which names a new object from now on. */
uint32_t weft_assign_object_id(int class, uintptr_t handle) { return assign_id_to_handle(class, handle, NULL); }

/* Forget an object that a call has freed, if the handle still names it. */
void weft_forget_object(int class, uintptr_t handle, uint32_t id) {
    struct table *table = &tables[class];
    if (id < WEFT_ID_DYNAMIC) return;
    lock_handle_table(table);
    struct entry *entry = find_handle_entry(table, handle);
    if (entry && entry->id == id) {
        if (!pop_reference(entry)) {
            entry->state = GONE;
            entry->id = 0;
            entry->extra = NULL; /* a communicator's facts stay allocated: another thread may be reading them */
        }
        table->generation++;
    }
    unlock_handle_table(table);
}

#define H(x) ((uintptr_t)(x))

/* Enter the predefined objects of MPI into the tables of handles. */
void weft_enter_predefined_objects(void) {
    for (int c = 0; c < WEFT_CLASS_END; c++)
        if (!tables[c].next_id) tables[c].next_id = WEFT_ID_DYNAMIC;
    if (!call_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
        is_locking = true; /* an old kernel: with locks throughout */
#include "predefined.h"
}

/* Unlock all tables of handles in a child of fork(), whose other threads are gone. */
void weft_reset_object_locks(void) {
    for (int c = 0; c < WEFT_CLASS_END; c++) tables[c].busy = 0;
    is_first_thread_inside = is_inside_unlocked = false;
}

/* ---- groups of processes, as runs of world ranks ---- */
enum { FOREIGN = 64 };
static struct {
    MPI_Group group;
    uint32_t world;
} spawned_groups[FOREIGN];
static int spawned_group_count;
static MPI_Group world_group;
static bool world_known;
static pthread_mutex_t spawned_groups_lock = PTHREAD_MUTEX_INITIALIZER;

struct runs {
    struct weft_text text;
    uint8_t *start;
    uint64_t n;
    int64_t world, first, stride, count;
};

/* Write the run of ranks at equal distances that is collected, if there is one. */
static void write_collected_run(struct runs *runs) {
    if (!runs->count) return;
    weft_write_unsigned(&runs->text, (uint64_t)runs->world);
    weft_write_unsigned(&runs->text, (uint64_t)runs->first);
    weft_write_signed(&runs->text, runs->stride);
    weft_write_unsigned(&runs->text, (uint64_t)runs->count);
    runs->n++;
    runs->count = 0;
}

/* Add a rank of a world to the run of ranks that is collected, or write that run and begin a new one. */
static void add_rank_to_run(struct runs *runs, int64_t world, int64_t rank) {
    if (runs->count && runs->world == world) {
        int64_t stride = rank - (runs->first + (runs->count - 1) * runs->stride);
        if (runs->count == 1) runs->stride = stride;
        if (stride == runs->stride) {
            runs->count++;
            return;
        }
        if (runs->count == 1) runs->stride = 0;
    }
    write_collected_run(runs);
    runs->world = world;
    runs->first = rank;
    runs->stride = 0;
    runs->count = 1;
}

/* Write the members of a group as runs of ranks in their worlds (MEMBERS in format.h). It allocates, so only calls that
 * make objects come here. */
static WEFT_ASKS void write_group_members(struct weft_text *text, MPI_Group group) {
    int n = 0;
    if (group == MPI_GROUP_NULL || REAL(MPI_Group_size)(group, &n) != MPI_SUCCESS || n <= 0) {
        weft_write_unsigned(text, 0);
        return;
    }
    int *ranks = malloc(sizeof(int) * (size_t)n * 2);
    struct runs runs = {.start = malloc((size_t)n * 40 + 64)};
    if (!ranks || !runs.start) {
        text->overflow = true;
        goto done;
    }
    runs.text = (struct weft_text){.p = runs.start, .end = runs.start + (size_t)n * 40 + 64};
    int *translated = ranks + n;
    int64_t *places = malloc(sizeof(int64_t) * (size_t)n);
    if (!places) {
        text->overflow = true;
        goto done;
    }
    for (int i = 0; i < n; i++) {
        ranks[i] = i;
        places[i] = -1;
    }
    pthread_mutex_lock(&spawned_groups_lock);
    for (int f = -1; f < spawned_group_count; f++) {
        MPI_Group known = f < 0 ? world_group : spawned_groups[f].group;
        if ((f < 0 && !world_known) ||
            REAL(MPI_Group_translate_ranks)(group, n, ranks, known, translated) != MPI_SUCCESS)
            continue;
        for (int i = 0; i < n; i++)
            if (places[i] < 0 && translated[i] != MPI_UNDEFINED)
                places[i] = ((int64_t)(f < 0 ? 0 : spawned_groups[f].world) << 32) | (uint32_t)translated[i];
    }
    pthread_mutex_unlock(&spawned_groups_lock);
    for (int i = 0; i < n; i++) {
        if (places[i] < 0) add_rank_to_run(&runs, WEFT_WORLD_UNKNOWN, 0);
        else add_rank_to_run(&runs, places[i] >> 32, places[i] & 0xffffffff);
    }
    write_collected_run(&runs);
    free(places);
    weft_write_unsigned(text, runs.n);
    size_t length = (size_t)(runs.text.p - runs.start);
    if ((size_t)(text->end - text->p) < length) text->overflow = true;
    else {
        memcpy(text->p, runs.start, length);
        text->p += length;
    }
done:
    free(ranks);
    free(runs.start);
}

/* Note that the members of a group are the processes of another world, number `world`. */
static void add_spawned_group(MPI_Group group, uint32_t world) {
    pthread_mutex_lock(&spawned_groups_lock);
    if (spawned_group_count < FOREIGN) {
        spawned_groups[spawned_group_count].group = group;
        spawned_groups[spawned_group_count++].world = world;
    }
    pthread_mutex_unlock(&spawned_groups_lock);
}

/* A definition of a size that is known only by its group: bounded by 48 bytes a member. */
struct definition {
    uint8_t *start;
    struct weft_text text;
};

/* Begin a definition of at most `size` bytes, in memory of its own that end_definition frees. Its text is marked as too
 * long without memory. */
static struct definition begin_definition(size_t size) {
    struct definition definition = {.start = malloc(size)};
    definition.text = (struct weft_text){
        .p = definition.start, .end = definition.start ? definition.start + size : NULL, .overflow = !definition.start};
    return definition;
}

/* Write a definition into the record, unless it is too long, and free its memory. `type`: WEFT_DEF_*. */
static void end_definition(struct definition *definition, int type) {
    if (!definition->text.overflow)
        weft_write_definition(type, definition->start, (size_t)(definition->text.p - definition->start));
    free(definition->start);
}

/* ---- communicators ---- */
/* Return what is known of a communicator, NULL for one that no recorded call made. The result is never freed. */
struct weft_comm *weft_find_comm(MPI_Comm comm) {
    struct table *table = &tables[WEFT_CLASS_COMM];
    lock_handle_table(table);
    struct entry *entry = find_handle_entry(table, H(comm));
    struct weft_comm *facts = entry ? entry->extra : NULL;
    unlock_handle_table(table);
    return facts;
}

/* Return how many ranks a collective on the communicator exchanges with: of an intercommunicator those of the remote
 * group; 0 for a communicator that is not known. */
int weft_count_peers(MPI_Comm comm) {
    const struct weft_comm *facts = weft_find_comm(comm);
    return !facts ? 0 : facts->remote_size ? facts->remote_size : facts->size;
}

/* Return whether this process is the root of a collective, where the root's arguments are significant; of an
 * intercommunicator, whether it is in the root's group as the root. */
bool weft_is_root(MPI_Comm comm, int root) {
    const struct weft_comm *facts = weft_find_comm(comm);
    return facts && (facts->remote_size ? root == MPI_ROOT : root == facts->rank);
}

/* Read how many neighbours send to this process (`in`), and how many receive from it (`out`), in a communicator's
 * topology; both 0 without one. */
static void read_neighbour_counts(MPI_Comm comm, int *in, int *out) {
    int kind = MPI_UNDEFINED, n = 0, weighted = 0;
    *in = *out = 0;
    const struct weft_comm *facts = weft_find_comm(comm);
    if (!facts || REAL(MPI_Topo_test)(comm, &kind) != MPI_SUCCESS) return;
    if (kind == MPI_CART && REAL(MPI_Cartdim_get)(comm, &n) == MPI_SUCCESS) *in = *out = 2 * n;
    if (kind == MPI_GRAPH && REAL(MPI_Graph_neighbors_count)(comm, facts->rank, &n) == MPI_SUCCESS) *in = *out = n;
    if (kind == MPI_DIST_GRAPH) REAL(MPI_Dist_graph_neighbors_count)(comm, in, out, &weighted);
}

/* Return how many neighbours send to this process in a communicator's topology. */
int weft_count_sending_neighbours(MPI_Comm comm) {
    int in, out;
    read_neighbour_counts(comm, &in, &out);
    return in;
}

/* Return how many neighbours receive from this process in a communicator's topology. */
int weft_count_receiving_neighbours(MPI_Comm comm) {
    int in, out;
    read_neighbour_counts(comm, &in, &out);
    return out;
}

/* Write the definition of a communicator (its members, its parent's id, the function that made it and its number among
 * those made on the parent), and keep its facts for weft_find_comm. */
static WEFT_ASKS void record_comm_definition(uint32_t id, MPI_Comm comm, uint32_t parent, uint16_t function,
                                             uint32_t ordinal, const char *key) {
    struct weft_comm *facts = calloc(1, sizeof *facts);
    MPI_Group local = MPI_GROUP_NULL, remote = MPI_GROUP_NULL;
    int inter = 0;
    if (!facts) return;
    facts->id = id;
    REAL(MPI_Comm_test_inter)(comm, &inter);
    REAL(MPI_Comm_size)(comm, &facts->size);
    REAL(MPI_Comm_rank)(comm, &facts->rank);
    if (inter) {
        REAL(MPI_Comm_remote_size)(comm, &facts->remote_size);
        REAL(MPI_Comm_remote_group)(comm, &remote);
    }
    REAL(MPI_Comm_group)(comm, &local);
    struct definition definition = begin_definition(256 + 48 * ((size_t)facts->size + (size_t)facts->remote_size));
    weft_write_unsigned(&definition.text, id);
    weft_write_unsigned(&definition.text, parent);
    weft_write_unsigned(&definition.text, function);
    weft_write_unsigned(&definition.text, ordinal);
    weft_write_unsigned(&definition.text, inter != 0);
    weft_write_signed(&definition.text, facts->rank);
    weft_write_bytes(&definition.text, key, strlen(key));
    write_group_members(&definition.text, local);
    write_group_members(&definition.text, remote);
    end_definition(&definition, WEFT_DEF_COMM);
    if (local != MPI_GROUP_NULL) REAL(MPI_Group_free)(&local);
    if (remote != MPI_GROUP_NULL) REAL(MPI_Group_free)(&remote);
    struct table *table = &tables[WEFT_CLASS_COMM];
    lock_handle_table(table);
    struct entry *entry = find_handle_entry(table, H(comm));
    if (entry && entry->id == id) entry->extra = facts;
    else free(facts);
    unlock_handle_table(table);
}

/* Return which creation on the parent this is, from 0 on, and count it. Calls that only a group takes part in are
 * counted by group and tag (`group_key`), as the parent's other members know nothing of them. */
static uint32_t count_comm_creation(struct weft_comm *parent, uint64_t group_key) {
    if (!parent) return 0;
    if (!group_key) return parent->children++;
    for (struct weft_group_made *counter = parent->made; counter; counter = counter->next)
        if (counter->key == group_key) return counter->n++;
    struct weft_group_made *counter = calloc(1, sizeof *counter);
    if (!counter) return 0;
    *counter = (struct weft_group_made){.key = group_key, .n = 1, .next = parent->made};
    parent->made = counter;
    return 0;
}

/* Define a communicator that a call has made. MPI_COMM_NULL still counts as a creation on the parent. `key`:
 * distinguishes communicators made at one call by different members; `group_key`: as in count_comm_creation. */
void weft_define_comm(uint16_t function, MPI_Comm parent, MPI_Comm new_comm, const char *key, uint64_t group_key) {
    struct weft_comm *from = parent == MPI_COMM_NULL ? NULL : weft_find_comm(parent);
    uint32_t ordinal = count_comm_creation(from, group_key);
    if (new_comm == MPI_COMM_NULL) return;
    uint32_t id = weft_assign_object_id(WEFT_CLASS_COMM, H(new_comm));
    if (id >= WEFT_ID_DYNAMIC) record_comm_definition(id, new_comm, from ? from->id : 0, function, ordinal, key);
}

/* Give a communicator that a nonblocking call makes its id and number at the call; it is defined when the request
 * completes. `handle`: where its handle will appear. */
void weft_promise_comm_id(struct weft_pending *pending, MPI_Comm parent, MPI_Comm *handle) {
    struct weft_comm *from = weft_find_comm(parent);
    struct table *table = &tables[WEFT_CLASS_COMM];
    lock_handle_table(table);
    pending->made_id = table->next_id++;
    unlock_handle_table(table);
    pending->made = handle;
    pending->parent_id = from ? from->id : 0;
    pending->ordinal = count_comm_creation(from, 0);
}

/* Define a communicator whose request is complete, with the id that was promised for it. */
static WEFT_COLD void define_promised_comm(const struct weft_pending *pending) {
    struct table *table = &tables[WEFT_CLASS_COMM];
    if (*pending->made == MPI_COMM_NULL) return;
    lock_handle_table(table);
    struct entry *entry = find_or_make_handle_entry(table, H(*pending->made));
    if (entry) {
        if (entry->id) table->generation++;
        entry->id = pending->made_id;
        entry->extra = NULL;
    }
    unlock_handle_table(table);
    char key[16]; /* ranks may complete two of them in different orders, but they call them in one */
    snprintf(key, sizeof key, "%u", pending->ordinal);
    if (entry)
        record_comm_definition(pending->made_id, *pending->made, pending->parent_id, pending->function,
                               pending->ordinal, key);
}

/* Return a number that is the same for all members of a group, by their ranks in the world, and odd; 1 where the world
 * is not known. */
uint64_t weft_hash_group(MPI_Group group) {
    int size = 0;
    uint64_t key = 0xcbf29ce484222325u;
    if (!world_known || REAL(MPI_Group_size)(group, &size) != MPI_SUCCESS) return 1;
    for (int i = 0; i < size; i++) {
        int world_rank = 0;
        REAL(MPI_Group_translate_ranks)(group, 1, &i, world_group, &world_rank);
        key = (key ^ (uint32_t)world_rank) * 0x100000001b3u;
    }
    return key | 1;
}

/* Define MPI_COMM_WORLD, MPI_COMM_SELF and the communicator with the parents, once MPI is initialised. */
WEFT_ASKS void weft_define_world(void) {
    world_known = REAL(MPI_Comm_group)(MPI_COMM_WORLD, &world_group) == MPI_SUCCESS;
    record_comm_definition(WEFT_ID_WORLD, MPI_COMM_WORLD, 0, 0, 0, "");
    record_comm_definition(WEFT_ID_SELF, MPI_COMM_SELF, 0, 0, 0, "");
    MPI_Comm parent = MPI_COMM_NULL;
    if (REAL(MPI_Comm_get_parent)(&parent) != MPI_SUCCESS || parent == MPI_COMM_NULL) return;
    weft_define_spawned_world(parent);
    weft_define_comm(0, MPI_COMM_NULL, parent, "parent", 0);
}

#ifdef MPI_SESSION_NULL
/* Take rank and size of the world from a session, if MPI was initialised by one. */
WEFT_ASKS void weft_read_world_from_session(MPI_Session session) {
    if (world_known) return;
    MPI_Group group = MPI_GROUP_NULL;
    if (REAL(MPI_Group_from_session_pset)(session, "mpi://WORLD", &group) != MPI_SUCCESS) return;
    world_group = group;
    world_known = true;
    int rank = -1, size = -1;
    REAL(MPI_Group_rank)(group, &rank);
    REAL(MPI_Group_size)(group, &size);
    weft_the_record->header->rank = rank;
    weft_the_record->header->world_size = size;
}
#endif

/* Define the world of the remote processes of an intercommunicator that MPI_Comm_spawn has made, here or in the
 * parents. */
WEFT_ASKS void weft_define_spawned_world(MPI_Comm intercomm) {
    static uint32_t spawned_count;
    MPI_Group remote = MPI_GROUP_NULL;
    int size = 0, inter = 0;
    if (REAL(MPI_Comm_test_inter)(intercomm, &inter) != MPI_SUCCESS || !inter) return;
    if (REAL(MPI_Comm_remote_group)(intercomm, &remote) != MPI_SUCCESS) return;
    REAL(MPI_Group_size)(remote, &size);
    uint32_t world = (uint32_t)spawned_group_count + 1;
    add_spawned_group(remote, world);
    struct definition definition = begin_definition(128);
    weft_write_unsigned(&definition.text, world);
    weft_write_unsigned(&definition.text, (uint64_t)size);
    MPI_Comm parent = MPI_COMM_NULL;
    REAL(MPI_Comm_get_parent)(&parent);
    const char *origin = parent == intercomm ? "parent" : "spawn";
    const char *name = parent == intercomm ? getenv("WEFT_INTERNAL_SPAWN") : weft_spawn_name;
    weft_write_bytes(&definition.text, origin, strlen(origin));
    weft_write_bytes(&definition.text, name ? name : "", name ? strnlen(name, sizeof weft_spawn_name) : 0);
    end_definition(&definition, WEFT_DEF_WORLD);
    if (parent != intercomm) weft_send_world_to_children(intercomm, ++spawned_count);
}

/* ---- the other kinds ---- */
/* Define a group that a call has made, with its members. */
WEFT_ASKS void weft_define_group(MPI_Group group) {
    if (group == MPI_GROUP_NULL) return;
    uint32_t id = weft_assign_object_id(WEFT_CLASS_GROUP, H(group));
    int size = 0;
    if (id < WEFT_ID_DYNAMIC || REAL(MPI_Group_size)(group, &size) != MPI_SUCCESS) return;
    struct definition definition = begin_definition(64 + 48 * (size_t)size);
    weft_write_unsigned(&definition.text, id);
    write_group_members(&definition.text, group);
    end_definition(&definition, WEFT_DEF_GROUP);
}

/* Return a datatype's combiner as the record stores it, as MPI libraries number them differently. */
static int encode_combiner(int combiner) {
    switch (combiner) {
    case MPI_COMBINER_NAMED: return 0;
    case MPI_COMBINER_DUP: return 1;
    case MPI_COMBINER_CONTIGUOUS: return 2;
    case MPI_COMBINER_VECTOR: return 3;
    case MPI_COMBINER_HVECTOR: return 4;
    case MPI_COMBINER_INDEXED: return 5;
    case MPI_COMBINER_HINDEXED: return 6;
    case MPI_COMBINER_INDEXED_BLOCK: return 7;
    case MPI_COMBINER_HINDEXED_BLOCK: return 8;
    case MPI_COMBINER_STRUCT: return 9;
    case MPI_COMBINER_SUBARRAY: return 10;
    case MPI_COMBINER_DARRAY: return 11;
    case MPI_COMBINER_F90_REAL: return 12;
    case MPI_COMBINER_F90_COMPLEX: return 13;
    case MPI_COMBINER_F90_INTEGER: return 14;
    case MPI_COMBINER_RESIZED: return 15;
#ifdef MPI_COMBINER_VALUE_INDEX
    case MPI_COMBINER_VALUE_INDEX: return 16;
#endif
    default: return 255;
    }
}

/* Define a datatype that a call has made, with its size and extent and the arguments that it was made with.
 * `given_types`: the `given_count` types that the call was given, as Open MPI returns copies of them that no call of
 * the program names. */
WEFT_ASKS void weft_define_datatype(MPI_Datatype type, int64_t given_count, const MPI_Datatype *given_types) {
    if (type == MPI_DATATYPE_NULL) return;
    uint32_t id = weft_assign_object_id(WEFT_CLASS_DATATYPE, H(type));
    if (id < WEFT_ID_DYNAMIC) return;
    MPI_Count size = 0, lb = 0, extent = 0;
    struct weft_envelope envelope;
    REAL(MPI_Type_size_x)(type, &size);
    REAL(MPI_Type_get_extent_x)(type, &lb, &extent);
    if (!weft_read_type_envelope(type, &envelope)) return;
    int number = encode_combiner(envelope.combiner);
    if (number == 0 || envelope.ints + envelope.larges > 1 << 22)
        envelope.ints = envelope.larges = envelope.addresses = envelope.types = 0; /* huge: size and extent must do */
    size_t argument_count = (size_t)(envelope.ints + envelope.larges + envelope.addresses + envelope.types);
    void *space = malloc(argument_count * sizeof(uint64_t) + 24);
    struct definition definition = begin_definition(128 + 10 * argument_count);
    if (!space || definition.text.overflow) {
        free(space);
        free(definition.start);
        return;
    }
    MPI_Aint *addresses = space;
    MPI_Count *counts = (MPI_Count *)(addresses + envelope.addresses);
    MPI_Datatype *inner_types = (MPI_Datatype *)(counts + envelope.larges);
    int *ints = (int *)(inner_types + envelope.types);
    if (argument_count && !weft_read_type_arguments(type, &envelope, ints, addresses, counts, inner_types))
        envelope.ints = envelope.larges = envelope.addresses = envelope.types = 0;
    weft_write_unsigned(&definition.text, id);
    weft_write_unsigned(&definition.text, (uint64_t)size);
    weft_write_signed(&definition.text, (int64_t)lb);
    weft_write_signed(&definition.text, (int64_t)extent);
    weft_write_unsigned(&definition.text, (uint64_t)number);
    weft_write_unsigned(&definition.text, (uint64_t)(envelope.ints + envelope.larges));
    for (int64_t k = 0; k < envelope.ints; k++) weft_write_signed(&definition.text, ints[k]);
    for (int64_t k = 0; k < envelope.larges; k++) weft_write_signed(&definition.text, (int64_t)counts[k]);
    weft_write_unsigned(&definition.text, (uint64_t)envelope.addresses);
    for (int64_t k = 0; k < envelope.addresses; k++) weft_write_signed(&definition.text, (int64_t)addresses[k]);
    weft_write_unsigned(&definition.text, (uint64_t)envelope.types);
    for (int64_t k = 0; k < envelope.types; k++) {
        MPI_Datatype part = envelope.types == given_count ? given_types[k] : inner_types[k];
        weft_write_unsigned(&definition.text, weft_find_object_id_in_table(weft_self, WEFT_CLASS_DATATYPE, H(part)));
        weft_free_inner_type(&inner_types[k]);
    }
    end_definition(&definition, WEFT_DEF_DATATYPE);
    free(space);
}

/* Define an operation for reductions that a call has made: whether it commutes. */
WEFT_ASKS void weft_define_op(MPI_Op op) {
    uint32_t id = weft_assign_object_id(WEFT_CLASS_OP, H(op));
    int commutes = 1;
    if (id < WEFT_ID_DYNAMIC) return;
    REAL(MPI_Op_commutative)(op, &commutes);
    uint8_t payload[24];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_unsigned(&text, id);
    weft_write_unsigned(&text, commutes != 0);
    weft_write_definition(WEFT_DEF_OP, payload, (size_t)(text.p - payload));
}

enum { FLAVOR_DYNAMIC = 2 };

/* Define a window that a call has made, and begin to watch its memory. `flavor`: as in format.h; `unit`: the
 * displacement unit. */
void weft_define_window(MPI_Win window, MPI_Comm comm, int flavor, const void *base, int64_t size, int64_t unit) {
    if (window == MPI_WIN_NULL) return;
    uint32_t id = weft_assign_object_id(WEFT_CLASS_WINDOW, H(window));
    struct weft_comm *comm_facts = weft_find_comm(comm);
    struct definition definition = begin_definition(128);
    weft_write_unsigned(&definition.text, id);
    weft_write_unsigned(&definition.text, comm_facts ? comm_facts->id : 0);
    weft_write_unsigned(&definition.text, (uint64_t)flavor);
    weft_write_unsigned(&definition.text, (uintptr_t)base);
    weft_write_unsigned(&definition.text, (uint64_t)size);
    weft_write_unsigned(&definition.text, (uint64_t)unit);
    weft_write_unsigned(&definition.text, comm_facts ? comm_facts->windows++ : 0);
    end_definition(&definition, WEFT_DEF_WINDOW);
    if (UNLIKELY(weft_accessing)) weft_watch_window_memory(window, id, comm, flavor, base, size, unit);
    if (flavor == 0) weft_begin_window_block_watch(window, base, size);
    if (flavor < FLAVOR_DYNAMIC)
        weft_begin_window_copies(window, id, base, size); /* shared ones have stores of others */
}

/* Define a file that a call has opened, with its name. */
void weft_define_file(MPI_File file, MPI_Comm comm, int amode, const char *name) {
    if (file == MPI_FILE_NULL) return;
    uint32_t id = weft_assign_object_id(WEFT_CLASS_FILE, H(file));
    struct weft_comm *comm_facts = weft_find_comm(comm);
    size_t length = name ? strnlen(name, 4096) : 0;
    struct definition definition = begin_definition(128 + length);
    weft_write_unsigned(&definition.text, id);
    weft_write_unsigned(&definition.text, comm_facts ? comm_facts->id : 0);
    weft_write_unsigned(&definition.text, (uint64_t)amode);
    weft_write_bytes(&definition.text, name, length);
    end_definition(&definition, WEFT_DEF_FILE);
}

/* Record the name that the program gave an object. */
void weft_record_object_name(int class, uint32_t id, const char *name) {
    size_t length = name ? strnlen(name, 256) : 0;
    struct definition definition = begin_definition(64 + length);
    weft_write_unsigned(&definition.text, (uint64_t)class);
    weft_write_unsigned(&definition.text, id);
    weft_write_bytes(&definition.text, name, length);
    end_definition(&definition, WEFT_DEF_NAME);
}

/* ---- requests ---- */
static struct weft_pending *pending_pool;

/* MPICH gives all sends that were complete when they started one and the same handle (Open MPI: ompi_request_empty).
 * The pending ones of a handle are a queue. Which of them a completion means is told by the variable that it is given,
 * where that is the one that the send put its request into; else the oldest is taken, and the record says that it is
 * a guess. */
enum { PLACES = 1024 };
static struct weft_pending *places[PLACES]; /* those that may share a handle, by place, newest first */

/* Return the head of the list of pending operations for the variable that a request was put into (its place). */
static inline struct weft_pending **find_place_bucket(const MPI_Request *place) {
    return &places[hash_handle((uintptr_t)place) & (PLACES - 1)];
}

/* Return the pending operation whose request the call put into the variable `place`, NULL if the variable holds another
 * handle by now. Needs the lock of the requests. */
static struct weft_pending *find_pending_of_variable(const MPI_Request *place, MPI_Request handle) {
    if (!place) return NULL;
    for (struct weft_pending *pending = *find_place_bucket(place); pending; pending = pending->same_bucket)
        if (pending->place == place)
            return pending->handle == handle ? pending : NULL; /* the newest there: older ones were moved away */
    return NULL;
}

/* Forget a pending operation, and free what is kept for it. Needs the lock of the requests. */
static void drop_pending_operation(struct weft_pending *pending) {
    if (pending->placed)
        for (struct weft_pending **link = find_place_bucket(pending->place); *link; link = &(*link)->same_bucket)
            if (*link == pending) {
                *link = pending->same_bucket;
                break;
            }
    weft_free_buffer_watch(pending);
    if (UNLIKELY(pending->parts)) weft_free_request_buffers(pending->parts);
    pending->next = pending_pool;
    pending_pool = pending;
}

/* Return a new id for the request of an operation that has begun, and keep what its completion needs (`pending`,
 * copied). 0 without memory. */
uint32_t weft_add_request(MPI_Request request, const struct weft_pending *pending) {
    struct table *table = &tables[WEFT_CLASS_REQUEST];
    lock_handle_table(table);
    struct entry *entry = find_or_make_handle_entry(table, H(request));
    uint32_t id = 0;
    struct weft_pending *kept = NULL;
    if (entry && entry->id == WEFT_ID_NULL) id = entry->id;
    else if (entry) {
        struct weft_pending *head = entry->extra;
        kept = pending_pool;
        if (kept) pending_pool = kept->next;
        else kept = malloc(sizeof *kept);
        id = table->next_id++;
        if (kept) {
            *kept = *pending;
            kept->id = id;
            kept->next = NULL;
            kept->last = kept;
            kept->stamp = kept->given = 0;
            kept->doubt = 0;
            kept->maker = weft_self;
            kept->parts = NULL;
            kept->handle = request;
            kept->placed = kept->place && kept->status < WEFT_STATUS_COUNT && !kept->persistent;
            if (kept->placed) {
                kept->same_bucket = *find_place_bucket(kept->place);
                *find_place_bucket(kept->place) = kept;
            }
        }
        /* Another thread may still be inside the call that completed the request of which this one got the handle. */
        bool queued = kept && head &&
                      ((head->status < WEFT_STATUS_COUNT && pending->status < WEFT_STATUS_COUNT && !head->persistent &&
                        !pending->persistent) ||
                       head->maker != weft_self);
        if (queued) {
            head->last->next = kept;
            head->last = kept;
        } else {
            for (struct weft_pending *next; head; head = next) { /* completed behind our back */
                next = head->next;
                drop_pending_operation(head);
            }
            entry->extra = kept;
            entry->id = id;
        }
    }
    if (UNLIKELY(!kept)) {
        free(pending->seen);
        free(pending->blocks);
    }
    unlock_handle_table(table);
    if (UNLIKELY(weft_accessing | weft_hashing) && kept) kept->parts = weft_take_request_buffers(id, kept->persistent);
    return id;
}

/* Return which of the pending operations that share a handle a call names: the one whose request was put into the
 * variable `place`, else the first one that this thread made and the call does not have yet, else the first that it
 * does not have. `stamp`: a number of the call if it names several requests, else 0. Set `guessed` if another one may
 * be meant. */
static struct weft_pending *choose_pending_operation(struct weft_pending *head, const MPI_Request *place,
                                                     uint64_t stamp, bool *guessed) {
    *guessed = head && head->id <= head->doubt;
    if (!head || !head->next) return head;
    struct weft_pending *pending = find_pending_of_variable(place, head->handle);
    *guessed = !pending || (stamp && pending->given == stamp);
    if (*guessed) {
        struct weft_pending *start = stamp && head->stamp == stamp ? head->cursor->next : head;
        pending = start;
        while (pending && (pending->maker != weft_self || (stamp && pending->given == stamp))) pending = pending->next;
        if (!pending) pending = start ? start : head->cursor;
        if (stamp) {
            head->stamp = stamp;
            head->cursor = pending;
        }
    }
    if (stamp) pending->given = stamp;
    return pending;
}

/* Return the id of a request that a call names, which fields of its status have a meaning, and whether it is a guess.
 * `place`: the variable that holds it, NULL if not known. `stamp`: a number of the call if it names several requests,
 * else 0. */
struct weft_found_request weft_find_request(MPI_Request request, const MPI_Request *place, uint64_t stamp) {
    struct table *table = &tables[WEFT_CLASS_REQUEST];
    struct weft_found_request found = {.status = WEFT_STATUS_NOTHING};
    lock_handle_table(table);
    struct entry *entry = find_or_make_handle_entry(table, H(request));
    if (entry) {
        const struct weft_pending *pending = choose_pending_operation(entry->extra, place, stamp, &found.guessed);
        if (UNLIKELY(pending && pending->seen)) weft_copy_buffer_before_completion(pending);
        found.id = pending ? pending->id : entry->id ? entry->id : (entry->id = table->next_id++);
        found.status = pending ? pending->status : found.id == WEFT_ID_NULL ? WEFT_STATUS_NOTHING : WEFT_STATUS_MESSAGE;
    }
    unlock_handle_table(table);
    return found;
}

/* Clear `guessed` of the requests that share a handle if the call names all of them, as it completes all: then it does
 * not matter which is which. */
WEFT_GIVEN void weft_clear_guesses_if_all_named(const MPI_Request *requests, bool *guessed, int64_t n, uint64_t stamp) {
    struct table *table = &tables[WEFT_CLASS_REQUEST];
    lock_handle_table(table);
    MPI_Request handle = MPI_REQUEST_NULL;
    bool all = false;
    for (int64_t i = 0; i < n; i++) {
        if (!guessed[i]) continue;
        if (requests[i] != handle) {
            handle = requests[i];
            const struct entry *entry = find_handle_entry(table, H(handle));
            const struct weft_pending *pending = entry ? entry->extra : NULL;
            all = pending && pending->last->id > pending->doubt;
            for (; pending && all; pending = pending->next) all = pending->given == stamp;
        }
        guessed[i] = !all;
    }
    unlock_handle_table(table);
}

/* Return a number that no other call of the process has, for weft_find_request. */
uint64_t weft_make_stamp(struct weft_thread *thread) { return (uint64_t)thread->slot << 48 | ++thread->stamps; }

/* Return the id of a request. `place`: the variable that holds it, NULL if not known. */
uint32_t weft_find_request_id(MPI_Request request, const MPI_Request *place) {
    return weft_find_request(request, place, 0).id;
}

/* Note that a persistent request is started: its buffer is watched from here on. */
void weft_restart_request(MPI_Request request) {
    struct table *table = &tables[WEFT_CLASS_REQUEST];
    lock_handle_table(table);
    struct entry *entry = find_handle_entry(table, H(request));
    struct weft_pending *pending = entry ? entry->extra : NULL;
    bool watched = pending && pending->persistent && pending->bytes;
    unlock_handle_table(table);
    if (UNLIKELY(weft_accessing | weft_hashing) && pending && pending->parts)
        weft_hold_request_buffers(pending->parts, pending->id);
    if (UNLIKELY(watched))
        weft_watch_restarted_buffer(pending, request); /* which no other thread may complete before this call is over */
}

/* End request `id` if a call has completed or freed it: `before` and `after` are its handle before and after the call,
 * `call_result` is how the call went. Return its buffer if the program changed it while MPI had it, and whether the
 * request is a guess. */
struct weft_request_end weft_end_request(uint32_t id, MPI_Request before, MPI_Request after,
                                         struct weft_request_result call_result) {
    bool guessed = call_result.guessed;
    if (id < WEFT_ID_DYNAMIC) return (struct weft_request_end){.changed = NULL};
    if (UNLIKELY(weft_window_requests) && after == MPI_REQUEST_NULL) weft_end_requested_access(weft_self, before);
    struct table *table = &tables[WEFT_CLASS_REQUEST];
    struct weft_pending done;
    lock_handle_table(table);
    struct entry *entry = find_handle_entry(table, H(before));
    struct weft_pending *pending = entry ? entry->extra : NULL, *previous = NULL;
    while (pending && pending->id != id) { /* another thread's new request may have the handle by now */
        previous = pending;
        pending = pending->next;
    }
    bool more = pending && (pending->made || pending->bytes || pending->awaited);
    struct weft_request_end result = {.guessed = guessed};
    if (UNLIKELY(more)) {
        done = *pending;
        if (pending->persistent && !pending->active)
            done.bytes = 0; /* a wait for it waits for nothing: the buffer is the program's */
        else if (pending->seen && weft_has_buffer_changed(pending))
            result.changed = pending->buffer; /* before it is given away */
        pending->active = false;
        if (after == MPI_REQUEST_NULL) pending->blocks = NULL; /* ours now */
    }
    struct weft_request_buffers *parts = UNLIKELY(weft_accessing | weft_hashing) && pending ? pending->parts : NULL;
    bool arrived = parts && weft_hashing && call_result.ok && !guessed;
    if (UNLIKELY(parts)) {
        weft_release_request_buffers(parts);
        if (after == MPI_REQUEST_NULL) pending->parts = NULL; /* ours now */
    }
    if (pending && after == MPI_REQUEST_NULL) {
        struct weft_pending *head = entry->extra;
        guessed |= id <= head->doubt;
        if (guessed && head->next) head->doubt = head->last->id;
        if (previous) {
            previous->next = pending->next;
            if (head->last == pending) head->last = previous;
            if (head->cursor == pending) head->stamp = 0;
        } else {
            if (pending->next) {
                pending->next->last = pending->last;
                pending->next->doubt = pending->doubt;
                pending->next->stamp = 0;
            }
            entry->extra = head = pending->next;
        }
        entry->id = head ? head->id : 0;
        if (!head) entry->state = GONE;
        drop_pending_operation(pending);
    } else if (entry && !entry->extra && entry->id == id && after == MPI_REQUEST_NULL) {
        entry->state = GONE;
        entry->id = 0;
    }
    unlock_handle_table(table);
    if (UNLIKELY(arrived)) weft_hash_received_message(parts, id, call_result.status);
    if (UNLIKELY(parts) && after == MPI_REQUEST_NULL) weft_free_request_buffers(parts);
    result.guessed = guessed;
    if (LIKELY(!more)) return result;
    if (done.made) define_promised_comm(&done);
    if (done.awaited && call_result.ok && !guessed && call_result.status)
        weft_record_received_message(&done.call, call_result.status);
    if (done.bytes && !done.seen && weft_has_buffer_changed(&done)) result.changed = done.buffer;
    if (guessed) result.changed = NULL;
    if (after == MPI_REQUEST_NULL) free(done.blocks);
    return result;
}

/* ---- texts ---- */
/* Write the fields of a status that have a meaning (`fields`). */
WEFT_GIVEN void weft_write_status(struct weft_text *text, const MPI_Status *status, enum weft_status_fields fields) {
    if (fields < WEFT_STATUS_COUNT && !(fields && weft_is_status_cancelled(status))) {
        weft_write_unsigned(text, 0);
        return;
    }
    if (UNLIKELY(text->end - text->p < 50)) {
        text->overflow = true;
        return;
    }
    uint8_t *p = text->p;
    bool counted = fields == WEFT_STATUS_COUNT;
    *p++ = !counted && weft_is_status_cancelled(status) ? 2 : 1;
    p = weft_put_z(p, counted ? WEFT_RANK_ANY_SOURCE : weft_encode_rank(status->MPI_SOURCE));
    p = weft_put_z(p, counted ? WEFT_TAG_ANY : weft_encode_tag(status->MPI_TAG));
    p = weft_put_u(p, weft_read_status_bytes(status));
    *p++ = 0;
    text->p = p;
}
