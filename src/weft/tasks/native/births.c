// Who made each asyncio task, and where: taken down when asyncio registers the task, by C, so that nobody notices. And
// where they all stand (`walk`): a hundred thousand tasks are read while somebody waits for the answer.
//
// asyncio's C code calls `add` of its weak set of all tasks (3.11 to 3.13); births.py puts ours there, which does the
// same and notes a birth. 3.14 keeps its tasks in lists of its own: there the type's initializer is replaced by ours,
// which calls it and notes a birth. The interpreter's lock is held in all of it.
#include "births.h"

void (*weft_born)(object *task, birth *born);

typedef struct {
    object *task;  // its address; `ref` (owned) says whether it is still that task
    object *ref;
    birth *born;
} entry;

typedef struct {
    object *data, *iterating, *removed; // of the weak set (None from 3.14 on): its set, who iterates, its own callback
    object *current; // tasks by loop; from 3.14 on what tells a loop's
    object *running, *get_loop; // the loop of this thread; Task.get_loop
    object *is_library, *on_create;
    object *task, *future; // asyncio's classes
    object *ends, *behind; // types with nothing inside them; what else an awaitable wraps
    object *shields; // whether callbacks of a future are those of a shield
} names;

enum { DEEP = 500, SMALL = 1024, SEEN = 256 }; // DEEP: ancestors that are remembered at most
static names py;
static object *forget_function;
static int is_callback_enabled;
static uint64_t ids = UINT64_MAX; // the first birth is the one that shows whether this works: number 0
static entry *table;
static uint64_t room, used;
static struct {
    object *code;
    int library;
} known_code[SEEN];
static struct {
    object *loop;
    pthread_t thread;
} checked_loop; // this thread runs that loop: it was asked

// Drop a reference to a birth (the record of a task's creation) and free it with the last one; its parent's reference
// is dropped then, too.
static void release_birth(birth *born) {
    while (born != NULL && --born->owners == 0) {
        birth *parent = born->parent;
        if (born->code != NULL) Py_DecRef(born->code);
        free(born);
        born = parent;
    }
}

static uint32_t roots; // births without a parent

int (*weft_initialize)(initializer own, object *task, object *arguments, object *keywords);
static initializer original_initializer; // asyncio's own, where ours has taken its place

// Create the birth record of a new task: made by the task `parent` at instruction `lasti` of `code`. NULL without
// memory.
static birth *make_birth(birth *parent, object *code, int lasti) {
    birth *created = malloc(sizeof *created);
    if (created == NULL) return NULL;
    if (parent != NULL &&
        parent->depth >= DEEP) { // a task that makes its own successor, for ever, would fill the memory
        birth *without_ancestors = malloc(sizeof *without_ancestors);
        if (without_ancestors != NULL) *without_ancestors = (birth){.id = parent->id, .children = parent->children++};
        parent = without_ancestors;
    }
    if (parent != NULL) parent->owners++;
    *created = (birth){.parent = parent, .code = code, .id = ++ids, .lasti = lasti, .owners = 1};
    if (parent != NULL) created->depth = parent->depth + 1;
    created->nth = parent != NULL ? ++parent->children : ids == 0 ? 0 : ++roots; // 0: the one that tries how this works
    return created;
}

// Return the hash table entry of a task, or the free entry for it.
static entry *find_slot(entry *entries, uint64_t size, const object *task) {
    uint64_t index = ((uintptr_t)task >> 4) * 0x9E3779B97F4A7C15u >> 20 & (size - 1);
    while (entries[index].task != NULL && entries[index].task != task) index = (index + 1) & (size - 1);
    return &entries[index];
}

// Rebuild the hash table without dead tasks, with enough room. Return 0 without memory.
static int rebuild_table(void) {
    uint64_t alive_count = 0;
    for (uint64_t i = 0; i < room; i++)
        alive_count += table[i].task != NULL && PyWeakref_GetObject(table[i].ref) != _Py_NoneStruct;
    uint64_t size = SMALL;
    while (size < 4 * alive_count) size *= 2;
    entry *new_table = calloc(size, sizeof *new_table), *old_table = table;
    if (new_table == NULL) return 0;
    uint64_t old_room = room;
    table = new_table, room = size, used = alive_count;
    for (uint64_t i = 0; i < old_room; i++) {
        if (old_table[i].task == NULL) continue;
        if (PyWeakref_GetObject(old_table[i].ref) != _Py_NoneStruct) {
            *find_slot(new_table, size, old_table[i].task) = old_table[i];
        } else {
            Py_DecRef(old_table[i].ref);
            release_birth(old_table[i].born);
        }
    }
    free(old_table);
    return 1;
}

// Return the recorded birth of a task (how it was created); NULL if there is none.
static birth *find_birth(const object *task) {
    if (table == NULL) return NULL;
    entry *found = find_slot(table, room, task);
    return found->task != NULL && PyWeakref_GetObject(found->ref) == task ? found->born : NULL;
}

// Store the birth record of a task and return it; NULL without memory. Takes over `ref`, a weak reference to the task,
// and `born`.
static birth *store_birth(object *task, object *ref, birth *born) {
    if (born == NULL || (4 * used >= 3 * room && !rebuild_table())) {
        Py_DecRef(ref);
        release_birth(born);
        return NULL;
    }
    entry *slot = find_slot(table, room, task);
    if (slot->task != NULL) { // another one lay at this address
        Py_DecRef(slot->ref);
        release_birth(slot->born);
    } else {
        used++;
    }
    *slot = (entry){task, ref, born};
    return born;
}

// Return the birth record of a task; a task whose creation was not seen gets one without a parent. NULL without memory.
birth *weft_birth_of(object *task) {
    birth *known = find_birth(task);
    if (known != NULL) return known;
    object *ref = PyWeakref_NewRef(task, NULL);
    if (ref == NULL) {
        PyErr_Clear();
        return NULL;
    }
    return store_birth(task, ref, make_birth(NULL, NULL, -1));
}

// Return whether code belongs to asyncio itself, as the Python side decides; recent answers are cached.
static int is_library_code(object *code) {
    unsigned slot = (uintptr_t)code >> 5 & (SEEN - 1);
    if (known_code[slot].code != code) {
        object *answer = PyObject_CallOneArg(py.is_library, code);
        if (answer == NULL) {
            PyErr_Clear();
            return 0;
        }
        Py_IncRef(code);
        object *gone = known_code[slot].code;
        known_code[slot].code = code;
        known_code[slot].library = PyObject_IsTrue(answer);
        Py_DecRef(answer);
        if (gone != NULL) Py_DecRef(gone);
    }
    return known_code[slot].library;
}

// Return the innermost code on the Python stack that is not asyncio's own (a new reference), and its instruction; NULL
// if there is none.
static object *find_creating_code(int *lasti) {
    object *frame = PyEval_GetFrame(), *code = NULL;
    if (frame != NULL) Py_IncRef(frame);
    while (frame != NULL) {
        code = PyFrame_GetCode(frame);
        *lasti = PyFrame_GetLasti(frame);
        int is_library = is_library_code(code);
        object *caller = is_library ? PyFrame_GetBack(frame) : NULL;
        Py_DecRef(frame);
        if (!is_library) return code;
        Py_DecRef(code);
        frame = caller;
    }
    *lasti = -1;
    return NULL;
}

// From Python 3.14 on: return the task that runs in this thread (borrowed); NULL if there is none.
static object *ask_current_task(void) {
    object *loop = PyObject_CallNoArgs(py.running), *found = NULL;
    if (loop != NULL && loop != _Py_NoneStruct) found = PyObject_CallOneArg(py.current, loop);
    if (loop != NULL) Py_DecRef(loop);
    if (found != NULL) Py_DecRef(found);
    PyErr_Clear();
    return found == _Py_NoneStruct ? NULL : found;
}

// Return the task that runs in this thread and so creates `task` (borrowed); NULL if none runs.
static object *find_parent_task(object *task) {
    if (original_initializer != NULL) return ask_current_task();
    if (PyDict_Size(py.current) == 0) return NULL;
    object *loop = PyObject_CallOneArg(py.get_loop, task);
    if (loop == NULL || checked_loop.loop != loop || !pthread_equal(checked_loop.thread, pthread_self())) {
        if (loop != NULL) Py_DecRef(loop);
        loop = PyObject_CallNoArgs(py.running);
        if (loop == NULL || loop == _Py_NoneStruct) goto out;
        checked_loop.loop = loop; // only ever compared
        checked_loop.thread = pthread_self();
    }
    Py_DecRef(loop); // it runs: it lives
    object *found = PyDict_GetItemWithError(py.current, loop);
    if (PyErr_Occurred()) PyErr_Clear();
    return found == _Py_NoneStruct ? NULL : found;
out:
    if (loop != NULL) Py_DecRef(loop);
    PyErr_Clear();
    return NULL;
}

// Record how a new task was created, and call the debugger's callback if it is enabled. `ref`: a weak reference to the
// task.
static void record_birth(object *task, object *ref) {
    object *parent = find_parent_task(task);
    birth *parent_birth = parent != NULL && parent != task ? weft_birth_of(parent) : NULL;
    int lasti;
    object *code = find_creating_code(&lasti);
    birth *early = find_birth(task), *born = early != NULL ? NULL : make_birth(parent_birth, code, lasti);
    if (early != NULL && early->code == NULL && early->parent == NULL) { // it began before, and made tasks of its own
        early->parent = parent_birth;
        early->code = code;
        early->lasti = lasti;
        if (parent_birth != NULL) early->nth = ++parent_birth->children, parent_birth->owners++;
    } else if (born == NULL && code != NULL) {
        Py_DecRef(code);
    }
    if (born != NULL) {
        Py_IncRef(ref);
        born = store_birth(task, ref, born);
    }
    if (weft_born != NULL && (born != NULL || early != NULL)) weft_born(task, born != NULL ? born : early);
    if (is_callback_enabled) {
        object *answer =
            PyObject_CallFunctionObjArgs(py.on_create, task, parent != NULL ? parent : _Py_NoneStruct, NULL);
        if (answer != NULL) Py_DecRef(answer);
        else PyErr_Clear();
    }
}

// Replace WeakSet.add of asyncio's set of tasks: do the same and record the task's birth.
static object *add_task(object *self, object *task) {
    (void)self;
    object *weak_reference = PyWeakref_NewRef(task, forget_function);
    if (weak_reference == NULL) return NULL;
    if (PySet_Add(py.data, weak_reference) < 0) {
        Py_DecRef(weak_reference);
        return NULL;
    }
    record_birth(task, weak_reference);
    Py_DecRef(weak_reference);
    Py_IncRef(_Py_NoneStruct);
    return _Py_NoneStruct;
}

// Replace the weak set's callback for a dead task: remove it from the set.
static object *forget_task(object *self, object *ref) {
    (void)self;
    if (PySet_Size(py.iterating) > 0) return PyObject_CallOneArg(py.removed, ref);
    if (PySet_Discard(py.data, ref) < 0) return NULL;
    Py_IncRef(_Py_NoneStruct);
    return _Py_NoneStruct;
}

// Replace the task type's initializer: call the original one, then record the task's birth.
static int initialize_task(object *task, object *arguments, object *keywords) {
    int failed = weft_initialize != NULL ? weft_initialize(original_initializer, task, arguments, keywords)
                                         : original_initializer(task, arguments, keywords);
    object *weak_reference = failed == 0 ? PyWeakref_NewRef(task, NULL) : NULL;
    if (weak_reference != NULL) {
        record_birth(task, weak_reference);
        Py_DecRef(weak_reference);
    } else if (failed == 0) {
        PyErr_Clear();
    }
    return failed;
}

// Where the type has its initializer, and where `Task.__init__` has it, which subclasses call. Public layouts of Python
// (PyTypeObject, PyWrapperDescrObject); whether they are as ours says what is found there.
enum { TP_INIT = 60, TYPE_INIT = 296 / sizeof(void *), WRAPPED = 48 / sizeof(void *) };

// Replace the initializer in the task type and in its `__init__` wrapper, which subclasses call.
static void replace_initializer(initializer old_initializer, initializer new_initializer) {
    initializer *const of_type = (initializer *)(void *)py.task + TYPE_INIT;
    if (*of_type == old_initializer) *of_type = new_initializer;
    object *name = PyUnicode_InternFromString("__init__");
    object *wrapper = name != NULL ? PyObject_GetAttr(py.task, name) : NULL;
    object *type = wrapper != NULL ? PyObject_Type(wrapper) : NULL;
    if (type == PyWrapperDescr_Type) {
        initializer *const wrapped = (initializer *)(void *)wrapper + WRAPPED;
        if (*wrapped == old_initializer) *wrapped = new_initializer;
    }
    if (type != NULL) Py_DecRef(type);
    if (wrapper != NULL) Py_DecRef(wrapper);
    if (name != NULL) Py_DecRef(name);
    PyErr_Clear();
}

// Install Weft's initializer in place of asyncio's. Return 0 if the type's layout is not the expected one.
static int hook_initializers(void) {
    initializer original = (initializer)PyType_GetSlot(py.task, TP_INIT);
    if (original == NULL || ((initializer *)(void *)py.task)[TYPE_INIT] != original) return 0;
    original_initializer = original;
    replace_initializer(original, initialize_task);
    return 1;
}

// Restore asyncio's own initializer.
__attribute__((visibility("default"))) void weft_births_leave(void) {
    if (original_initializer != NULL) replace_initializer(initialize_task, original_initializer);
}

// Convert a birth record to a Python tuple: number, parent's number or None, creating code, instruction, ordinal among
// the parent's children.
static object *make_birth_tuple(const birth *born) {
    object *code = born->code != NULL ? born->code : _Py_NoneStruct;
    if (born->parent == NULL) return Py_BuildValue("KOOiI", born->id, _Py_NoneStruct, code, born->lasti, born->nth);
    return Py_BuildValue("KKOiI", born->id, born->parent->id, code, born->lasti, born->nth);
}

// Python function: return the birth record of a task as a tuple; zeros if there is none.
static object *read_birth(object *self, object *task) {
    (void)self;
    birth *born = weft_birth_of(task);
    return born != NULL ? make_birth_tuple(born) : Py_BuildValue("iOOii", 0, _Py_NoneStruct, _Py_NoneStruct, -1, 0);
}

// Python function: return the birth records of a task, its parent, and so on, as a list of tuples.
static object *read_chain(object *self, object *task) {
    (void)self;
    object *list = PyList_New(0);
    for (birth *born = list != NULL ? weft_birth_of(task) : NULL; born != NULL; born = born->parent) {
        object *item = make_birth_tuple(born);
        if (item != NULL) PyList_Append(list, item), Py_DecRef(item);
    }
    return list;
}

// ---- where all tasks stand ----

typedef struct {
    object *code; // owned
    long lasti;
} spot;

// Stretchs of `spots`, each a task's line of calls, outermost first: most tasks stand at one of a few.
typedef struct {
    uint64_t hash;
    long begin, length;
} shape;

typedef struct {
    object *task;
    uint64_t id, parent;
    long made, shape, how;
} line;

enum { READY = 0, NEW = -1, RUNS = -2, PLAIN = -3, ASK = -4 }; // `how`; above 0: the task that it awaits

static struct {
    spot *spots;
    shape *shapes;
    long *index; // by hash: the shape's number + 1
    long used, room, count, size;
} stacks;

static struct {
    object *waiter;
    long how;
} known_futures[SEEN]; // futures; owned: a future's callbacks may be as many as tasks

static struct {
    object *frame[3], *await[3], *running[3], *suspended[3], *coro, *waiter, *done, *callbacks;
} word;

// Create the attribute names that are read from tasks and coroutines. Return 0 without memory.
static int intern_names(void) {
    static const char text[][24] = {"cr_frame",     "gi_frame",     "ag_frame",     "cr_await",
                                    "gi_yieldfrom", "ag_await",     "cr_running",   "gi_running",
                                    "ag_running",   "cr_suspended", "gi_suspended", "ag_suspended"};
    object **const all = &word.frame[0];
    for (int i = 0; i < 12; i++)
        if ((all[i] = PyUnicode_InternFromString(text[i])) == NULL) return 0;
    word.coro = PyUnicode_InternFromString("get_coro");
    word.waiter = PyUnicode_InternFromString("_fut_waiter");
    word.done = PyUnicode_InternFromString("done");
    word.callbacks = PyUnicode_InternFromString("_callbacks");
    return word.coro != NULL && word.waiter != NULL && word.done != NULL && word.callbacks != NULL;
}

// Append an instruction to the list of spots (code, instruction); takes over the reference `code`. Return 0 without
// memory.
static int push_spot(object *code, long lasti) {
    if (stacks.used == stacks.room) {
        long room = stacks.room != 0 ? 2 * stacks.room : SMALL;
        spot *grown = realloc(stacks.spots, (size_t)room * sizeof *grown);
        if (grown == NULL) return 0;
        stacks.spots = grown;
        stacks.room = room;
    }
    stacks.spots[stacks.used++] = (spot){code, lasti};
    return 1;
}

static void forget_spots(long from) {
    while (stacks.used > from) Py_DecRef(stacks.spots[--stacks.used].code);
}

// Double the hash index of call stack shapes. Return 0 without memory.
static int grow_index(void) {
    long size = stacks.size != 0 ? 2 * stacks.size : SMALL;
    shape *shapes = realloc(stacks.shapes, (size_t)size / 2 * sizeof *shapes);
    if (shapes != NULL) stacks.shapes = shapes;
    long *index = shapes != NULL ? calloc((size_t)size, sizeof *index) : NULL;
    if (index == NULL) return 0;
    for (long i = 0; i < stacks.count; i++) {
        long slot = (long)(stacks.shapes[i].hash & (uint64_t)(size - 1));
        while (index[slot] != 0) slot = (slot + 1) & (size - 1);
        index[slot] = i + 1;
    }
    free(stacks.index);
    stacks.index = index;
    stacks.size = size;
    return 1;
}

// Return the number of the shape (a distinct call stack) that the spots from `begin` on form; if it is known already,
// the spots are removed. -1 without memory.
static long intern_spots(long begin) {
    long length = stacks.used - begin;
    uint64_t hash = (uint64_t)length;
    for (long i = begin; i < stacks.used; i++)
        hash = (hash ^ (uintptr_t)stacks.spots[i].code ^ (uint64_t)stacks.spots[i].lasti << 48) * 0x9E3779B97F4A7C15u ^
               hash >> 29;
    if (2 * (stacks.count + 1) >= stacks.size && !grow_index()) return -1;
    long slot = (long)(hash & (uint64_t)(stacks.size - 1));
    for (; stacks.index[slot] != 0; slot = (slot + 1) & (stacks.size - 1)) {
        const shape *known = &stacks.shapes[stacks.index[slot] - 1];
        if (known->hash != hash || known->length != length) continue;
        long equal_count = 0;
        while (equal_count < length &&
               stacks.spots[known->begin + equal_count].code == stacks.spots[begin + equal_count].code &&
               stacks.spots[known->begin + equal_count].lasti == stacks.spots[begin + equal_count].lasti)
            equal_count++;
        if (equal_count < length) continue;
        forget_spots(begin);
        return stacks.index[slot] - 1;
    }
    stacks.shapes[stacks.count] = (shape){hash, begin, length};
    return (stacks.index[slot] = ++stacks.count) - 1;
}

// Return 0 for a coroutine, 1 for a generator, 2 for an asynchronous generator, -1 for anything else.
static int find_coroutine_kind(object *value) {
    object *type = PyObject_Type(value);
    int kind = type == PyCoro_Type ? 0 : type == PyGen_Type ? 1 : type == PyAsyncGen_Type ? 2 : -1;
    if (type != NULL) Py_DecRef(type);
    return kind;
}

// Return an attribute of an object (a new reference); NULL if there is none or it is None.
static object *get_attribute(object *value, object *name) {
    object *attribute = PyObject_GetAttr(value, name);
    if (attribute == NULL) PyErr_Clear();
    if (attribute != _Py_NoneStruct) return attribute;
    Py_DecRef(attribute);
    return NULL;
}

// Return whether an attribute of an object is True.
static int is_attribute_true(object *value, object *name) {
    object *attribute = get_attribute(value, name);
    if (attribute != NULL) Py_DecRef(attribute);
    return attribute == _Py_TrueStruct;
}

// Return the object that an awaitable other than a coroutine wraps (a new reference); NULL if it wraps nothing.
static object *unwrap_awaitable(object *awaitable) {
    object *type = PyObject_Type(awaitable);
    int is_end = type == NULL || PySet_Contains(py.ends, type) != 0;
    if (type != NULL) Py_DecRef(type);
    object *wrapped = is_end ? NULL : PyObject_CallOneArg(py.behind, awaitable);
    if (wrapped == NULL) PyErr_Clear();
    if (wrapped != _Py_NoneStruct) return wrapped;
    Py_DecRef(wrapped);
    return NULL;
}

// Append the frames of a coroutine, and of everything that it awaits, to the spots. Return 0 without memory.
static int push_frames(object *coro) {
    object *last = NULL, *awaited = coro;
    int is_good = 1;
    Py_IncRef(awaited);
    while (awaited != NULL && is_good) {
        int kind = find_coroutine_kind(awaited);
        object *frame = kind < 0 ? NULL : get_attribute(awaited, word.frame[kind]);
        object *next = kind < 0 ? unwrap_awaitable(awaited) : get_attribute(awaited, word.await[kind]);
        if (frame != NULL && frame == last) { // an asynchronous generator, met again in what sends to it
            Py_DecRef(frame);
            if (next != NULL) Py_DecRef(next);
            break;
        }
        if (frame != NULL) {
            object *code = PyFrame_GetCode(frame);
            if (!(is_good = push_spot(code, PyFrame_GetLasti(frame)))) Py_DecRef(code);
            if (last != NULL) Py_DecRef(last);
            last = frame;
        }
        Py_DecRef(awaited);
        awaited = next;
    }
    if (awaited != NULL) Py_DecRef(awaited);
    if (last != NULL) Py_DecRef(last);
    return is_good;
}

// Return how a task waits for a plain asyncio future: PLAIN, or ASK if one of its callbacks may belong to
// asyncio.shield().
static long find_future_wait(object *waiter) {
    unsigned slot = (uintptr_t)waiter >> 5 & (SEEN - 1);
    if (known_futures[slot].waiter == waiter) return known_futures[slot].how;
    object *callbacks = get_attribute(waiter, word.callbacks);
    long activity = PLAIN;
    if (callbacks != NULL && PyList_Size(callbacks) > 1) { // else there is the task's own: nothing is shielded
        object *answer = PyObject_CallOneArg(py.shields, callbacks);
        if (answer != NULL) Py_DecRef(answer);
        if (answer == NULL || answer == _Py_TrueStruct) activity = ASK;
    }
    if (callbacks != NULL) Py_DecRef(callbacks);
    if (known_futures[slot].waiter != NULL) Py_DecRef(known_futures[slot].waiter);
    Py_IncRef(waiter);
    known_futures[slot].waiter = waiter;
    return known_futures[slot].how = activity;
}

// Return what a task is doing: READY, NEW, RUNS, PLAIN, ASK, or the number of the task that it awaits, as far as that
// shows without its variables (see TaskWalk.how in task_table.py).
static long find_task_activity(object *task, object *coro, long spot_count) {
    int kind = find_coroutine_kind(coro);
    if (kind >= 0 && is_attribute_true(coro, word.running[kind])) return RUNS;
    if (kind >= 0 && !is_attribute_true(coro, word.suspended[kind])) return spot_count != 0 ? NEW : READY;
    object *waiter = get_attribute(task, word.waiter);
    if (waiter == NULL) return READY;
    long activity = ASK;
    object *done = PyObject_CallMethodObjArgs(waiter, word.done, NULL), *type = PyObject_Type(waiter);
    if (done == NULL) PyErr_Clear();
    if (done == _Py_TrueStruct) {
        activity = READY;
    } else if (type == py.task || PyObject_IsInstance(waiter, py.task) == 1) {
        const birth *born = weft_birth_of(waiter);
        if (born != NULL) activity = (long)born->id;
    } else if (type == py.future) {
        activity = find_future_wait(waiter);
    }
    PyErr_Clear();
    if (done != NULL) Py_DecRef(done);
    if (type != NULL) Py_DecRef(type);
    Py_DecRef(waiter);
    return activity;
}

// Read a task into a row: its birth, its call stack and its activity. Return 0 without memory.
static int read_task(object *task, line *row) {
    const birth *born = weft_birth_of(task);
    *row = (line){.task = task, .id = born != NULL ? born->id : 0, .made = -1, .how = ASK};
    long begin = stacks.used;
    if (born != NULL && born->parent != NULL) row->parent = born->parent->id;
    if (born != NULL && born->code != NULL) {
        Py_IncRef(born->code);
        if (!push_spot(born->code, born->lasti)) return Py_DecRef(born->code), 0;
        if ((row->made = intern_spots(begin)) < 0) return 0;
    }
    object *coro = PyObject_CallMethodObjArgs(task, word.coro, NULL);
    if (coro == NULL) PyErr_Clear();
    begin = stacks.used;
    int is_good = coro == NULL || push_frames(coro);
    long spot_count = stacks.used - begin;
    if (is_good && (row->shape = intern_spots(begin)) < 0) is_good = 0;
    if (is_good && coro != NULL) row->how = find_task_activity(task, coro, spot_count);
    if (coro != NULL) Py_DecRef(coro);
    return is_good;
}

// Compare two rows by the task's number, for qsort().
static int compare_ids(const void *one, const void *other) {
    uint64_t one_id = ((const line *)one)->id, other_id = ((const line *)other)->id;
    return one_id < other_id ? -1 : one_id > other_id;
}

// Return a Python list of all shapes (distinct call stacks), each a tuple of (code, instruction).
static object *make_spot_list(void) {
    object *list = PyList_New(stacks.count);
    for (long i = 0; list != NULL && i < stacks.count; i++) {
        object *spots = PyTuple_New(stacks.shapes[i].length);
        for (long index = 0; spots != NULL && index < stacks.shapes[i].length; index++) {
            const spot *spot = &stacks.spots[stacks.shapes[i].begin + index];
            PyTuple_SetItem(spots, index, Py_BuildValue("(Ol)", spot->code, spot->lasti));
        }
        PyList_SetItem(list, i, spots);
    }
    return list;
}

// Return the Python tuple (tasks, ids, parents, made, shapes, how, stacks): the rows as one list for each column, in
// the order of creation, and all call stacks.
static object *make_columns(const line *lines, long count) {
    object *list[6];
    for (int column = 0; column < 6; column++)
        if ((list[column] = PyList_New(count)) == NULL) return NULL;
    for (long i = 0; i < count; i++) {
        const line *row = &lines[i];
        Py_IncRef(row->task);
        PyList_SetItem(list[0], i, row->task);
        const long long numbers[] = {(long long)row->id, (long long)row->parent, row->made, row->shape, row->how};
        for (int column = 1; column < 6; column++)
            PyList_SetItem(list[column], i, PyLong_FromLongLong(numbers[column - 1]));
    }
    return Py_BuildValue("(NNNNNNN)", list[0], list[1], list[2], list[3], list[4], list[5], make_spot_list());
}

// Python function: read all tasks of a list and return their state by columns (see make_columns()).
static object *walk_tasks(object *self, object *tasks) {
    (void)self;
    long count = PyList_Size(tasks);
    if (count < 0) return NULL;
    line *lines = malloc((size_t)(count + 1) * sizeof *lines);
    int is_good = lines != NULL && (word.callbacks != NULL || intern_names());
    for (long i = 0; i < count && is_good; i++) is_good = read_task(PyList_GetItem(tasks, i), &lines[i]);
    if (is_good) qsort(lines, (size_t)count, sizeof *lines, compare_ids);
    object *answer = is_good ? make_columns(lines, count) : PyErr_NoMemory();
    for (int i = 0; i < SEEN; i++) {
        if (known_futures[i].waiter != NULL) Py_DecRef(known_futures[i].waiter);
        known_futures[i].waiter = NULL;
    }
    forget_spots(0);
    free(stacks.spots), free(stacks.shapes), free(stacks.index), free(lines);
    stacks.spots = NULL, stacks.shapes = NULL, stacks.index = NULL;
    stacks.used = stacks.room = stacks.count = stacks.size = 0;
    return answer;
}

// Python function: switch the debugger's callback for new tasks on or off.
static object *enable_callback(object *self, object *is_on) {
    (void)self;
    is_callback_enabled = PyObject_IsTrue(is_on);
    Py_IncRef(_Py_NoneStruct);
    return _Py_NoneStruct;
}

// Python function: return a number for a thread or a job of a pool, which share their numbering with tasks.
static object *next_number(object *self, object *unused) {
    (void)self, (void)unused;
    return PyLong_FromUnsignedLongLong(++ids);
}

static method methods[] = {{"add", add_task, ONE_ARGUMENT, NULL},          {"gone", forget_task, ONE_ARGUMENT, NULL},
                           {"birth", read_birth, ONE_ARGUMENT, NULL},      {"chain", read_chain, ONE_ARGUMENT, NULL},
                           {"watch", enable_callback, ONE_ARGUMENT, NULL}, {"walk", walk_tasks, ONE_ARGUMENT, NULL},
                           {"number", next_number, ONE_ARGUMENT, NULL}};
enum { METHODS = sizeof methods / sizeof *methods };

// Set up the recording of task births and return its Python functions (add, birth, chain, watch, walk, number); None if
// asyncio's task type has an unknown layout. `given`: the objects of `names`. All are kept until the process ends,
// because Python calls `gone` even while it shuts down.
__attribute__((visibility("default"))) object *weft_begin_births(object **given) {
    object *functions[METHODS];
    for (size_t i = 0; i < sizeof(names) / sizeof(object *); i++) Py_IncRef(given[i]);
    py = (names){given[0], given[1], given[2], given[3],  given[4],  given[5], given[6],
                 given[7], given[8], given[9], given[10], given[11], given[12]};
    for (int i = 0; i < METHODS; i++)
        if ((functions[i] = PyCFunction_NewEx(&methods[i], NULL, NULL)) == NULL) return NULL;
    if (!rebuild_table()) return NULL;
    if (py.data == _Py_NoneStruct && !hook_initializers()) {
        Py_IncRef(_Py_NoneStruct);
        return _Py_NoneStruct;
    }
    forget_function = functions[1];
    return Py_BuildValue("(NNNNNN)", functions[0], functions[2], functions[3], functions[4], functions[5],
                         functions[6]);
}
