/* How a Python program leaves: exceptions that nobody caught, where SystemExit was raised, MPI_Finalize on the way out.
 *
 * Nothing that the program can see is replaced: a function of atexit comes before the interpreter's own end, and four
 * C functions behind Python's names (sys.exit, the default hook of threads, SystemExit's initialisation and its end) are
 * called through ours. The interpreter is used through its public functions, found when it is there. */
#define _GNU_SOURCE
#include "endings.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "leaving_py.h" /* generated: leaving.py as weft_leaving_py */

typedef struct object Object;
typedef Object *(*Function)(Object *, Object *);
typedef Object *(*Fast)(Object *, Object *const *, ssize_t);
struct method {
    const char *name;
    Function function;
    int flags;
    const char *text;
};
enum {
    NO_ARGUMENTS = 4,
    ONE = 8,
    VARIABLE = 1,
    FAST = 0x80,
    FILE_INPUT = 257,
    FIRST_FIELD = 16,
    TYPE_NAME = 24,
    TYPE_DEALLOC = 48,
    TYPE_INIT = 296
};

/* What is used of CPython. */
static struct {
    int (*Py_IsInitialized)(void);
    const char *(*Py_GetVersion)(void);
    int (*PyGILState_Ensure)(void);
    void (*PyGILState_Release)(int);
    int (*PyGILState_Check)(void);
    Object *(*PyImport_ImportModule)(const char *);
    Object *(*PyObject_GetAttrString)(Object *, const char *);
    Object *(*PyObject_CallFunctionObjArgs)(Object *, ...);
    Object *(*PyCFunction_NewEx)(struct method *, Object *, Object *);
    Object *(*PySys_GetObject)(const char *);
    Object *(*PyDict_New)(void);
    Object *(*PyDict_GetItemString)(Object *, const char *);
    int (*PyDict_SetItemString)(Object *, const char *, Object *);
    Object *(*PyEval_GetBuiltins)(void);
    Object *(*PyEval_GetFrame)(void);
    Object *(*PyRun_StringFlags)(const char *, int, Object *, Object *, void *);
    Object *(*PyTuple_GetItem)(Object *, ssize_t);
    ssize_t (*PyTuple_Size)(Object *);
    char *(*PyBytes_AsString)(Object *);
    ssize_t (*PyBytes_Size)(Object *);
    long (*PyLong_AsLong)(Object *);
    const char *(*PyUnicode_AsUTF8)(Object *);
    void (*PyErr_Fetch)(Object **, Object **, Object **);
    void (*PyErr_Restore)(Object *, Object *, Object *);
    void (*PyErr_GetExcInfo)(Object **, Object **, Object **);
    void (*PyErr_Clear)(void);
    int (*PyType_IsSubtype)(Object *, Object *);
    int (*PySys_AddAuditHook)(int (*)(const char *, Object *, void *), void *);
    void (*Py_DecRef)(Object *);
    void (*Py_IncRef)(Object *);
    Object *none, *function_type, *long_type, *unicode_type, **system_exit;
} py;

static bool is_python_known; /* all of it was found */
static bool is_exception_recorded;

/* Look up the functions of Python's C interface in this process; return false if it has not all of them. */
static bool find_python_functions(void) {
#define FIND(name)                                                                                                     \
    if (!(py.name = (__typeof__(py.name))dlsym(RTLD_DEFAULT, #name))) return false
    FIND(Py_IsInitialized);
    FIND(Py_GetVersion);
    FIND(PyGILState_Ensure);
    FIND(PyGILState_Release);
    FIND(PyGILState_Check);
    FIND(PyImport_ImportModule);
    FIND(PyObject_GetAttrString);
    FIND(PyObject_CallFunctionObjArgs);
    FIND(PyCFunction_NewEx);
    FIND(PySys_GetObject);
    FIND(PyDict_New);
    FIND(PyDict_GetItemString);
    FIND(PyDict_SetItemString);
    FIND(PyEval_GetBuiltins);
    FIND(PyEval_GetFrame);
    FIND(PyRun_StringFlags);
    FIND(PyTuple_GetItem);
    FIND(PyTuple_Size);
    FIND(PyBytes_AsString);
    FIND(PyBytes_Size);
    FIND(PyLong_AsLong);
    FIND(PyUnicode_AsUTF8);
    FIND(PyErr_Fetch);
    FIND(PyErr_Restore);
    FIND(PyErr_GetExcInfo);
    FIND(PyErr_Clear);
    FIND(PyType_IsSubtype);
    FIND(PySys_AddAuditHook);
    FIND(Py_DecRef);
    FIND(Py_IncRef);
#undef FIND
    py.none = dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
    py.function_type = dlsym(RTLD_DEFAULT, "PyCFunction_Type");
    py.long_type = dlsym(RTLD_DEFAULT, "PyLong_Type");
    py.unicode_type = dlsym(RTLD_DEFAULT, "PyUnicode_Type");
    py.system_exit = dlsym(RTLD_DEFAULT, "PyExc_SystemExit");
    return py.none && py.function_type && py.long_type && py.unicode_type && py.system_exit;
}

/* Return the type of a Python object, without a reference. */
static Object *find_type(Object *object) { return ((Object **)object)[1]; }
/* Return None, with a reference. */
static Object *return_none(void) {
    py.Py_IncRef(py.none);
    return py.none;
}

/* ---- leaving.py ---- */
/* Record an exception that nobody caught; leaving.py calls it as tell(name, text, traceback, thread, frames), all as
 * bytes. Return None, or NULL if the arguments are others. */
static Object *record_exception(Object *self, Object *arguments) {
    (void)self;
    const char *words[4];
    Object *frames = py.PyTuple_GetItem(arguments, 4);
    for (int i = 0; i < 4; i++)
        if (!frames || !(words[i] = py.PyBytes_AsString(py.PyTuple_GetItem(arguments, i)))) return NULL;
    struct weft_ending_report ending = {.kind = WEFT_ENDING_EXCEPTION,
                                        .name = words[0],
                                        .text = words[1],
                                        .traceback = words[2],
                                        .who = words[3],
                                        .python = py.PyBytes_AsString(frames),
                                        .python_bytes = (size_t)py.PyBytes_Size(frames)};
    if (weft_can_record_ending()) weft_record_ending(&ending);
    if (!*words[3]) is_exception_recorded = true;
    return return_none();
}

/* Return the dictionary in which leaving.py is executed, made at first use; NULL if that fails. Needs the GIL. */
static Object *find_or_make_leaving_globals(void) {
    static struct method method = {"tell", record_exception, VARIABLE, NULL};
    static Object *dictionary;
    if (dictionary) return dictionary;
    Object *made = py.PyDict_New(), *function = py.PyCFunction_NewEx(&method, NULL, NULL);
    if (!made || !function || py.PyDict_SetItemString(made, "__builtins__", py.PyEval_GetBuiltins()) ||
        py.PyDict_SetItemString(made, "tell", function))
        return NULL;
    Object *done = py.PyRun_StringFlags(weft_leaving_py, FILE_INPUT, made, made, NULL);
    if (!done) return NULL;
    py.Py_DecRef(done);
    return dictionary = made;
}

/* Call a function of leaving.py by its name. An exception that the program has raised stays, one of the function's is
 * dropped. Needs the GIL. */
static void call_leaving_function(const char *name, Object *argument) {
    Object *under_way[3];
    int depth = weft_depth;
    weft_depth = 1;
    py.PyErr_Fetch(&under_way[0], &under_way[1], &under_way[2]);
    Object *dictionary = find_or_make_leaving_globals(),
           *function = dictionary ? py.PyDict_GetItemString(dictionary, name) : NULL;
    Object *done = function ? py.PyObject_CallFunctionObjArgs(function, argument, NULL) : NULL;
    if (done) py.Py_DecRef(done);
    else py.PyErr_Clear();
    py.PyErr_Restore(under_way[0], under_way[1], under_way[2]);
    weft_depth = depth;
}

/* Return whether the interpreter has printed an exception, or one is being handled now: leaving.py is loaded only then.
 * Needs the GIL. */
static bool has_any_exception(void) {
    Object *handled[3] = {NULL, NULL, NULL};
    py.PyErr_GetExcInfo(&handled[0], &handled[1], &handled[2]);
    bool any =
        (handled[1] && handled[1] != py.none) || py.PySys_GetObject("last_exc") || py.PySys_GetObject("last_value");
    for (int i = 0; i < 3; i++)
        if (handled[i]) py.Py_DecRef(handled[i]);
    return any;
}

/* Record a Python exception that is on its way to ending the process, if this thread holds the GIL. */
void weft_record_uncaught_exception(void) {
    if (is_python_known && py.Py_IsInitialized() && py.PyGILState_Check() == 1 && has_any_exception())
        call_leaving_function("uncaught", NULL);
}

/* ---- SystemExit ---- */
static struct {
    bool raised, uncaught;
    int status;
    char text[1024];
    uint8_t *frames;
    size_t bytes;
} system_exit;

/* Return the exit status for the value of a SystemExit. A value that is no number goes into `text`, and the status is
 * 1. */
static int find_exit_status(Object *value, char *text, size_t size) {
    text[0] = 0;
    if (!value || value == py.none) return 0;
    if (py.PyType_IsSubtype(find_type(value), py.long_type)) {
        long number = py.PyLong_AsLong(value);
        py.PyErr_Clear();
        return (int)number & 0xff;
    }
    const char *words = find_type(value) == py.unicode_type ? py.PyUnicode_AsUTF8(value) : NULL;
    if (!words) py.PyErr_Clear();
    snprintf(text, size, "%s", words ? words : "");
    return 1;
}

/* Keep the value of a SystemExit and the Python frames where it was raised, in the main thread: in others it ends
 * nothing but them. */
static WEFT_COLD void remember_system_exit(Object *value) {
    enum { SPACE = 1 << 15, MOST = 24 };
    if (!weft_can_record_ending() || gettid() != weft_pid) return;
    struct weft_python_place places[MOST];
    uint8_t *space = malloc(SPACE);
    if (!space) return;
    struct weft_text text = {.p = space + 1, .end = space + SPACE};
    uint32_t frame_count = weft_python ? weft_read_python_stack(places, MOST) : 0, written_count = 0;
    for (uint32_t i = 0; i < frame_count && !text.overflow; i++)
        written_count += weft_write_python_frame(&text, &places[i]);
    space[0] = (uint8_t)written_count;
    free(system_exit.frames);
    system_exit.frames = space;
    system_exit.bytes = text.overflow ? 0 : (size_t)(text.p - space);
    system_exit.status = find_exit_status(value, system_exit.text, sizeof system_exit.text);
    system_exit.raised = true;
}

/* Record an exit that SystemExit has caused, with the line that raised it. Return whether the ending is recorded, here
 * or before. */
bool weft_record_python_exit(int status, struct weft_ending_report *unused) {
    if (is_exception_recorded && status == 1) return true; /* said already */
    if (!system_exit.raised || system_exit.status != (status & 0xff) || !system_exit.bytes) return false;
    struct weft_ending_report exited = {.kind = WEFT_ENDING_EXIT,
                                        .code = status,
                                        .detail = WEFT_EXIT_PYTHON,
                                        .name = "sys.exit",
                                        .text = system_exit.text,
                                        .python = system_exit.frames,
                                        .python_bytes = system_exit.bytes};
    (void)unused;
    weft_record_ending(&exited);
    return true;
}

static Fast real_exit;
static Function real_excepthook;
static int (*real_init)(Object *, Object *, Object *);
static void (*real_dealloc)(Object *);

/* Stand before sys.exit(): keep its value and where it was called, then call Python's own. */
static Object *remember_and_exit(Object *module, Object *const *arguments, ssize_t n) {
    remember_system_exit(n == 1 ? arguments[0] : NULL);
    return real_exit(module, arguments, n);
}

/* Stand before SystemExit's __init__: keep its value and where it was raised. */
static int remember_and_init_system_exit(Object *self, Object *arguments, Object *words) {
    ssize_t n = arguments ? py.PyTuple_Size(arguments) : 0;
    remember_system_exit(n == 1 ? py.PyTuple_GetItem(arguments, 0) : n ? arguments : NULL);
    return real_init(self, arguments, words);
}

/* Stand before SystemExit's destructor: note whether nobody caught it. One that was caught goes while a frame of the
 * program runs; where none does, it has come through all of them. */
static void note_uncaught_and_dealloc_system_exit(Object *self) {
    if (system_exit.raised && gettid() == weft_pid && !py.PyEval_GetFrame()) system_exit.uncaught = true;
    real_dealloc(self);
}

/* Stand before _thread._excepthook: record the exception that ends a thread, then call Python's own. */
static Object *record_and_call_excepthook(Object *module, Object *hooked) {
    if (weft_can_record_ending()) call_leaving_function("thread", hooked);
    return real_excepthook(module, hooked);
}

/* Return the definition of the C function behind a builtin of Python, whose pointer may then be replaced; NULL where it
 * does not have this name and these flags. */
static struct method *find_builtin_method(Object *builtin, const char *name, int flags) {
    if (!builtin || find_type(builtin) != py.function_type) return NULL;
    struct method *method = *(struct method **)((char *)builtin + FIRST_FIELD);
    return !strcmp(method->name, name) && method->flags == flags ? method : NULL;
}

/* Put our functions before sys.exit(), the handler of exceptions in threads, and SystemExit's own methods. */
static void insert_python_hooks(void) {
    struct method *exit_method = find_builtin_method(py.PySys_GetObject("exit"), "exit", FAST);
    if (exit_method) {
        real_exit = (Fast)exit_method->function;
        exit_method->function = (Function)remember_and_exit;
    }
    Object *threads = py.PyImport_ImportModule("_thread");
    Object *hooked = threads ? py.PyObject_GetAttrString(threads, "_excepthook") : NULL;
    struct method *method = find_builtin_method(hooked, "_excepthook", ONE);
    if (method) {
        real_excepthook = method->function;
        method->function = record_and_call_excepthook;
    }
    Dl_info interpreter, init;
    char *type = (char *)*py.system_exit;
    void **place = (void **)(type + TYPE_INIT);
    if (!strcmp(*(const char **)(type + TYPE_NAME), "SystemExit") && dladdr((void *)py.Py_GetVersion, &interpreter) &&
        dladdr(*place, &init) && init.dli_fbase == interpreter.dli_fbase) {
        real_init = (__typeof__(real_init))*place;
        *place = (void *)remember_and_init_system_exit;
        place = (void **)(type + TYPE_DEALLOC);
        real_dealloc = (__typeof__(real_dealloc))*place;
        *place = (void *)note_uncaught_and_dealloc_system_exit;
    }
}

/* ---- the way out ---- */
/* Run among Python's atexit functions, after those that the program registered later: record an exception or a
 * SystemExit that ends the process. Return None. */
static Object *record_at_python_exit(Object *self, Object *unused) {
    (void)self, (void)unused;
    if (!weft_the_record || getpid() != weft_pid) return return_none();
    weft_record_uncaught_exception();
    weft_leaving = 1;
    /* Py_Exit is on the stack for one that somebody still holds, too: up to 3.13, without `python -m`. */
    if (weft_can_record_ending() && !is_exception_recorded && system_exit.raised &&
        (system_exit.uncaught || weft_is_called_by(dlsym(RTLD_DEFAULT, "Py_Exit"))))
        weft_record_coming_exit(system_exit.status);
    return return_none();
}

/* Serve as Python's audit hook: when asyncio's first loop makes a socket, let leaving.py watch asyncio's tasks. Return
 * 0, so that nothing is forbidden. */
static int watch_asyncio_by_audit(const char *event, Object *arguments, void *hook_data) {
    static bool done;
    (void)arguments, (void)hook_data;
    if (done || event[0] != 's' || strcmp(event, "socket.__new__") || !weft_can_record_ending()) return 0;
    Object *modules = py.PySys_GetObject("modules");
    if (!modules || !py.PyDict_GetItemString(modules, "asyncio.log")) return 0;
    done = true;
    call_leaving_function("tasks", NULL);
    return 0;
}

/* Register record_at_python_exit with Python's atexit. */
static void register_exit_function(void) {
    static struct method method = {"weft", record_at_python_exit, NO_ARGUMENTS, NULL};
    Object *module = py.PyImport_ImportModule("atexit");
    Object *add = module ? py.PyObject_GetAttrString(module, "register") : NULL;
    Object *function = add ? py.PyCFunction_NewEx(&method, NULL, NULL) : NULL;
    Object *done = function ? py.PyObject_CallFunctionObjArgs(add, function, NULL) : NULL;
    if (done) py.Py_DecRef(done);
}

/* Begin to watch how a Python program ends, at MPI's initialisation; do nothing in other programs. */
void weft_begin_watching_python_exit(void) {
    if (is_python_known || !find_python_functions() || !py.Py_IsInitialized()) return;
    int state = py.PyGILState_Ensure(), depth = weft_depth;
    weft_depth = 1;
    Object *under_way[3];
    py.PyErr_Fetch(&under_way[0], &under_way[1], &under_way[2]);
    is_python_known = true;
    register_exit_function();
    if (!strncmp(py.Py_GetVersion(), "3.", 2) && !strstr(py.Py_GetVersion(), "free-threading")) insert_python_hooks();
    Object *modules = py.PySys_GetObject("modules");
    if (modules && py.PyDict_GetItemString(modules, "asyncio.log")) call_leaving_function("tasks", NULL);
    else py.PySys_AddAuditHook(watch_asyncio_by_audit, NULL);
    py.PyErr_Clear();
    py.PyErr_Restore(under_way[0], under_way[1], under_way[2]);
    weft_depth = depth;
    py.PyGILState_Release(state);
}
