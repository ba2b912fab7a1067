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
    object *ends, *behind; // types with nothing behind them; what else an awaitable wraps
    object *shields; // whether callbacks of a future are those of a shield
} names;

enum { DEEP = 500, SMALL = 1024, SEEN = 256 }; // DEEP: ancestors that are remembered at most
static names py;
static object *forget;
static int watched;
static uint64_t ids = UINT64_MAX; // the first birth is the one that shows whether this works: number 0
static entry *table;
static uint64_t room, used;
static struct {
    object *code;
    int library;
} seen[SEEN];
static struct {
    object *loop;
    pthread_t thread;
} sure; // this thread runs that loop: it was asked

// Release a reference to a birth, and free it with the last one.
static void release_birth(birth *b) {
    while (b != NULL && --b->owners == 0) {
        birth *parent = b->parent;
        if (b->code != NULL) Py_DecRef(b->code);
        free(b);
        b = parent;
    }
}

static uint32_t roots; // births without a parent

int (*weft_initialize)(initializer own, object *task, object *arguments, object *keywords);
static initializer initialize; // asyncio's own, where ours has taken its place

// Return the birth of a new task; NULL if there is no memory.
static birth *make_birth(birth *parent, object *code, int lasti) {
    birth *b = malloc(sizeof *b);
    if (b == NULL) return NULL;
    if (parent != NULL &&
        parent->depth >= DEEP) { // a task that makes its own successor, for ever, would fill the memory
        birth *cut = malloc(sizeof *cut);
        if (cut != NULL) *cut = (birth){.id = parent->id, .children = parent->children++};
        parent = cut;
    }
    if (parent != NULL) parent->owners++;
    *b = (birth){.parent = parent, .code = code, .id = ++ids, .lasti = lasti, .owners = 1};
    if (parent != NULL) b->depth = parent->depth + 1;
    b->nth = parent != NULL ? ++parent->children : ids == 0 ? 0 : ++roots; // 0: the one that tries how this works
    return b;
}

// Return the entry of a task in a table, or a free one.
static entry *find_slot(entry *in, uint64_t size, const object *task) {
    uint64_t at = ((uintptr_t)task >> 4) * 0x9E3779B97F4A7C15u >> 20 & (size - 1);
    while (in[at].task != NULL && in[at].task != task) at = (at + 1) & (size - 1);
    return &in[at];
}

// Remove dead tasks from the table, and make room. 0 if there is no memory.
static int sweep_table(void) {
    uint64_t alive = 0;
    for (uint64_t i = 0; i < room; i++)
        alive += table[i].task != NULL && PyWeakref_GetObject(table[i].ref) != _Py_NoneStruct;
    uint64_t size = SMALL;
    while (size < 4 * alive) size *= 2;
    entry *fresh = calloc(size, sizeof *fresh), *old = table;
    if (fresh == NULL) return 0;
    uint64_t before = room;
    table = fresh, room = size, used = alive;
    for (uint64_t i = 0; i < before; i++) {
        if (old[i].task == NULL) continue;
        if (PyWeakref_GetObject(old[i].ref) != _Py_NoneStruct) {
            *find_slot(fresh, size, old[i].task) = old[i];
        } else {
            Py_DecRef(old[i].ref);
            release_birth(old[i].born);
        }
    }
    free(old);
    return 1;
}

// Return the recorded birth of a task; NULL if there is none.
static birth *find_birth(const object *task) {
    if (table == NULL) return NULL;
    entry *e = find_slot(table, room, task);
    return e->task != NULL && PyWeakref_GetObject(e->ref) == task ? e->born : NULL;
}

// Store a birth for a task; takes over `ref`.
static birth *store_birth(object *task, object *ref, birth *b) {
    if (b == NULL || (4 * used >= 3 * room && !sweep_table())) {
        Py_DecRef(ref);
        release_birth(b);
        return NULL;
    }
    entry *e = find_slot(table, room, task);
    if (e->task != NULL) { // another one lay at this address
        Py_DecRef(e->ref);
        release_birth(e->born);
    } else {
        used++;
    }
    *e = (entry){task, ref, b};
    return b;
}

birth *weft_birth_of(object *task) {
    birth *b = find_birth(task);
    if (b != NULL) return b;
    object *ref = PyWeakref_NewRef(task, NULL);
    if (ref == NULL) {
        PyErr_Clear();
        return NULL;
    }
    return store_birth(task, ref, make_birth(NULL, NULL, -1));
}

static int is_library(object *code) {
    unsigned at = (uintptr_t)code >> 5 & (SEEN - 1);
    if (seen[at].code != code) {
        object *told = PyObject_CallOneArg(py.is_library, code);
        if (told == NULL) {
            PyErr_Clear();
            return 0;
        }
        Py_IncRef(code);
        object *gone = seen[at].code;
        seen[at].code = code;
        seen[at].library = PyObject_IsTrue(told);
        Py_DecRef(told);
        if (gone != NULL) Py_DecRef(gone);
    }
    return seen[at].library;
}

// Return the innermost code that is not asyncio's own, and its instruction; owned.
static object *find_creating_code(int *lasti) {
    object *frame = PyEval_GetFrame(), *code = NULL;
    if (frame != NULL) Py_IncRef(frame);
    while (frame != NULL) {
        code = PyFrame_GetCode(frame);
        *lasti = PyFrame_GetLasti(frame);
        int library = is_library(code);
        object *back = library ? PyFrame_GetBack(frame) : NULL;
        Py_DecRef(frame);
        if (!library) return code;
        Py_DecRef(code);
        frame = back;
    }
    *lasti = -1;
    return NULL;
}

// Return the task that runs in this thread, from Python 3.14 on; not owned: the thread has it.
static object *ask_current_task(void) {
    object *loop = PyObject_CallNoArgs(py.running), *found = NULL;
    if (loop != NULL && loop != _Py_NoneStruct) found = PyObject_CallOneArg(py.current, loop);
    if (loop != NULL) Py_DecRef(loop);
    if (found != NULL) Py_DecRef(found);
    PyErr_Clear();
    return found == _Py_NoneStruct ? NULL : found;
}

// Return the task that runs in this thread; not owned.
static object *find_parent_task(object *task) {
    if (initialize != NULL) return ask_current_task();
    if (PyDict_Size(py.current) == 0) return NULL;
    object *loop = PyObject_CallOneArg(py.get_loop, task);
    if (loop == NULL || sure.loop != loop || !pthread_equal(sure.thread, pthread_self())) {
        if (loop != NULL) Py_DecRef(loop);
        loop = PyObject_CallNoArgs(py.running);
        if (loop == NULL || loop == _Py_NoneStruct) goto out;
        sure.loop = loop; // only ever compared
        sure.thread = pthread_self();
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

// Record the birth of a new task, and call the debugger's callback if that is enabled.
static void record_birth(object *task, object *ref) {
    object *parent = find_parent_task(task);
    birth *from = parent != NULL && parent != task ? weft_birth_of(parent) : NULL;
    int lasti;
    object *code = find_creating_code(&lasti);
    birth *early = find_birth(task), *b = early != NULL ? NULL : make_birth(from, code, lasti);
    if (early != NULL && early->code == NULL && early->parent == NULL) { // it began before, and made tasks of its own
        early->parent = from;
        early->code = code;
        early->lasti = lasti;
        if (from != NULL) early->nth = ++from->children, from->owners++;
    } else if (b == NULL && code != NULL) {
        Py_DecRef(code);
    }
    if (b != NULL) {
        Py_IncRef(ref);
        b = store_birth(task, ref, b);
    }
    if (weft_born != NULL && (b != NULL || early != NULL)) weft_born(task, b != NULL ? b : early);
    if (watched) {
        object *answer =
            PyObject_CallFunctionObjArgs(py.on_create, task, parent != NULL ? parent : _Py_NoneStruct, NULL);
        if (answer != NULL) Py_DecRef(answer);
        else PyErr_Clear();
    }
}

// WeakSet.add, with the birth of the task.
static object *add_task(object *self, object *task) {
    (void)self;
    object *ref = PyWeakref_NewRef(task, forget);
    if (ref == NULL) return NULL;
    if (PySet_Add(py.data, ref) < 0) {
        Py_DecRef(ref);
        return NULL;
    }
    record_birth(task, ref);
    Py_DecRef(ref);
    Py_IncRef(_Py_NoneStruct);
    return _Py_NoneStruct;
}

// WeakSet's callback: a task has gone.
static object *forget_task(object *self, object *ref) {
    (void)self;
    if (PySet_Size(py.iterating) > 0) return PyObject_CallOneArg(py.removed, ref);
    if (PySet_Discard(py.data, ref) < 0) return NULL;
    Py_IncRef(_Py_NoneStruct);
    return _Py_NoneStruct;
}

// The type's initializer, with the birth of the task.
static int initialize_task(object *task, object *arguments, object *keywords) {
    int failed = weft_initialize != NULL ? weft_initialize(initialize, task, arguments, keywords)
                                         : initialize(task, arguments, keywords);
    object *ref = failed == 0 ? PyWeakref_NewRef(task, NULL) : NULL;
    if (ref != NULL) {
        record_birth(task, ref);
        Py_DecRef(ref);
    } else if (failed == 0) {
        PyErr_Clear();
    }
    return failed;
}

// Where the type has its initializer, and where `Task.__init__` has it, which subclasses call. Public layouts of Python
// (PyTypeObject, PyWrapperDescrObject); whether they are as ours says what is found there.
enum { TP_INIT = 60, TYPE_INIT = 296 / sizeof(void *), WRAPPED = 48 / sizeof(void *) };

// Replace an initializer of the type and its subclasses by another.
static void replace_initializer(initializer old, initializer fresh) {
    initializer *const of_type = (initializer *)(void *)py.task + TYPE_INIT;
    if (*of_type == old) *of_type = fresh;
    object *word = PyUnicode_InternFromString("__init__");
    object *wrapper = word != NULL ? PyObject_GetAttr(py.task, word) : NULL;
    object *type = wrapper != NULL ? PyObject_Type(wrapper) : NULL;
    if (type == PyWrapperDescr_Type) {
        initializer *const wrapped = (initializer *)(void *)wrapper + WRAPPED;
        if (*wrapped == old) *wrapped = fresh;
    }
    if (type != NULL) Py_DecRef(type);
    if (wrapper != NULL) Py_DecRef(wrapper);
    if (word != NULL) Py_DecRef(word);
    PyErr_Clear();
}

// Put Weft's initializers in the place of asyncio's; 0 if that is impossible.
static int hook_initializers(void) {
    initializer own = (initializer)PyType_GetSlot(py.task, TP_INIT);
    if (own == NULL || ((initializer *)(void *)py.task)[TYPE_INIT] != own) return 0;
    initialize = own;
    replace_initializer(own, initialize_task);
    return 1;
}

// Let asyncio be as it was.
__attribute__((visibility("default"))) void weft_births_leave(void) {
    if (initialize != NULL) replace_initializer(initialize_task, initialize);
}

static object *birth_as_tuple(const birth *b) {
    object *code = b->code != NULL ? b->code : _Py_NoneStruct;
    if (b->parent == NULL) return Py_BuildValue("KOOiI", b->id, _Py_NoneStruct, code, b->lasti, b->nth);
    return Py_BuildValue("KKOiI", b->id, b->parent->id, code, b->lasti, b->nth);
}

// Its number, its parent's, the code that made it and the instruction.
static object *read_birth(object *self, object *task) {
    (void)self;
    birth *b = weft_birth_of(task);
    return b != NULL ? birth_as_tuple(b) : Py_BuildValue("iOOii", 0, _Py_NoneStruct, _Py_NoneStruct, -1, 0);
}

// The same of it, of its parent, and so on.
static object *read_chain(object *self, object *task) {
    (void)self;
    object *list = PyList_New(0);
    for (birth *b = list != NULL ? weft_birth_of(task) : NULL; b != NULL; b = b->parent) {
        object *one = birth_as_tuple(b);
        if (one != NULL) PyList_Append(list, one), Py_DecRef(one);
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
} in;

static struct {
    object *waiter;
    long how;
} met[SEEN]; // futures; owned: a future's callbacks may be as many as tasks

static struct {
    object *frame[3], *await[3], *running[3], *suspended[3], *coro, *waiter, *done, *callbacks;
} word;

// Make the names of the attributes that are read.
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

// Add an instruction to the list of spots; 0 if there is no memory.
static int push_spot(object *code, long lasti) {
    if (in.used == in.room) {
        long room = in.room != 0 ? 2 * in.room : SMALL;
        spot *more = realloc(in.spots, (size_t)room * sizeof *more);
        if (more == NULL) return 0;
        in.spots = more;
        in.room = room;
    }
    in.spots[in.used++] = (spot){code, lasti};
    return 1;
}

static void forget_spots(long from) {
    while (in.used > from) Py_DecRef(in.spots[--in.used].code);
}

static int grow_index(void) {
    long size = in.size != 0 ? 2 * in.size : SMALL;
    shape *shapes = realloc(in.shapes, (size_t)size / 2 * sizeof *shapes);
    if (shapes != NULL) in.shapes = shapes;
    long *index = shapes != NULL ? calloc((size_t)size, sizeof *index) : NULL;
    if (index == NULL) return 0;
    for (long i = 0; i < in.count; i++) {
        long at = (long)(in.shapes[i].hash & (uint64_t)(size - 1));
        while (index[at] != 0) at = (at + 1) & (size - 1);
        index[at] = i + 1;
    }
    free(in.index);
    in.index = index;
    in.size = size;
    return 1;
}

// Return the number of the spots from `begin` on, which are removed if they are known. -1 if there is no memory.
static long intern_spots(long begin) {
    long length = in.used - begin;
    uint64_t hash = (uint64_t)length;
    for (long i = begin; i < in.used; i++)
        hash =
            (hash ^ (uintptr_t)in.spots[i].code ^ (uint64_t)in.spots[i].lasti << 48) * 0x9E3779B97F4A7C15u ^ hash >> 29;
    if (2 * (in.count + 1) >= in.size && !grow_index()) return -1;
    long at = (long)(hash & (uint64_t)(in.size - 1));
    for (; in.index[at] != 0; at = (at + 1) & (in.size - 1)) {
        const shape *s = &in.shapes[in.index[at] - 1];
        if (s->hash != hash || s->length != length) continue;
        long same = 0;
        while (same < length && in.spots[s->begin + same].code == in.spots[begin + same].code &&
               in.spots[s->begin + same].lasti == in.spots[begin + same].lasti)
            same++;
        if (same < length) continue;
        forget_spots(begin);
        return in.index[at] - 1;
    }
    in.shapes[in.count] = (shape){hash, begin, length};
    return (in.index[at] = ++in.count) - 1;
}

// Return whether a thing is a coroutine, generator or asynchronous generator; -1 for anything else.
static int kind_of(object *thing) {
    object *type = PyObject_Type(thing);
    int kind = type == PyCoro_Type ? 0 : type == PyGen_Type ? 1 : type == PyAsyncGen_Type ? 2 : -1;
    if (type != NULL) Py_DecRef(type);
    return kind;
}

static object *get_attribute(object *of, object *name) {
    object *found = PyObject_GetAttr(of, name);
    if (found == NULL) PyErr_Clear();
    if (found != _Py_NoneStruct) return found;
    Py_DecRef(found);
    return NULL;
}

static int is_attribute_true(object *of, object *name) {
    object *found = get_attribute(of, name);
    if (found != NULL) Py_DecRef(found);
    return found == _Py_TrueStruct;
}

// Return what an awaitable wraps that is no coroutine; owned.
static object *unwrap_awaitable(object *thing) {
    object *type = PyObject_Type(thing);
    int end = type == NULL || PySet_Contains(py.ends, type) != 0;
    if (type != NULL) Py_DecRef(type);
    object *found = end ? NULL : PyObject_CallOneArg(py.behind, thing);
    if (found == NULL) PyErr_Clear();
    if (found != _Py_NoneStruct) return found;
    Py_DecRef(found);
    return NULL;
}

// Add the frames of a coroutine, and of what it awaits, to the spots. 0 if there is no memory.
static int push_frames(object *coro) {
    object *last = NULL, *at = coro;
    int good = 1;
    Py_IncRef(at);
    while (at != NULL && good) {
        int kind = kind_of(at);
        object *frame = kind < 0 ? NULL : get_attribute(at, word.frame[kind]);
        object *onward = kind < 0 ? unwrap_awaitable(at) : get_attribute(at, word.await[kind]);
        if (frame != NULL && frame == last) { // an asynchronous generator, met again in what sends to it
            Py_DecRef(frame);
            if (onward != NULL) Py_DecRef(onward);
            break;
        }
        if (frame != NULL) {
            object *code = PyFrame_GetCode(frame);
            if (!(good = push_spot(code, PyFrame_GetLasti(frame)))) Py_DecRef(code);
            if (last != NULL) Py_DecRef(last);
            last = frame;
        }
        Py_DecRef(at);
        at = onward;
    }
    if (at != NULL) Py_DecRef(at);
    if (last != NULL) Py_DecRef(last);
    return good;
}

// Return how a task waits for a future of asyncio's own class.
static long future_activity(object *waiter) {
    unsigned at = (uintptr_t)waiter >> 5 & (SEEN - 1);
    if (met[at].waiter == waiter) return met[at].how;
    object *callbacks = get_attribute(waiter, word.callbacks);
    long how = PLAIN;
    if (callbacks != NULL && PyList_Size(callbacks) > 1) { // else there is the task's own: nothing is shielded
        object *told = PyObject_CallOneArg(py.shields, callbacks);
        if (told != NULL) Py_DecRef(told);
        if (told == NULL || told == _Py_TrueStruct) how = ASK;
    }
    if (callbacks != NULL) Py_DecRef(callbacks);
    if (met[at].waiter != NULL) Py_DecRef(met[at].waiter);
    Py_IncRef(waiter);
    met[at].waiter = waiter;
    return met[at].how = how;
}

// Return what a task does, as far as that can be told without its variables (task_table.py: TaskWalk.how).
static long task_activity(object *task, object *coro, long length) {
    int kind = kind_of(coro);
    if (kind >= 0 && is_attribute_true(coro, word.running[kind])) return RUNS;
    if (kind >= 0 && !is_attribute_true(coro, word.suspended[kind])) return length != 0 ? NEW : READY;
    object *waiter = get_attribute(task, word.waiter);
    if (waiter == NULL) return READY;
    long how = ASK;
    object *done = PyObject_CallMethodObjArgs(waiter, word.done, NULL), *type = PyObject_Type(waiter);
    if (done == NULL) PyErr_Clear();
    if (done == _Py_TrueStruct) {
        how = READY;
    } else if (type == py.task || PyObject_IsInstance(waiter, py.task) == 1) {
        const birth *b = weft_birth_of(waiter);
        if (b != NULL) how = (long)b->id;
    } else if (type == py.future) {
        how = future_activity(waiter);
    }
    PyErr_Clear();
    if (done != NULL) Py_DecRef(done);
    if (type != NULL) Py_DecRef(type);
    Py_DecRef(waiter);
    return how;
}

// Read a task into a line of the table.
static int read_task(object *task, line *to) {
    const birth *b = weft_birth_of(task);
    *to = (line){.task = task, .id = b != NULL ? b->id : 0, .made = -1, .how = ASK};
    long begin = in.used;
    if (b != NULL && b->parent != NULL) to->parent = b->parent->id;
    if (b != NULL && b->code != NULL) {
        Py_IncRef(b->code);
        if (!push_spot(b->code, b->lasti)) return Py_DecRef(b->code), 0;
        if ((to->made = intern_spots(begin)) < 0) return 0;
    }
    object *coro = PyObject_CallMethodObjArgs(task, word.coro, NULL);
    if (coro == NULL) PyErr_Clear();
    begin = in.used;
    int good = coro == NULL || push_frames(coro);
    long length = in.used - begin;
    if (good && (to->shape = intern_spots(begin)) < 0) good = 0;
    if (good && coro != NULL) to->how = task_activity(task, coro, length);
    if (coro != NULL) Py_DecRef(coro);
    return good;
}

static int compare_ids(const void *one, const void *other) {
    uint64_t a = ((const line *)one)->id, b = ((const line *)other)->id;
    return a < b ? -1 : a > b;
}

// Return the list of all call stacks.
static object *make_spot_list(void) {
    object *list = PyList_New(in.count);
    for (long i = 0; list != NULL && i < in.count; i++) {
        object *spots = PyTuple_New(in.shapes[i].length);
        for (long k = 0; spots != NULL && k < in.shapes[i].length; k++) {
            const spot *at = &in.spots[in.shapes[i].begin + k];
            PyTuple_SetItem(spots, k, Py_BuildValue("(Ol)", at->code, at->lasti));
        }
        PyList_SetItem(list, i, spots);
    }
    return list;
}

// Return (tasks, ids, parents, made, shapes, how), one list a column in the order of creation, and the call stacks.
static object *make_columns(const line *lines, long n) {
    object *list[6];
    for (int c = 0; c < 6; c++)
        if ((list[c] = PyList_New(n)) == NULL) return NULL;
    for (long i = 0; i < n; i++) {
        const line *l = &lines[i];
        Py_IncRef(l->task);
        PyList_SetItem(list[0], i, l->task);
        const long long told[] = {(long long)l->id, (long long)l->parent, l->made, l->shape, l->how};
        for (int c = 1; c < 6; c++) PyList_SetItem(list[c], i, PyLong_FromLongLong(told[c - 1]));
    }
    return Py_BuildValue("(NNNNNNN)", list[0], list[1], list[2], list[3], list[4], list[5], make_spot_list());
}

// Read all tasks of a list, which keeps them alive meanwhile.
static object *walk_tasks(object *self, object *tasks) {
    (void)self;
    long n = PyList_Size(tasks);
    if (n < 0) return NULL;
    line *lines = malloc((size_t)(n + 1) * sizeof *lines);
    int good = lines != NULL && (word.callbacks != NULL || intern_names());
    for (long i = 0; i < n && good; i++) good = read_task(PyList_GetItem(tasks, i), &lines[i]);
    if (good) qsort(lines, (size_t)n, sizeof *lines, compare_ids);
    object *answer = good ? make_columns(lines, n) : PyErr_NoMemory();
    for (int i = 0; i < SEEN; i++) {
        if (met[i].waiter != NULL) Py_DecRef(met[i].waiter);
        met[i].waiter = NULL;
    }
    forget_spots(0);
    free(in.spots), free(in.shapes), free(in.index), free(lines);
    in.spots = NULL, in.shapes = NULL, in.index = NULL;
    in.used = in.room = in.count = in.size = 0;
    return answer;
}

// Enable or disable the callback for new tasks.
static object *enable_callback(object *self, object *on) {
    (void)self;
    watched = PyObject_IsTrue(on);
    Py_IncRef(_Py_NoneStruct);
    return _Py_NoneStruct;
}

// Return a number for a thread or a work: they share one table with the tasks.
static object *next_number(object *self, object *unused) {
    (void)self, (void)unused;
    return PyLong_FromUnsignedLongLong(++ids);
}

static method methods[] = {{"add", add_task, ONE_ARGUMENT, NULL},          {"gone", forget_task, ONE_ARGUMENT, NULL},
                           {"birth", read_birth, ONE_ARGUMENT, NULL},      {"chain", read_chain, ONE_ARGUMENT, NULL},
                           {"watch", enable_callback, ONE_ARGUMENT, NULL}, {"walk", walk_tasks, ONE_ARGUMENT, NULL},
                           {"number", next_number, ONE_ARGUMENT, NULL}};
enum { METHODS = sizeof methods / sizeof *methods };

// (add, birth, chain, watch, walk, number) as functions of Python. `given`: the objects of `names`. They are kept for
// as long as the process lives: Python calls `gone` while it takes itself apart at its end, when all else has let go of
// them. None where asyncio's type is not as we know it.
__attribute__((visibility("default"))) object *weft_births(object **given) {
    object *made_of[METHODS];
    for (size_t i = 0; i < sizeof(names) / sizeof(object *); i++) Py_IncRef(given[i]);
    py = (names){given[0], given[1], given[2], given[3],  given[4],  given[5], given[6],
                 given[7], given[8], given[9], given[10], given[11], given[12]};
    for (int i = 0; i < METHODS; i++)
        if ((made_of[i] = PyCFunction_NewEx(&methods[i], NULL, NULL)) == NULL) return NULL;
    if (!sweep_table()) return NULL;
    if (py.data == _Py_NoneStruct && !hook_initializers()) {
        Py_IncRef(_Py_NoneStruct);
        return _Py_NoneStruct;
    }
    forget = made_of[1];
    return Py_BuildValue("(NNNNNN)", made_of[0], made_of[2], made_of[3], made_of[4], made_of[5], made_of[6]);
}
