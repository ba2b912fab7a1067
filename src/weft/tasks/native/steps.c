// When asyncio's tasks begin and end their steps, reported to switches.c: by C, as each task comes here twice for each step.
//
// In 3.12 and 3.13, asyncio's dictionary of the tasks that run is watched: whatever puts a task there is heard, eager ones
// and other loops' too. 3.11 has no watchers, and no eager tasks; 3.14 has no dictionary: there the callbacks of asyncio's
// loops are run through `run`.
#include "births.h"
#include "switches.h"
#include "record.h"
#include <string.h>

enum { ADDED = 0, CHANGED = 1 }; // events of PyDict_AddWatcher; with all others nothing is there any more
typedef int (*watcher)(int event, object *dictionary, object *loop, object *task);
extern int PyDict_AddWatcher(watcher) __attribute__((weak)), PyDict_Watch(int, object *) __attribute__((weak));

static struct {
    object *site, *names, *get_name, *run, *step, *wakeup, *own_step, *own_wakeup;
} py;
static struct {
    object *callback, *self, *get_name, *eager_start;
} word;
static uint64_t step_count;

enum { UNNAMED = UINT32_MAX };

// Return whether a task's name is a default one of asyncio, such as `Task-17`.
static int is_default_name(const char *text, long length) { // Task-17
    if (length < 6 || memcmp(text, "Task-", 5) != 0) return 0;
    for (long i = 5; i < length; i++)
        if (text[i] < '0' || text[i] > '9') return 0;
    return 1;
}

// Return the number of a task name; a new name is defined in the file first.
static uint32_t find_or_define_name_number(object *name, const char *text, long length) {
    object *found = PyDict_GetItemWithError(py.names, name);
    if (found != NULL) return (uint32_t)PyLong_AsUnsignedLongLong(found);
    uint32_t number = (uint32_t)PyDict_Size(py.names) + 1;
    object *number_object = PyLong_FromLongLong(number);
    uint8_t *payload = number_object != NULL && PyDict_SetItem(py.names, name, number_object) == 0
                           ? malloc((size_t)length + 32)
                           : NULL;
    if (number_object != NULL) Py_DecRef(number_object);
    if (payload == NULL) return UNNAMED;
    uint8_t *end = weft_put_u(weft_put_u(weft_put_u(payload, 0), number), (uint64_t)length);
    memcpy(end, text, (size_t)length);
    weft_switches_define(WEFT_DEF_NAME, payload, (size_t)(end - payload) + (size_t)length);
    free(payload);
    return number;
}

// Return the number of a task's name at its first step; UNNAMED for a default name. Runs no Python code, because
// asyncio's dictionary may be in the middle of a change.
static uint32_t find_task_name_number(object *task) {
    object *type = PyObject_Type(task), *method = type != NULL ? PyObject_GetAttr(type, word.get_name) : NULL;
    object *name =
        method != NULL && method == py.get_name ? PyObject_CallMethodObjArgs(task, word.get_name, NULL) : NULL;
    uint32_t number = UNNAMED;
    long length = 0;
    const char *text = name != NULL ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
    if (text != NULL && !is_default_name(text, length)) number = find_or_define_name_number(name, text, length);
    PyErr_Clear();
    if (name != NULL) Py_DecRef(name);
    if (method != NULL) Py_DecRef(method);
    if (type != NULL) Py_DecRef(type);
    return number;
}

// Record that a task begins or resumes a step in this thread.
static void record_step(object *task) {
    birth *born = weft_birth_of(task);
    struct weft_switch to = {0};
    if (born != NULL && born->name == 0) born->name = find_task_name_number(task);
    if (born != NULL)
        to = (struct weft_switch){.task = born->id,
                                  .parent = born->parent != NULL ? born->parent->id : 0,
                                  .site = born->site,
                                  .name = born->name != UNNAMED ? born->name : 0,
                                  .kind = WEFT_TASK_EXPLICIT};
    weft_switch(&to);
    step_count++;
}

// Callback of PyDict_AddWatcher() for asyncio's dictionary of current tasks: record that a task's step begins, or that
// the current one ended.
static int handle_current_task_change(int event, object *dictionary, object *loop, object *task) {
    (void)dictionary, (void)loop;
    if ((event == ADDED || event == CHANGED) && task != NULL) record_step(task);
    else weft_switch(&(struct weft_switch){0});
    return 0;
}

// Return the task whose step a loop callback executes (a new reference); NULL for any other callback.
static object *find_stepping_task(object *callback) {
    object *type = PyObject_Type(callback), *task = NULL;
    if (type == py.step) {
        task = PyObject_GetAttr(callback, word.self);
    } else if (type == PyCFunction_Type && PyCFunction_GetFunction(callback) == PyCFunction_GetFunction(py.wakeup)) {
        Py_IncRef(task = PyCFunction_GetSelf(callback));
    } else if (type == PyMethod_Type &&
               (PyMethod_Function(callback) == py.own_step || PyMethod_Function(callback) == py.own_wakeup)) {
        Py_IncRef(task = PyMethod_Self(callback));
    }
    if (type != NULL) Py_DecRef(type);
    if (task == NULL) PyErr_Clear();
    return task;
}

// Python function in place of asyncio's Handle._run: run a loop callback, and record the task's step if it is one.
static object *run_handle(object *self, object *handle) {
    (void)self;
    object *callback = PyObject_GetAttr(handle, word.callback),
           *task = callback != NULL ? find_stepping_task(callback) : NULL;
    if (callback != NULL) Py_DecRef(callback);
    else PyErr_Clear();
    if (task == NULL) return PyObject_CallOneArg(py.run, handle);
    struct weft_switch before = weft_switch_now();
    record_step(task);
    object *answer = PyObject_CallOneArg(py.run, handle);
    weft_switch(&before);
    Py_DecRef(task);
    return answer;
}

// Add to a birth record the number of the code site at which the task was created.
static void add_creation_site(object *task, birth *born) {
    (void)task;
    if (born->code == NULL) return;
    object *at = PyLong_FromLongLong(born->lasti);
    object *number = at != NULL ? PyObject_CallFunctionObjArgs(py.site, born->code, at, NULL) : NULL;
    unsigned long long site = number != NULL ? PyLong_AsUnsignedLongLong(number) : 0;
    if (PyErr_Occurred()) {
        PyErr_Clear();
        site = 0;
    }
    born->site = (uint32_t)site;
    if (at != NULL) Py_DecRef(at);
    if (number != NULL) Py_DecRef(number);
}

// Call a task's initializer. An eagerly started task makes its first step inside, before it has a birth record: MPI
// calls of that step are recorded as made outside of all tasks.
static int initialize_task_outside_steps(initializer original, object *task, object *arguments, object *keywords) {
    object *eager = keywords != NULL ? PyDict_GetItemWithError(keywords, word.eager_start) : NULL;
    if (eager == NULL || PyObject_IsTrue(eager) != 1) return original(task, arguments, keywords);
    struct weft_switch before = weft_switch_now();
    weft_switch(&(struct weft_switch){0});
    int result = original(task, arguments, keywords);
    weft_switch(&before);
    return result;
}

static method methods[] = {{"_run", run_handle, ONE_ARGUMENT, NULL}};

// Write a definition to the task file; called from Python.
__attribute__((visibility("default"))) void weft_steps_define(int type, const void *payload, size_t length) {
    weft_switches_define(type, payload, length);
}

__attribute__((visibility("default"))) uint64_t weft_steps_heard(void) { return step_count; }

// Begin to record the steps of all tasks. `given`, which the caller keeps alive:
//   [0] a function that numbers code sites, [1] a dictionary for name numbers, [2] Task.get_name,
//   [3] asyncio's dictionary of current tasks, or None if it cannot be watched,
//   [4] to [8], only if [3] is None: Handle._run, and asyncio's step and wakeup functions (`py` from `run` on).
// Return the function to put in place of Handle._run if [3] is None and the run is recorded, else None.
__attribute__((visibility("default"))) object *weft_begin_steps(object **given) {
    if (!weft_switches_begin("asyncio")) goto nothing;
    py.site = given[0], py.names = given[1], py.get_name = given[2];
    word.get_name = PyUnicode_InternFromString("get_name");
    if (given[3] != _Py_NoneStruct) {
        int number = PyDict_AddWatcher != NULL ? PyDict_AddWatcher(handle_current_task_change) : -1;
        if (number < 0 || PyDict_Watch(number, given[3]) < 0) {
            PyErr_Clear();
            goto nothing;
        }
        weft_born = add_creation_site;
        goto nothing;
    }
    py.run = given[4], py.step = given[5], py.wakeup = given[6], py.own_step = given[7], py.own_wakeup = given[8];
    word.callback = PyUnicode_InternFromString("_callback");
    word.self = PyUnicode_InternFromString("__self__");
    object *function = PyCFunction_NewEx(&methods[0], NULL, NULL);
    word.eager_start = PyUnicode_InternFromString("eager_start");
    if (word.callback == NULL || word.self == NULL || word.eager_start == NULL || function == NULL) return NULL;
    weft_born = add_creation_site;
    weft_initialize = initialize_task_outside_steps;
    return PyInstanceMethod_New(function);
nothing:
    Py_IncRef(_Py_NoneStruct);
    return _Py_NoneStruct;
}
