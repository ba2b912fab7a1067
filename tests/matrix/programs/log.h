/* A program's own log of its MPI calls, to hold a record against: C and C++.
 *
 * CALL(MPI_Send, buffer, 4, MPI_INT, 1, 7, MPI_COMM_WORLD) makes the call and writes one line to LOG/<pid>.log:
 *
 *   thread <tab> line <tab> MPI_Send <tab> arguments before <tab> => <tab> arguments after <tab> = <tab> result
 *
 * An integer stands as it is, a text in quotes, a pointer as 0x..., with what it points at in braces where that is
 * integers, handles or statuses <source,tag>. An array whose size the compiler sees is written whole.
 * `handle` and `constant` lines tell what this library's numbers mean. A call stands on one line of source.
 */
#ifndef LOG_H
#define LOG_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *log_file;
static __thread int log_thread;
static __thread int log_result;
static __thread char log_line[8192];
static __thread int log_length;

#define LOG_WRITE(...) (log_length += snprintf(log_line + log_length, sizeof log_line - (size_t)log_length, __VA_ARGS__))

static inline void log_open(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.log", getenv("MATRIX_LOG") ? getenv("MATRIX_LOG") : ".", (int)getpid());
    log_file = fopen(path, "w");
    if (!log_file) abort();
}
static inline void log_begin(int line, const char *name) {
    log_length = 0;
    LOG_WRITE("%d\t%d\t%s", log_thread, line, name);
}
static inline void log_then(void) { LOG_WRITE("\t=>"); }
static inline void log_end(void) {
    fprintf(log_file, "%s\t=\t%d\n", log_line, log_result); /* one call of stdio: whole lines, whichever thread */
    fflush(log_file);
}

static inline int log_dereferenced(const void *p) { return (uintptr_t)p >= 65536 && (intptr_t)p > 0; }
static inline void log_text(const char *s) { log_dereferenced(s) ? (void)LOG_WRITE("\t\"%s\"", s) : (void)LOG_WRITE("\t%p", (const void *)s); }
static inline void log_number(long long n) { LOG_WRITE("\t%lld", n); }
static inline void log_pointer(const void *p) { p ? (void)LOG_WRITE("\t%p", p) : (void)LOG_WRITE("\t0x0"); }

#ifdef __cplusplus
#include <type_traits>

template <class T> constexpr bool log_is_handle = std::is_same_v<T, MPI_Comm> || std::is_same_v<T, MPI_Datatype> ||
    std::is_same_v<T, MPI_Group> || std::is_same_v<T, MPI_Op> || std::is_same_v<T, MPI_Request> || std::is_same_v<T, MPI_Win> ||
    std::is_same_v<T, MPI_File> || std::is_same_v<T, MPI_Info> || std::is_same_v<T, MPI_Errhandler> || std::is_same_v<T, MPI_Message>;

template <class T> void log_items(const T *p, size_t n) {
    LOG_WRITE("\t%p", (const void *)p);
    if (!log_dereferenced(p)) return;
    LOG_WRITE("{");
    for (size_t i = 0; i < n; i++) {
        if constexpr (std::is_integral_v<T>) LOG_WRITE("%s%lld", i ? "," : "", (long long)p[i]);
        else if constexpr (std::is_same_v<T, MPI_Status>) LOG_WRITE("%s<%d;%d>", i ? "," : "", p[i].MPI_SOURCE, p[i].MPI_TAG);
        else LOG_WRITE("%s%p", i ? "," : "", (const void *)p[i]);
    }
    LOG_WRITE("}");
}
template <class T> void log_argument(const T &x) {
    if constexpr (std::is_integral_v<T>) log_number(x);
    else if constexpr (std::is_array_v<T> || std::is_pointer_v<T>) {
        using E = std::remove_cv_t<std::remove_all_extents_t<std::remove_pointer_t<std::decay_t<T>>>>;
        if constexpr (std::is_same_v<E, char>) log_text(x);
        else if constexpr (std::is_integral_v<E> || std::is_same_v<E, MPI_Status> || log_is_handle<E>)
            log_items<E>((const E *)x, std::is_array_v<T> ? sizeof(x) / sizeof(E) : 1);
        else log_pointer((const void *)x);
    } else log_pointer((const void *)x);
}
#define LOG_ARGUMENT(x) log_argument(x)
#else

static inline void log_ints(const void *at, size_t n) {
    const int *p = at;
    log_pointer(p);
    for (size_t i = 0; log_dereferenced(p) && i < n; i++) LOG_WRITE("%s%d%s", i ? "," : "{", p[i], i + 1 == n ? "}" : "");
}
static inline void log_longs(const void *at, size_t n) {
    const long *p = at;
    log_pointer(p);
    for (size_t i = 0; log_dereferenced(p) && i < n; i++) LOG_WRITE("%s%ld%s", i ? "," : "{", p[i], i + 1 == n ? "}" : "");
}
static inline void log_long_longs(const void *at, size_t n) {
    const long long *p = at;
    log_pointer(p);
    for (size_t i = 0; log_dereferenced(p) && i < n; i++) LOG_WRITE("%s%lld%s", i ? "," : "{", p[i], i + 1 == n ? "}" : "");
}
static inline void log_pointers(const void *at, size_t n) {
    void *const *p = at;
    log_pointer(p);
    for (size_t i = 0; log_dereferenced(p) && i < n; i++)
        LOG_WRITE("%s0x%llx%s", i ? "," : "{", (unsigned long long)(uintptr_t)p[i], i + 1 == n ? "}" : "");
}
static inline void log_statuses(const void *at, size_t n) {
    const MPI_Status *p = at;
    log_pointer(p);
    for (size_t i = 0; log_dereferenced(p) && i < n; i++)
        LOG_WRITE("%s<%d;%d>%s", i ? "," : "{", p[i].MPI_SOURCE, p[i].MPI_TAG, i + 1 == n ? "}" : "");
}

/* Handles are integers in MPICH, where `int *` covers them, and pointers elsewhere. */
#if defined(OPEN_MPI) || defined(MPI_ABI)
#define LOG_HANDLES(f) MPI_Comm *: f, MPI_Datatype *: f, MPI_Group *: f, MPI_Op *: f, MPI_Request *: f, MPI_Win *: f, \
    MPI_Info *: f, MPI_Errhandler *: f, MPI_Message *: f, MPI_File *: f,
#define LOG_HANDLE_ONE MPI_Comm **: 1, MPI_Datatype **: 1, MPI_Group **: 1, MPI_Op **: 1, MPI_Request **: 1, MPI_Win **: 1, \
    MPI_Info **: 1, MPI_Errhandler **: 1, MPI_Message **: 1, MPI_File **: 1,
#else
#define LOG_HANDLES(f) MPI_File *: f,
#define LOG_HANDLE_ONE MPI_File **: 1,
#endif
#if (defined(OPEN_MPI) || defined(MPI_ABI)) && defined(MPI_SESSION_NULL)
#define LOG_SESSION(f) MPI_Session *: f,
#define LOG_SESSION_ONE MPI_Session **: 1,
#else
#define LOG_SESSION(f)
#define LOG_SESSION_ONE
#endif
/* Elements behind x: 1 of a pointer, all of an array. */
#define LOG_ELEMENTS(x) _Generic((__typeof__(x) *)0, int **: 1, const int **: 1, long **: 1, const long **: 1, long long **: 1, \
    MPI_Status **: 1, LOG_HANDLE_ONE LOG_SESSION_ONE default: sizeof(x) / sizeof(LOG_ELEMENT(x)))
#define LOG_ELEMENT(x) _Generic((x), long *: (long)0, const long *: (long)0, long long *: 0LL, MPI_Status *: (MPI_Status){0}, \
    LOG_HANDLES((void *)0) LOG_SESSION((void *)0) default: (int)0)
#define LOG_IS_NUMBER(x) _Generic((x), int: 1, long: 1, long long: 1, unsigned: 1, unsigned long: 1, default: 0)
#define LOG_SIZED(f, x) f((const void *)(uintptr_t)(x), LOG_ELEMENTS(x))
#define LOG_ARGUMENT(x) _Generic((x), \
    int: log_number((long long)(intptr_t)(x)), long: log_number((long long)(intptr_t)(x)), \
    long long: log_number((long long)(intptr_t)(x)), unsigned long: log_number((long long)(intptr_t)(x)), \
    char *: log_text((const char *)(uintptr_t)(x)), const char *: log_text((const char *)(uintptr_t)(x)), \
    int *: LOG_SIZED(log_ints, x), int (*)[3]: LOG_SIZED(log_ints, x), const int *: LOG_SIZED(log_ints, x), long *: LOG_SIZED(log_longs, x), \
    const long *: LOG_SIZED(log_longs, x), long long *: LOG_SIZED(log_long_longs, x), \
    MPI_Status *: LOG_SIZED(log_statuses, x), LOG_HANDLES(LOG_SIZED(log_pointers, x)) LOG_SESSION(LOG_SIZED(log_pointers, x)) \
    default: log_pointer((const void *)(uintptr_t)(x)))
#endif

#define LOG_0()
#define LOG_1(a) LOG_ARGUMENT(a)
#define LOG_2(a, ...) LOG_ARGUMENT(a), LOG_1(__VA_ARGS__)
#define LOG_3(a, ...) LOG_ARGUMENT(a), LOG_2(__VA_ARGS__)
#define LOG_4(a, ...) LOG_ARGUMENT(a), LOG_3(__VA_ARGS__)
#define LOG_5(a, ...) LOG_ARGUMENT(a), LOG_4(__VA_ARGS__)
#define LOG_6(a, ...) LOG_ARGUMENT(a), LOG_5(__VA_ARGS__)
#define LOG_7(a, ...) LOG_ARGUMENT(a), LOG_6(__VA_ARGS__)
#define LOG_8(a, ...) LOG_ARGUMENT(a), LOG_7(__VA_ARGS__)
#define LOG_9(a, ...) LOG_ARGUMENT(a), LOG_8(__VA_ARGS__)
#define LOG_10(a, ...) LOG_ARGUMENT(a), LOG_9(__VA_ARGS__)
#define LOG_11(a, ...) LOG_ARGUMENT(a), LOG_10(__VA_ARGS__)
#define LOG_12(a, ...) LOG_ARGUMENT(a), LOG_11(__VA_ARGS__)
#define LOG_COUNTED(a, b, c, d, e, f, g, h, i, j, k, l, n, ...) n
#define LOG_COUNT(...) LOG_COUNTED(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define LOG_PASTE_(a, b) a##b
#define LOG_PASTE(a, b) LOG_PASTE_(a, b)
#define LOG_ALL(...) LOG_PASTE(LOG_, LOG_COUNT(__VA_ARGS__))(__VA_ARGS__)

#define CALL(function, ...) (log_begin(__LINE__, #function), LOG_ALL(__VA_ARGS__), log_then(), \
    log_result = function(__VA_ARGS__), LOG_ALL(__VA_ARGS__), log_end())
#define CALL0(function) (log_begin(__LINE__, #function), log_then(), log_result = function(), log_end())
#define CALL_TIME(function, into) (log_begin(__LINE__, #function), log_then(), (into) = function(), log_result = 0, \
    LOG_WRITE("\t%a", into), log_end())

/* What this library's handles and constants are. `class` as the record names it. */
#define LOG_CONSTANT(name) fprintf(log_file, "constant\t" #name "\t%lld\n", (long long)(intptr_t)(name))
#define LOG_HANDLE(class, name) (log_length = 0, LOG_ARGUMENT(name), fprintf(log_file, "handle\t" class "\t" #name "%s\n", log_line))

static inline void log_meanings(void) {
    LOG_CONSTANT(MPI_ANY_SOURCE); LOG_CONSTANT(MPI_PROC_NULL); LOG_CONSTANT(MPI_ROOT); LOG_CONSTANT(MPI_ANY_TAG);
    LOG_CONSTANT(MPI_UNDEFINED); LOG_CONSTANT(MPI_IN_PLACE); LOG_CONSTANT(MPI_BOTTOM);
    LOG_CONSTANT(MPI_LOCK_EXCLUSIVE); LOG_CONSTANT(MPI_LOCK_SHARED); LOG_CONSTANT(MPI_MODE_NOCHECK);
    LOG_CONSTANT(MPI_MODE_NOSTORE); LOG_CONSTANT(MPI_MODE_NOPUT); LOG_CONSTANT(MPI_MODE_NOPRECEDE); LOG_CONSTANT(MPI_MODE_NOSUCCEED);
    LOG_CONSTANT(MPI_STATUS_IGNORE); LOG_CONSTANT(MPI_STATUSES_IGNORE);
    LOG_HANDLE("COMM", MPI_COMM_NULL); LOG_HANDLE("COMM", MPI_COMM_WORLD); LOG_HANDLE("COMM", MPI_COMM_SELF);
    LOG_HANDLE("DATATYPE", MPI_DATATYPE_NULL); LOG_HANDLE("DATATYPE", MPI_INT); LOG_HANDLE("DATATYPE", MPI_CHAR);
    LOG_HANDLE("DATATYPE", MPI_DOUBLE); LOG_HANDLE("DATATYPE", MPI_BYTE); LOG_HANDLE("DATATYPE", MPI_PACKED);
    LOG_HANDLE("DATATYPE", MPI_LONG); LOG_HANDLE("DATATYPE", MPI_2INT); LOG_HANDLE("DATATYPE", MPI_AINT);
    LOG_HANDLE("OP", MPI_OP_NULL); LOG_HANDLE("OP", MPI_SUM); LOG_HANDLE("OP", MPI_MAX); LOG_HANDLE("OP", MPI_MAXLOC);
    LOG_HANDLE("OP", MPI_REPLACE); LOG_HANDLE("OP", MPI_NO_OP);
    LOG_HANDLE("GROUP", MPI_GROUP_NULL); LOG_HANDLE("GROUP", MPI_GROUP_EMPTY);
    LOG_HANDLE("REQUEST", MPI_REQUEST_NULL); LOG_HANDLE("WINDOW", MPI_WIN_NULL); LOG_HANDLE("FILE", MPI_FILE_NULL);
    LOG_HANDLE("INFO", MPI_INFO_NULL); LOG_HANDLE("MESSAGE", MPI_MESSAGE_NULL); LOG_HANDLE("MESSAGE", MPI_MESSAGE_NO_PROC);
    LOG_HANDLE("ERRHANDLER", MPI_ERRORS_RETURN); LOG_HANDLE("ERRHANDLER", MPI_ERRORS_ARE_FATAL); LOG_HANDLE("ERRHANDLER", MPI_ERRHANDLER_NULL);
#ifdef MPI_SESSION_NULL
    LOG_HANDLE("SESSION", MPI_SESSION_NULL);
#endif
}

#endif
