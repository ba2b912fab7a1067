// What the parts of Weft in a Python process share: Python's functions, and the births of asyncio's tasks (births.c).
//
// The functions are declared here: none of them needs Python's headers, nor a build for each version.
#ifndef WEFT_TASKS_BIRTHS_H
#define WEFT_TASKS_BIRTHS_H
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
extern object *PyList_GetItem(object *, long), *PyTuple_New(long), *PyLong_FromLongLong(long long),
    *PyErr_NoMemory(void);
extern int PyList_Append(object *, object *), PyList_SetItem(object *, long, object *);
extern int PyTuple_SetItem(object *, long, object *), PyObject_IsInstance(object *, object *),
    PySet_Contains(object *, object *);
extern long PyList_Size(object *);
extern object *PyObject_GetAttr(object *, object *), *PyObject_Type(object *),
    *PyUnicode_InternFromString(const char *);
extern object *PyObject_CallMethodObjArgs(object *, object *, ...);
extern unsigned long long PyLong_AsUnsignedLongLong(object *);
extern int PyDict_SetItem(object *, object *, object *);
extern const char *PyUnicode_AsUTF8AndSize(object *, long *);
extern object *PyCFunction_GetSelf(object *), *PyInstanceMethod_New(object *), *PyMethod_Function(object *),
    *PyMethod_Self(object *);
extern object *(*PyCFunction_GetFunction(object *))(object *, object *);
extern object PyCFunction_Type[], PyMethod_Type[], PyWrapperDescr_Type[];
extern void *PyType_GetSlot(object *, int);
extern object PyCoro_Type[], PyGen_Type[], PyAsyncGen_Type[], _Py_TrueStruct[];

typedef struct birth {
    struct birth *parent;  // owned, as is `code`
    object *code;
    uint64_t id;
    int lasti, depth;
    uint32_t nth, children;  // which child of its parent's it is, from 1 on; how many it has made
    long owners;  // its task's entry and its children
    uint32_t site, name;  // for steps.c: of switches.h
} birth;

// A task's birth; made now for one that was created past us. NULL where there is no memory. Not owned.
__attribute__((visibility("hidden"))) birth *weft_birth_of(object *task);
// Called at each birth, where it is not NULL.
extern __attribute__((visibility("hidden"))) void (*weft_born)(object *task, birth *born);
// Calls a task's own initializer, where it is not NULL: one that begins eagerly makes its first step in there.
typedef int (*initializer)(object *self, object *arguments, object *keywords);
extern __attribute__((visibility("hidden"))) int (*weft_initialize)(initializer own, object *task, object *arguments,
                                                                    object *keywords);
#endif
