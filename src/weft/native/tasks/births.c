// Who made each asyncio task, and where: taken down when asyncio registers the task, by C, so that nobody notices.
//
// asyncio's C code calls `add` of its weak set of all tasks (3.11 to 3.13); births.py puts ours there, which does the
// same and notes a birth. The functions of Python that it uses are declared here: none of them needs Python's headers,
// nor a build for each version. The interpreter's lock is held in all of it.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct object {
    char opaque;  // Python's own: only ever behind a pointer
} object;
typedef struct {
    const char *name;
    object *(*call)(object *self, object *argument);
    int flags;
    const char *text;
} method;
enum { ONE_ARGUMENT = 8 };  // METH_O

extern object _Py_NoneStruct[];
extern void Py_IncRef(object *), Py_DecRef(object *);
extern object *PyEval_GetFrame(void), *PyFrame_GetBack(object *), *PyFrame_GetCode(object *);
extern int PyFrame_GetLasti(object *);
extern object *PyWeakref_NewRef(object *, object *), *PyWeakref_GetObject(object *);
extern int PySet_Add(object *, object *), PySet_Discard(object *, object *), PyObject_IsTrue(object *);
extern long PySet_Size(object *), PyDict_Size(object *);
extern object *PyDict_GetItemWithError(object *, object *), *PyErr_Occurred(void);
extern void PyErr_Clear(void);
extern object *PyObject_CallOneArg(object *, object *), *PyObject_CallNoArgs(object *);
extern object *PyObject_CallFunctionObjArgs(object *, ...), *PyCFunction_NewEx(method *, object *, object *);
extern object *PyList_New(long), *PyLong_FromUnsignedLongLong(unsigned long long), *Py_BuildValue(const char *, ...);
extern int PyList_Append(object *, object *);

typedef struct birth {
    struct birth *parent;  // owned, as is `code`
    object *code;
    uint64_t id;
    int lasti, depth;
    long owners;  // its task's entry and its children
} birth;

typedef struct {
    object *task;  // its address; `ref` (owned) says whether it is still that task
    object *ref;
    birth *born;
} entry;

typedef struct {
    object *data, *iterating, *removed;  // of the weak set: its set, who iterates over it, its own callback
    object *current, *running, *get_loop;  // asyncio: tasks by loop, the loop of this thread, Task.get_loop
    object *is_library, *on_create;
} names;

enum { DEEP = 500, SMALL = 1024, SEEN = 256 };  // DEEP: ancestors that are remembered at most
static names py;
static object *forget;
static int watched;
static uint64_t ids = UINT64_MAX;  // the first birth is the one that shows whether this works: number 0
static entry *table;
static uint64_t room, used;
static struct { object *code; int library; } seen[SEEN];
static struct { object *loop; pthread_t thread; } sure;  // this thread runs that loop: it was asked

static void drop(birth *b) {
    while (b != NULL && --b->owners == 0) {
        birth *parent = b->parent;
        if (b->code != NULL) Py_DecRef(b->code);
        free(b);
        b = parent;
    }
}

static birth *made(birth *parent, object *code, int lasti) {
    birth *b = malloc(sizeof *b);
    if (b == NULL) return NULL;
    if (parent != NULL && parent->depth >= DEEP) {  // a task that makes its own successor, for ever, would fill the memory
        birth *cut = malloc(sizeof *cut);
        if (cut != NULL) *cut = (birth){.id = parent->id};
        parent = cut;
    }
    if (parent != NULL) parent->owners++;
    *b = (birth){parent, code, ++ids, lasti, parent != NULL ? parent->depth + 1 : 0, 1};
    return b;
}

static entry *place(entry *in, uint64_t size, const object *task) {
    uint64_t at = ((uintptr_t)task >> 4) * 0x9E3779B97F4A7C15u >> 20 & (size - 1);
    while (in[at].task != NULL && in[at].task != task) at = (at + 1) & (size - 1);
    return &in[at];
}

// Take what is dead out of the table, and make room. 0 where there is no memory.
static int sweep(void) {
    uint64_t alive = 0;
    for (uint64_t i = 0; i < room; i++) alive += table[i].task != NULL && PyWeakref_GetObject(table[i].ref) != _Py_NoneStruct;
    uint64_t size = SMALL;
    while (size < 4 * alive) size *= 2;
    entry *fresh = calloc(size, sizeof *fresh), *old = table;
    if (fresh == NULL) return 0;
    uint64_t before = room;
    table = fresh, room = size, used = alive;
    for (uint64_t i = 0; i < before; i++) {
        if (old[i].task == NULL) continue;
        if (PyWeakref_GetObject(old[i].ref) != _Py_NoneStruct) {
            *place(fresh, size, old[i].task) = old[i];
        } else {
            Py_DecRef(old[i].ref);
            drop(old[i].born);
        }
    }
    free(old);
    return 1;
}

static birth *known(const object *task) {
    if (table == NULL) return NULL;
    entry *e = place(table, room, task);
    return e->task != NULL && PyWeakref_GetObject(e->ref) == task ? e->born : NULL;
}

// Keep a birth for a task; takes over `ref`.
static birth *keep(object *task, object *ref, birth *b) {
    if (b == NULL || (4 * used >= 3 * room && !sweep())) {
        Py_DecRef(ref);
        drop(b);
        return NULL;
    }
    entry *e = place(table, room, task);
    if (e->task != NULL) {  // another one lay at this address
        Py_DecRef(e->ref);
        drop(e->born);
    } else {
        used++;
    }
    *e = (entry){task, ref, b};
    return b;
}

// A task's birth; made now for one that was created past us.
static birth *of(object *task) {
    birth *b = known(task);
    if (b != NULL) return b;
    object *ref = PyWeakref_NewRef(task, NULL);
    if (ref == NULL) {
        PyErr_Clear();
        return NULL;
    }
    return keep(task, ref, made(NULL, NULL, -1));
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

// The innermost line that is not asyncio's own; owned.
static object *maker(int *lasti) {
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

// The task that runs in this thread; not owned.
static object *mother(object *task) {
    if (PyDict_Size(py.current) == 0) return NULL;
    object *loop = PyObject_CallOneArg(py.get_loop, task);
    if (loop == NULL || sure.loop != loop || !pthread_equal(sure.thread, pthread_self())) {
        if (loop != NULL) Py_DecRef(loop);
        loop = PyObject_CallNoArgs(py.running);
        if (loop == NULL || loop == _Py_NoneStruct) goto out;
        sure.loop = loop;  // only ever compared
        sure.thread = pthread_self();
    }
    Py_DecRef(loop);  // it runs: it lives
    object *found = PyDict_GetItemWithError(py.current, loop);
    if (PyErr_Occurred()) PyErr_Clear();
    return found == _Py_NoneStruct ? NULL : found;
out:
    if (loop != NULL) Py_DecRef(loop);
    PyErr_Clear();
    return NULL;
}

static void note(object *task, object *ref) {
    object *parent = mother(task);
    birth *from = parent != NULL && parent != task ? of(parent) : NULL;
    int lasti;
    object *code = maker(&lasti);
    birth *early = known(task), *b = early != NULL ? NULL : made(from, code, lasti);
    if (early != NULL && early->code == NULL && early->parent == NULL) {  // it began before, and made tasks of its own
        early->parent = from;
        early->code = code;
        early->lasti = lasti;
        if (from != NULL) from->owners++;
    } else if (b == NULL && code != NULL) {
        Py_DecRef(code);
    }
    if (b != NULL) {
        Py_IncRef(ref);
        keep(task, ref, b);
    }
    if (watched) {
        object *answer = PyObject_CallFunctionObjArgs(py.on_create, task, parent != NULL ? parent : _Py_NoneStruct, NULL);
        if (answer != NULL) Py_DecRef(answer);
        else PyErr_Clear();
    }
}

// WeakSet.add, and a birth.
static object *add(object *self, object *task) {
    (void)self;
    object *ref = PyWeakref_NewRef(task, forget);
    if (ref == NULL) return NULL;
    if (PySet_Add(py.data, ref) < 0) {
        Py_DecRef(ref);
        return NULL;
    }
    note(task, ref);
    Py_DecRef(ref);
    Py_IncRef(_Py_NoneStruct);
    return _Py_NoneStruct;
}

// WeakSet's callback: a task has gone.
static object *gone(object *self, object *ref) {
    (void)self;
    if (PySet_Size(py.iterating) > 0) return PyObject_CallOneArg(py.removed, ref);
    if (PySet_Discard(py.data, ref) < 0) return NULL;
    Py_IncRef(_Py_NoneStruct);
    return _Py_NoneStruct;
}

static object *row(const birth *b) {
    object *code = b->code != NULL ? b->code : _Py_NoneStruct;
    if (b->parent == NULL) return Py_BuildValue("KOOi", b->id, _Py_NoneStruct, code, b->lasti);
    return Py_BuildValue("KKOi", b->id, b->parent->id, code, b->lasti);
}

// Its number, its parent's, the code that made it and the instruction.
static object *read_birth(object *self, object *task) {
    (void)self;
    birth *b = of(task);
    return b != NULL ? row(b) : Py_BuildValue("iOOi", 0, _Py_NoneStruct, _Py_NoneStruct, -1);
}

// The same of it, of its parent, and so on.
static object *read_chain(object *self, object *task) {
    (void)self;
    object *list = PyList_New(0);
    for (birth *b = list != NULL ? of(task) : NULL; b != NULL; b = b->parent) {
        object *one = row(b);
        if (one != NULL) PyList_Append(list, one), Py_DecRef(one);
    }
    return list;
}

static object *watch(object *self, object *on) {
    (void)self;
    watched = PyObject_IsTrue(on);
    Py_IncRef(_Py_NoneStruct);
    return _Py_NoneStruct;
}

static method methods[] = {{"add", add, ONE_ARGUMENT, NULL}, {"gone", gone, ONE_ARGUMENT, NULL},
    {"birth", read_birth, ONE_ARGUMENT, NULL}, {"chain", read_chain, ONE_ARGUMENT, NULL}, {"watch", watch, ONE_ARGUMENT, NULL}};

// (add, birth, chain, watch) as functions of Python. `given`: the objects of `names`, which the caller keeps alive.
__attribute__((visibility("default"))) object *weft_births(object **given) {
    object *made_of[5];
    py = (names){given[0], given[1], given[2], given[3], given[4], given[5], given[6], given[7]};
    for (int i = 0; i < 5; i++)
        if ((made_of[i] = PyCFunction_NewEx(&methods[i], NULL, NULL)) == NULL) return NULL;
    if (!sweep()) return NULL;
    forget = made_of[1];
    return Py_BuildValue("(NNNN)", made_of[0], made_of[2], made_of[3], made_of[4]);
}
