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
static volatile bool shared, inside;
static __thread bool alone;

/* Locks a table of handles; cheap as long as one thread uses MPI. */
static inline void table_lock(struct table *t) {
    if (LIKELY(!shared)) {
        inside = true;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (LIKELY(!shared)) {
            alone = true;
            return;
        }
        inside = false;
    }
    while (__atomic_test_and_set(&t->busy, __ATOMIC_ACQUIRE)) {
    }
}

/* Unlocks a table of handles. */
static inline void table_unlock(struct table *t) {
    if (LIKELY(alone)) {
        alone = false;
        __atomic_store_n(&inside, false, __ATOMIC_RELEASE);
    } else {
        __atomic_clear(&t->busy, __ATOMIC_RELEASE);
    }
}

static bool barrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

/* Has all threads use real locks from now on, and waits until none is inside without one. */
void weft_begin_locking_objects(void) {
    shared = true;
    if (barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
        while (__atomic_load_n(&inside, __ATOMIC_ACQUIRE)) sched_yield();
}

static inline size_t hash_handle(uintptr_t handle) { return (size_t)((handle * 0x9e3779b97f4a7c15u) >> 20); }

/* Returns the entry of a handle, NULL if the table has none. Under the lock. */
static inline struct entry *find(struct table *t, uintptr_t handle) {
    if (!t->capacity) return NULL;
    for (size_t at = hash_handle(handle) & (t->capacity - 1);; at = (at + 1) & (t->capacity - 1)) {
        struct entry *e = &t->entries[at];
        if (e->state == FREE) return NULL;
        if (e->state == FULL && e->handle == handle) return e;
    }
}

/* Makes the table larger, without its deleted entries; false without memory. */
static WEFT_COLD bool table_rebuild(struct table *t) {
    size_t full = 0;
    for (size_t i = 0; i < t->capacity; i++) full += t->entries[i].state == FULL;
    size_t capacity = 256;
    while (capacity < full * 4) capacity *= 2;
    struct entry *entries = calloc(capacity, sizeof *entries);
    if (!entries) return false;
    for (size_t i = 0; i < t->capacity; i++) {
        if (t->entries[i].state != FULL) continue;
        size_t at = hash_handle(t->entries[i].handle) & (capacity - 1);
        while (entries[at].state) at = (at + 1) & (capacity - 1);
        entries[at] = t->entries[i];
    }
    free(t->entries);
    t->entries = entries;
    t->capacity = capacity;
    t->filled = full;
    return true;
}

/* The entry of a handle, made where there is none (id 0). The caller holds the lock. */
static struct entry *place(struct table *t, uintptr_t handle) {
    struct entry *e = find(t, handle);
    if (e) return e;
    if (t->filled * 2 >= t->capacity && !table_rebuild(t)) return NULL;
    size_t at = hash_handle(handle) & (t->capacity - 1);
    while (t->entries[at].state == FULL) at = (at + 1) & (t->capacity - 1);
    e = &t->entries[at];
    t->filled += e->state == FREE;
    *e = (struct entry){.handle = handle, .state = FULL};
    return e;
}

/* Gives a predefined handle its fixed id. */
static void predefine(int class, uintptr_t handle, uint32_t id) {
    struct table *t = &tables[class];
    struct entry *e = find(t, handle);
    if (e) return; /* one handle under two names (MPI_LONG_LONG and MPI_LONG_LONG_INT): the first one stays */
    if ((e = place(t, handle))) e->id = id;
}

/* Returns the id of a handle by its table; a handle that is not known gets a new id. */
uint32_t weft_find_object_id_in_table(struct weft_thread *thread, int class, uintptr_t handle) {
    struct table *t = &tables[class];
    table_lock(t);
    struct entry *e = place(t, handle);
    uint32_t id = 0;
    if (e) {
        /* A handle that no recorded call made: its object stays without a definition. */
        if (!e->id) e->id = t->next_id++;
        id = e->id;
        thread->caches[class][hash_handle(handle) % WEFT_CACHED] =
            (struct weft_cached){.handle = handle, .id = id, .generation = t->generation};
    }
    table_unlock(t);
    return id;
}

/* Returns the id of a handle: from the thread's cache, or by its table. */
uint32_t weft_find_object_id(struct weft_thread *thread, int class, uintptr_t handle) {
    const struct weft_cached *cached = &thread->caches[class][hash_handle(handle) % WEFT_CACHED];
    if (LIKELY(cached->handle == handle && cached->id && cached->generation == tables[class].generation))
        return cached->id;
    return weft_find_object_id_in_table(thread, class, handle);
}

/* Of other classes a handle that is known names what was freed unseen. */
static bool counted(int class) {
    return class == WEFT_CLASS_GROUP || class == WEFT_CLASS_DATATYPE || class == WEFT_CLASS_ERRHANDLER;
}

/* Notes that an object has one more reference: a call gave its handle again. */
static void refer_again(struct entry *e) {
    struct reference *under = malloc(sizeof *under);
    if (!under) return;
    *under = (struct reference){.id = e->id, .extra = e->extra, .under = e->under};
    e->under = under;
}

/* Whether the handle names what it named before. */
static bool referred_still(struct entry *e) {
    struct reference *under = e->under;
    if (!under) return false;
    e->id = under->id;
    e->extra = under->extra;
    e->under = under->under;
    free(under);
    return true;
}

/* Returns the id of a handle that a call has made: a new one, or a fixed one if the object is predefined. */
static uint32_t renew(int class, uintptr_t handle, void *extra) {
    struct table *t = &tables[class];
    table_lock(t);
    struct entry *e = place(t, handle);
    uint32_t id = 0;
    if (e) {
        if (e->id && e->id < WEFT_ID_DYNAMIC) id = e->id; /* a predefined object came out, or a null handle */
        else {
            if (e->id && counted(class)) refer_again(e);
            if (e->id) t->generation++;
            id = e->id = t->next_id++;
            e->extra = extra;
        }
    }
    table_unlock(t);
    return id;
}

uint32_t weft_assign_object_id(int class, uintptr_t handle) { return renew(class, handle, NULL); }

/* Forgets an object that a call has freed. */
void weft_forget_object(int class, uintptr_t handle, uint32_t id) {
    struct table *t = &tables[class];
    if (id < WEFT_ID_DYNAMIC) return;
    table_lock(t);
    struct entry *e = find(t, handle);
    if (e && e->id == id) {
        if (!referred_still(e)) {
            e->state = GONE;
            e->id = 0;
            e->extra = NULL; /* a communicator's facts stay allocated: another thread may be reading them */
        }
        t->generation++;
    }
    table_unlock(t);
}

#define H(x) ((uintptr_t)(x))

/* Enters the predefined objects of MPI into the tables. */
void weft_enter_predefined_objects(void) {
    for (int c = 0; c < WEFT_CLASS_END; c++)
        if (!tables[c].next_id) tables[c].next_id = WEFT_ID_DYNAMIC;
    if (!barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)) shared = true; /* an old kernel: with locks throughout */
#include "predefined.h"
}

void weft_reset_object_locks(void) {
    for (int c = 0; c < WEFT_CLASS_END; c++) tables[c].busy = 0;
    inside = alone = false;
}

/* ---- groups of processes, as runs of world ranks ---- */
enum { FOREIGN = 64 };
static struct {
    MPI_Group group;
    uint32_t world;
} foreign[FOREIGN];
static int foreign_count;
static MPI_Group world_group;
static bool world_known;
static pthread_mutex_t foreign_lock = PTHREAD_MUTEX_INITIALIZER;

struct runs {
    struct weft_text text;
    uint8_t *start;
    uint64_t n;
    int64_t world, first, stride, count;
};

/* Writes the run of ranks at equal distances that is collected. */
static void run_flush(struct runs *r) {
    if (!r->count) return;
    weft_write_unsigned(&r->text, (uint64_t)r->world);
    weft_write_unsigned(&r->text, (uint64_t)r->first);
    weft_write_signed(&r->text, r->stride);
    weft_write_unsigned(&r->text, (uint64_t)r->count);
    r->n++;
    r->count = 0;
}

/* Adds a rank of a world to the run that is collected, or begins a new run. */
static void run_add(struct runs *r, int64_t world, int64_t rank) {
    if (r->count && r->world == world) {
        int64_t stride = rank - (r->first + (r->count - 1) * r->stride);
        if (r->count == 1) r->stride = stride;
        if (stride == r->stride) {
            r->count++;
            return;
        }
        if (r->count == 1) r->stride = 0;
    }
    run_flush(r);
    r->world = world;
    r->first = rank;
    r->stride = 0;
    r->count = 1;
}

/* Writes MEMBERS of a group; allocates, so only creations come here. */
static WEFT_ASKS void text_members(struct weft_text *out, MPI_Group group) {
    int n = 0;
    if (group == MPI_GROUP_NULL || REAL(MPI_Group_size)(group, &n) != MPI_SUCCESS || n <= 0) {
        weft_write_unsigned(out, 0);
        return;
    }
    int *ranks = malloc(sizeof(int) * (size_t)n * 2);
    struct runs runs = {.start = malloc((size_t)n * 40 + 64)};
    if (!ranks || !runs.start) {
        out->overflow = true;
        goto done;
    }
    runs.text = (struct weft_text){.p = runs.start, .end = runs.start + (size_t)n * 40 + 64};
    int *translated = ranks + n;
    int64_t *where = malloc(sizeof(int64_t) * (size_t)n);
    if (!where) {
        out->overflow = true;
        goto done;
    }
    for (int i = 0; i < n; i++) {
        ranks[i] = i;
        where[i] = -1;
    }
    pthread_mutex_lock(&foreign_lock);
    for (int f = -1; f < foreign_count; f++) {
        MPI_Group known = f < 0 ? world_group : foreign[f].group;
        if ((f < 0 && !world_known) ||
            REAL(MPI_Group_translate_ranks)(group, n, ranks, known, translated) != MPI_SUCCESS)
            continue;
        for (int i = 0; i < n; i++)
            if (where[i] < 0 && translated[i] != MPI_UNDEFINED)
                where[i] = ((int64_t)(f < 0 ? 0 : foreign[f].world) << 32) | (uint32_t)translated[i];
    }
    pthread_mutex_unlock(&foreign_lock);
    for (int i = 0; i < n; i++) {
        if (where[i] < 0) run_add(&runs, WEFT_WORLD_UNKNOWN, 0);
        else run_add(&runs, where[i] >> 32, where[i] & 0xffffffff);
    }
    run_flush(&runs);
    free(where);
    weft_write_unsigned(out, runs.n);
    size_t length = (size_t)(runs.text.p - runs.start);
    if ((size_t)(out->end - out->p) < length) out->overflow = true;
    else {
        memcpy(out->p, runs.start, length);
        out->p += length;
    }
done:
    free(ranks);
    free(runs.start);
}

/* Notes that the members of a group are processes of another world. */
static void foreign_add(MPI_Group group, uint32_t world) {
    pthread_mutex_lock(&foreign_lock);
    if (foreign_count < FOREIGN) {
        foreign[foreign_count].group = group;
        foreign[foreign_count++].world = world;
    }
    pthread_mutex_unlock(&foreign_lock);
}

/* A definition of a size that is known only by its group: bounded by 48 bytes a member. */
struct definition {
    uint8_t *start;
    struct weft_text text;
};

/* Begins a definition of at most `size` bytes, in memory of its own. */
static struct definition definition_start(size_t size) {
    struct definition d = {.start = malloc(size)};
    d.text = (struct weft_text){.p = d.start, .end = d.start ? d.start + size : NULL, .overflow = !d.start};
    return d;
}

static void definition_end(struct definition *d, int type) {
    if (!d->text.overflow) weft_write_definition(type, d->start, (size_t)(d->text.p - d->start));
    free(d->start);
}

/* ---- communicators ---- */
/* Returns what is known of a communicator, NULL for one that no recorded call made. */
struct weft_comm *weft_find_comm(MPI_Comm comm) {
    struct table *t = &tables[WEFT_CLASS_COMM];
    table_lock(t);
    struct entry *e = find(t, H(comm));
    struct weft_comm *facts = e ? e->extra : NULL;
    table_unlock(t);
    return facts;
}

int weft_count_peers(MPI_Comm comm) {
    const struct weft_comm *c = weft_find_comm(comm);
    return !c ? 0 : c->remote_size ? c->remote_size : c->size;
}

bool weft_is_root(MPI_Comm comm, int root) {
    const struct weft_comm *c = weft_find_comm(comm);
    return c && (c->remote_size ? root == MPI_ROOT : root == c->rank);
}

/* Sets the numbers of neighbours that send to this process and that receive from it, in a topology. */
static void degrees(MPI_Comm comm, int *in, int *out) {
    int kind = MPI_UNDEFINED, n = 0, weighted = 0;
    *in = *out = 0;
    const struct weft_comm *c = weft_find_comm(comm);
    if (!c || REAL(MPI_Topo_test)(comm, &kind) != MPI_SUCCESS) return;
    if (kind == MPI_CART && REAL(MPI_Cartdim_get)(comm, &n) == MPI_SUCCESS) *in = *out = 2 * n;
    if (kind == MPI_GRAPH && REAL(MPI_Graph_neighbors_count)(comm, c->rank, &n) == MPI_SUCCESS) *in = *out = n;
    if (kind == MPI_DIST_GRAPH) REAL(MPI_Dist_graph_neighbors_count)(comm, in, out, &weighted);
}

/* Returns how many neighbours send to this process in a communicator's topology. */
int weft_count_sending_neighbours(MPI_Comm comm) {
    int in, out;
    degrees(comm, &in, &out);
    return in;
}

/* Returns how many neighbours receive from this process in a communicator's topology. */
int weft_count_receiving_neighbours(MPI_Comm comm) {
    int in, out;
    degrees(comm, &in, &out);
    return out;
}

/* Writes the definition of a communicator: its members, its parent, and which call made it. */
static WEFT_ASKS void comm_define(uint32_t id, MPI_Comm comm, uint32_t parent, uint16_t function, uint32_t ordinal,
                                  const char *key) {
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
    struct definition d = definition_start(256 + 48 * ((size_t)facts->size + (size_t)facts->remote_size));
    weft_write_unsigned(&d.text, id);
    weft_write_unsigned(&d.text, parent);
    weft_write_unsigned(&d.text, function);
    weft_write_unsigned(&d.text, ordinal);
    weft_write_unsigned(&d.text, inter != 0);
    weft_write_signed(&d.text, facts->rank);
    weft_write_bytes(&d.text, key, strlen(key));
    text_members(&d.text, local);
    text_members(&d.text, remote);
    definition_end(&d, WEFT_DEF_COMM);
    if (local != MPI_GROUP_NULL) REAL(MPI_Group_free)(&local);
    if (remote != MPI_GROUP_NULL) REAL(MPI_Group_free)(&remote);
    struct table *t = &tables[WEFT_CLASS_COMM];
    table_lock(t);
    struct entry *e = find(t, H(comm));
    if (e && e->id == id) e->extra = facts;
    else free(facts);
    table_unlock(t);
}

/* Which creation on the parent this is. Calls that only a group takes part in are counted by group and tag, as the
 * parent's other members know nothing of them. */
static uint32_t made_ordinal(struct weft_comm *parent, uint64_t group_key) {
    if (!parent) return 0;
    if (!group_key) return parent->children++;
    for (struct weft_group_made *m = parent->made; m; m = m->next)
        if (m->key == group_key) return m->n++;
    struct weft_group_made *m = calloc(1, sizeof *m);
    if (!m) return 0;
    *m = (struct weft_group_made){.key = group_key, .n = 1, .next = parent->made};
    parent->made = m;
    return 0;
}

/* Defines a communicator that a call has made; MPI_COMM_NULL still counts as a creation on the parent. */
void weft_define_comm(uint16_t function, MPI_Comm parent, MPI_Comm made, const char *key, uint64_t group_key) {
    struct weft_comm *from = parent == MPI_COMM_NULL ? NULL : weft_find_comm(parent);
    uint32_t ordinal = made_ordinal(from, group_key);
    if (made == MPI_COMM_NULL) return;
    uint32_t id = weft_assign_object_id(WEFT_CLASS_COMM, H(made));
    if (id >= WEFT_ID_DYNAMIC) comm_define(id, made, from ? from->id : 0, function, ordinal, key);
}

/* A communicator that is there when its request completes has its id and ordinal from the call on. */
void weft_promise_comm_id(struct weft_pending *pending, MPI_Comm parent, MPI_Comm *made) {
    struct weft_comm *from = weft_find_comm(parent);
    struct table *t = &tables[WEFT_CLASS_COMM];
    table_lock(t);
    pending->made_id = t->next_id++;
    table_unlock(t);
    pending->made = made;
    pending->parent_id = from ? from->id : 0;
    pending->ordinal = made_ordinal(from, 0);
}

/* Gives a communicator whose request is complete the id that was promised for it. */
static WEFT_COLD void comm_kept(const struct weft_pending *p) {
    struct table *t = &tables[WEFT_CLASS_COMM];
    if (*p->made == MPI_COMM_NULL) return;
    table_lock(t);
    struct entry *e = place(t, H(*p->made));
    if (e) {
        if (e->id) t->generation++;
        e->id = p->made_id;
        e->extra = NULL;
    }
    table_unlock(t);
    char key[16]; /* ranks may complete two of them in different orders, but they call them in one */
    snprintf(key, sizeof key, "%u", p->ordinal);
    if (e) comm_define(p->made_id, *p->made, p->parent_id, p->function, p->ordinal, key);
}

/* Returns a number that is the same for all members of a group, by their ranks in the world. */
uint64_t weft_hash_group(MPI_Group group) {
    int n = 0;
    uint64_t key = 0xcbf29ce484222325u;
    if (!world_known || REAL(MPI_Group_size)(group, &n) != MPI_SUCCESS) return 1;
    for (int i = 0; i < n; i++) {
        int world = 0;
        REAL(MPI_Group_translate_ranks)(group, 1, &i, world_group, &world);
        key = (key ^ (uint32_t)world) * 0x100000001b3u;
    }
    return key | 1;
}

/* Defines MPI_COMM_WORLD, MPI_COMM_SELF and the communicator with the parents, at initialisation. */
WEFT_ASKS void weft_define_world(void) {
    world_known = REAL(MPI_Comm_group)(MPI_COMM_WORLD, &world_group) == MPI_SUCCESS;
    comm_define(WEFT_ID_WORLD, MPI_COMM_WORLD, 0, 0, 0, "");
    comm_define(WEFT_ID_SELF, MPI_COMM_SELF, 0, 0, 0, "");
    MPI_Comm parent = MPI_COMM_NULL;
    if (REAL(MPI_Comm_get_parent)(&parent) != MPI_SUCCESS || parent == MPI_COMM_NULL) return;
    weft_define_spawned_world(parent);
    weft_define_comm(0, MPI_COMM_NULL, parent, "parent", 0);
}

#ifdef MPI_SESSION_NULL
/* Takes rank and size of the world from a session, if MPI was initialised by one. */
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

/* Names the remote processes of an intercommunicator that MPI_Comm_spawn or the parent's spawn made. */
WEFT_ASKS void weft_define_spawned_world(MPI_Comm intercomm) {
    static uint32_t spawned_count;
    MPI_Group remote = MPI_GROUP_NULL;
    int size = 0, inter = 0;
    if (REAL(MPI_Comm_test_inter)(intercomm, &inter) != MPI_SUCCESS || !inter) return;
    if (REAL(MPI_Comm_remote_group)(intercomm, &remote) != MPI_SUCCESS) return;
    REAL(MPI_Group_size)(remote, &size);
    uint32_t world = (uint32_t)foreign_count + 1;
    foreign_add(remote, world);
    struct definition d = definition_start(128);
    weft_write_unsigned(&d.text, world);
    weft_write_unsigned(&d.text, (uint64_t)size);
    MPI_Comm parent = MPI_COMM_NULL;
    REAL(MPI_Comm_get_parent)(&parent);
    const char *origin = parent == intercomm ? "parent" : "spawn";
    const char *name = parent == intercomm ? getenv("WEFT_INTERNAL_SPAWN") : weft_spawn_name;
    weft_write_bytes(&d.text, origin, strlen(origin));
    weft_write_bytes(&d.text, name ? name : "", name ? strnlen(name, sizeof weft_spawn_name) : 0);
    definition_end(&d, WEFT_DEF_WORLD);
    if (parent != intercomm) weft_send_world_to_children(intercomm, ++spawned_count);
}

/* ---- the other kinds ---- */
/* Defines a group that a call has made. */
WEFT_ASKS void weft_define_group(MPI_Group made) {
    if (made == MPI_GROUP_NULL) return;
    uint32_t id = weft_assign_object_id(WEFT_CLASS_GROUP, H(made));
    int n = 0;
    if (id < WEFT_ID_DYNAMIC || REAL(MPI_Group_size)(made, &n) != MPI_SUCCESS) return;
    struct definition d = definition_start(64 + 48 * (size_t)n);
    weft_write_unsigned(&d.text, id);
    text_members(&d.text, made);
    definition_end(&d, WEFT_DEF_GROUP);
}

/* Returns the record's number of a datatype's combiner. */
static int combiner_number(int combiner) {
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

/* Defines a datatype that a call has made, of `n_of` inner types if they are known. */
WEFT_ASKS void weft_define_datatype(MPI_Datatype made, int64_t n_of, const MPI_Datatype *of_types) {
    if (made == MPI_DATATYPE_NULL) return;
    uint32_t id = weft_assign_object_id(WEFT_CLASS_DATATYPE, H(made));
    if (id < WEFT_ID_DYNAMIC) return;
    MPI_Count size = 0, lb = 0, extent = 0;
    struct weft_envelope e;
    REAL(MPI_Type_size_x)(made, &size);
    REAL(MPI_Type_get_extent_x)(made, &lb, &extent);
    if (!weft_read_type_envelope(made, &e)) return;
    int number = combiner_number(e.combiner);
    if (number == 0 || e.ints + e.larges > 1 << 22)
        e.ints = e.larges = e.addresses = e.types = 0; /* huge: size and extent must do */
    size_t n = (size_t)(e.ints + e.larges + e.addresses + e.types);
    void *space = malloc(n * sizeof(uint64_t) + 24);
    struct definition d = definition_start(128 + 10 * n);
    if (!space || d.text.overflow) {
        free(space);
        free(d.start);
        return;
    }
    MPI_Aint *a = space;
    MPI_Count *l = (MPI_Count *)(a + e.addresses);
    MPI_Datatype *t = (MPI_Datatype *)(l + e.larges);
    int *i = (int *)(t + e.types);
    if (n && !weft_read_type_arguments(made, &e, i, a, l, t)) e.ints = e.larges = e.addresses = e.types = 0;
    weft_write_unsigned(&d.text, id);
    weft_write_unsigned(&d.text, (uint64_t)size);
    weft_write_signed(&d.text, (int64_t)lb);
    weft_write_signed(&d.text, (int64_t)extent);
    weft_write_unsigned(&d.text, (uint64_t)number);
    weft_write_unsigned(&d.text, (uint64_t)(e.ints + e.larges));
    for (int64_t k = 0; k < e.ints; k++) weft_write_signed(&d.text, i[k]);
    for (int64_t k = 0; k < e.larges; k++) weft_write_signed(&d.text, (int64_t)l[k]);
    weft_write_unsigned(&d.text, (uint64_t)e.addresses);
    for (int64_t k = 0; k < e.addresses; k++) weft_write_signed(&d.text, (int64_t)a[k]);
    weft_write_unsigned(&d.text, (uint64_t)e.types);
    for (int64_t k = 0; k < e.types; k++) {
        MPI_Datatype part = e.types == n_of ? of_types[k] : t[k];
        weft_write_unsigned(&d.text, weft_find_object_id_in_table(weft_self, WEFT_CLASS_DATATYPE, H(part)));
        weft_free_inner_type(&t[k]);
    }
    definition_end(&d, WEFT_DEF_DATATYPE);
    free(space);
}

/* Defines an operation of reductions that a call has made. */
WEFT_ASKS void weft_define_op(MPI_Op made) {
    uint32_t id = weft_assign_object_id(WEFT_CLASS_OP, H(made));
    int commutes = 1;
    if (id < WEFT_ID_DYNAMIC) return;
    REAL(MPI_Op_commutative)(made, &commutes);
    uint8_t payload[24];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_unsigned(&text, id);
    weft_write_unsigned(&text, commutes != 0);
    weft_write_definition(WEFT_DEF_OP, payload, (size_t)(text.p - payload));
}

enum { FLAVOR_DYNAMIC = 2 };

/* Defines a window that a call has made, with its memory. */
void weft_define_window(MPI_Win made, MPI_Comm comm, int flavor, const void *base, int64_t size, int64_t unit) {
    if (made == MPI_WIN_NULL) return;
    uint32_t id = weft_assign_object_id(WEFT_CLASS_WINDOW, H(made));
    struct weft_comm *on = weft_find_comm(comm);
    struct definition d = definition_start(128);
    weft_write_unsigned(&d.text, id);
    weft_write_unsigned(&d.text, on ? on->id : 0);
    weft_write_unsigned(&d.text, (uint64_t)flavor);
    weft_write_unsigned(&d.text, (uintptr_t)base);
    weft_write_unsigned(&d.text, (uint64_t)size);
    weft_write_unsigned(&d.text, (uint64_t)unit);
    weft_write_unsigned(&d.text, on ? on->windows++ : 0);
    definition_end(&d, WEFT_DEF_WINDOW);
    if (UNLIKELY(weft_accessing)) weft_watch_window_memory(made, id, comm, flavor, base, size, unit);
    if (flavor == 0) weft_begin_window_block_watch(made, base, size);
    if (flavor < FLAVOR_DYNAMIC) weft_begin_window_copies(made, id, base, size); /* shared ones have stores of others */
}

/* Defines a file that a call has opened. */
void weft_define_file(MPI_File made, MPI_Comm comm, int amode, const char *name) {
    if (made == MPI_FILE_NULL) return;
    uint32_t id = weft_assign_object_id(WEFT_CLASS_FILE, H(made));
    struct weft_comm *on = weft_find_comm(comm);
    size_t length = name ? strnlen(name, 4096) : 0;
    struct definition d = definition_start(128 + length);
    weft_write_unsigned(&d.text, id);
    weft_write_unsigned(&d.text, on ? on->id : 0);
    weft_write_unsigned(&d.text, (uint64_t)amode);
    weft_write_bytes(&d.text, name, length);
    definition_end(&d, WEFT_DEF_FILE);
}

/* Writes down the name that the program gave an object. */
void weft_record_object_name(int class, uint32_t id, const char *name) {
    size_t length = name ? strnlen(name, 256) : 0;
    struct definition d = definition_start(64 + length);
    weft_write_unsigned(&d.text, (uint64_t)class);
    weft_write_unsigned(&d.text, id);
    weft_write_bytes(&d.text, name, length);
    definition_end(&d, WEFT_DEF_NAME);
}

/* ---- requests ---- */
static struct weft_pending *pending_pool;

/* MPICH gives all sends that were complete when they started one and the same handle (Open MPI: ompi_request_empty).
 * The pending ones of a handle are a queue. Which of them a completion means is told by the variable that it is given,
 * where that is the one that the send put its request into; else the oldest is taken, and the record says that it is
 * a guess. */
enum { PLACES = 1024 };
static struct weft_pending *places[PLACES]; /* those that may share a handle, by place, newest first */

static inline struct weft_pending **bucket(const MPI_Request *place) {
    return &places[hash_handle((uintptr_t)place) & (PLACES - 1)];
}

/* Returns the pending operation whose request is stored at an address, NULL for none. */
static struct weft_pending *pending_at(const MPI_Request *at, MPI_Request handle) {
    if (!at) return NULL;
    for (struct weft_pending *p = *bucket(at); p; p = p->same_bucket)
        if (p->place == at) return p->handle == handle ? p : NULL; /* the newest there: older ones were moved away */
    return NULL;
}

/* Forgets a pending operation, and frees what is kept for it. */
static void pending_drop(struct weft_pending *p) {
    if (p->placed)
        for (struct weft_pending **link = bucket(p->place); *link; link = &(*link)->same_bucket)
            if (*link == p) {
                *link = p->same_bucket;
                break;
            }
    weft_free_buffer_watch(p);
    if (UNLIKELY(p->parts)) weft_free_request_buffers(p->parts);
    p->next = pending_pool;
    pending_pool = p;
}

/* Gives the request of an operation that has begun its id, and keeps what its completion needs. */
uint32_t weft_add_request(MPI_Request request, const struct weft_pending *pending) {
    struct table *t = &tables[WEFT_CLASS_REQUEST];
    table_lock(t);
    struct entry *e = place(t, H(request));
    uint32_t id = 0;
    struct weft_pending *kept = NULL;
    if (e && e->id == WEFT_ID_NULL) id = e->id;
    else if (e) {
        struct weft_pending *head = e->extra;
        kept = pending_pool;
        if (kept) pending_pool = kept->next;
        else kept = malloc(sizeof *kept);
        id = t->next_id++;
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
                kept->same_bucket = *bucket(kept->place);
                *bucket(kept->place) = kept;
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
                pending_drop(head);
            }
            e->extra = kept;
            e->id = id;
        }
    }
    if (UNLIKELY(!kept)) {
        free(pending->seen);
        free(pending->blocks);
    }
    table_unlock(t);
    if (UNLIKELY(weft_accessing | weft_hashing) && kept) kept->parts = weft_take_request_buffers(id, kept->persistent);
    return id;
}

/* Of the requests that share a handle the one that was put there, else the first one that this thread made and this
 * stamp has not got yet, else the first one that it has not got. */
static struct weft_pending *pending_of(struct weft_pending *head, const MPI_Request *at, uint64_t stamp,
                                       bool *guessed) {
    *guessed = head && head->id <= head->doubt;
    if (!head || !head->next) return head;
    struct weft_pending *p = pending_at(at, head->handle);
    *guessed = !p || (stamp && p->given == stamp);
    if (*guessed) {
        struct weft_pending *start = stamp && head->stamp == stamp ? head->cursor->next : head;
        p = start;
        while (p && (p->maker != weft_self || (stamp && p->given == stamp))) p = p->next;
        if (!p) p = start ? start : head->cursor;
        if (stamp) {
            head->stamp = stamp;
            head->cursor = p;
        }
    }
    if (stamp) p->given = stamp;
    return p;
}

/* The request at hand. Calls that name a handle several times pass one stamp for all, and get one request of its
 * queue after the other; stamp 0: one call names one. */
struct weft_found weft_find_request(MPI_Request request, const MPI_Request *at, uint64_t stamp) {
    struct table *t = &tables[WEFT_CLASS_REQUEST];
    struct weft_found found = {.status = WEFT_STATUS_NOTHING};
    table_lock(t);
    struct entry *e = place(t, H(request));
    if (e) {
        const struct weft_pending *p = pending_of(e->extra, at, stamp, &found.guessed);
        if (UNLIKELY(p && p->seen)) weft_copy_buffer_before_completion(p);
        found.id = p ? p->id : e->id ? e->id : (e->id = t->next_id++);
        found.status = p ? p->status : found.id == WEFT_ID_NULL ? WEFT_STATUS_NOTHING : WEFT_STATUS_MESSAGE;
    }
    table_unlock(t);
    return found;
}

/* Clears `guessed` of requests that share a handle if the call names all of them: then it does not matter which is
 * which. */
WEFT_GIVEN void weft_clear_guesses_if_all_named(const MPI_Request *requests, bool *guessed, int64_t n, uint64_t stamp) {
    struct table *t = &tables[WEFT_CLASS_REQUEST];
    table_lock(t);
    MPI_Request last = MPI_REQUEST_NULL;
    bool all = false;
    for (int64_t i = 0; i < n; i++) {
        if (!guessed[i]) continue;
        if (requests[i] != last) {
            last = requests[i];
            const struct entry *e = find(t, H(last));
            const struct weft_pending *p = e ? e->extra : NULL;
            all = p && p->last->id > p->doubt;
            for (; p && all; p = p->next) all = p->given == stamp;
        }
        guessed[i] = !all;
    }
    table_unlock(t);
}

uint64_t weft_make_stamp(struct weft_thread *thread) { return (uint64_t)thread->slot << 48 | ++thread->stamps; }

uint32_t weft_find_request_id(MPI_Request request, const MPI_Request *at) {
    return weft_find_request(request, at, 0).id;
}

/* Begins a persistent request again: its buffer is watched from here on. */
void weft_restart_request(MPI_Request request) {
    struct table *t = &tables[WEFT_CLASS_REQUEST];
    table_lock(t);
    struct entry *e = find(t, H(request));
    struct weft_pending *p = e ? e->extra : NULL;
    bool watched = p && p->persistent && p->bytes;
    table_unlock(t);
    if (UNLIKELY(weft_accessing | weft_hashing) && p && p->parts) weft_hold_request_buffers(p->parts, p->id);
    if (UNLIKELY(watched))
        weft_watch_restarted_buffer(p, request); /* which no other thread may complete before this call is over */
}

/* Ends a request that a call has completed or freed; returns whether its buffer had changed. */
struct weft_done weft_end_request(uint32_t id, MPI_Request before, MPI_Request after, struct weft_ended ended) {
    bool guessed = ended.guessed;
    if (id < WEFT_ID_DYNAMIC) return (struct weft_done){.changed = NULL};
    if (UNLIKELY(weft_window_requests) && after == MPI_REQUEST_NULL) weft_end_requested_access(weft_self, before);
    struct table *t = &tables[WEFT_CLASS_REQUEST];
    struct weft_pending done;
    table_lock(t);
    struct entry *e = find(t, H(before));
    struct weft_pending *p = e ? e->extra : NULL, *previous = NULL;
    while (p && p->id != id) { /* another thread's new request may have the handle by now */
        previous = p;
        p = p->next;
    }
    bool more = p && (p->made || p->bytes || p->awaited);
    struct weft_done told = {.guessed = guessed};
    if (UNLIKELY(more)) {
        done = *p;
        if (p->persistent && !p->active)
            done.bytes = 0; /* a wait for it waits for nothing: the buffer is the program's */
        else if (p->seen && weft_has_buffer_changed(p)) told.changed = p->buffer; /* before it is given away */
        p->active = false;
        if (after == MPI_REQUEST_NULL) p->blocks = NULL; /* ours now */
    }
    struct weft_parts *parts = UNLIKELY(weft_accessing | weft_hashing) && p ? p->parts : NULL;
    bool arrived = parts && weft_hashing && ended.ok && !guessed;
    if (UNLIKELY(parts)) {
        weft_release_request_buffers(parts);
        if (after == MPI_REQUEST_NULL) p->parts = NULL; /* ours now */
    }
    if (p && after == MPI_REQUEST_NULL) {
        struct weft_pending *head = e->extra;
        guessed |= id <= head->doubt;
        if (guessed && head->next) head->doubt = head->last->id;
        if (previous) {
            previous->next = p->next;
            if (head->last == p) head->last = previous;
            if (head->cursor == p) head->stamp = 0;
        } else {
            if (p->next) {
                p->next->last = p->last;
                p->next->doubt = p->doubt;
                p->next->stamp = 0;
            }
            e->extra = head = p->next;
        }
        e->id = head ? head->id : 0;
        if (!head) e->state = GONE;
        pending_drop(p);
    } else if (e && !e->extra && e->id == id && after == MPI_REQUEST_NULL) {
        e->state = GONE;
        e->id = 0;
    }
    table_unlock(t);
    if (UNLIKELY(arrived)) weft_hash_received_message(parts, id, ended.status);
    if (UNLIKELY(parts) && after == MPI_REQUEST_NULL) weft_free_request_buffers(parts);
    told.guessed = guessed;
    if (LIKELY(!more)) return told;
    if (done.made) comm_kept(&done);
    if (done.awaited && ended.ok && !guessed && ended.status) weft_record_received_message(&done.call, ended.status);
    if (done.bytes && !done.seen && weft_has_buffer_changed(&done)) told.changed = done.buffer;
    if (guessed) told.changed = NULL;
    if (after == MPI_REQUEST_NULL) free(done.blocks);
    return told;
}

/* ---- texts ---- */
/* Writes those fields of a status that have a meaning. */
WEFT_GIVEN void weft_write_status(struct weft_text *t, const MPI_Status *status, enum weft_status_fields fields) {
    if (fields < WEFT_STATUS_COUNT && !(fields && weft_is_status_cancelled(status))) {
        weft_write_unsigned(t, 0);
        return;
    }
    if (UNLIKELY(t->end - t->p < 50)) {
        t->overflow = true;
        return;
    }
    uint8_t *p = t->p;
    bool counted = fields == WEFT_STATUS_COUNT;
    *p++ = !counted && weft_is_status_cancelled(status) ? 2 : 1;
    p = weft_put_z(p, counted ? WEFT_RANK_ANY_SOURCE : weft_encode_rank(status->MPI_SOURCE));
    p = weft_put_z(p, counted ? WEFT_TAG_ANY : weft_encode_tag(status->MPI_TAG));
    p = weft_put_u(p, weft_read_status_bytes(status));
    *p++ = 0;
    t->p = p;
}
