/* What the libraries of C and Fortran read and write for a program: the linker sends its calls here. */
#include "openmp.h"

typedef uint32_t library_place;
#define HERE place_of(PLACE)
#define WATCHED (now.on || now.devices)
#define RANGE(p, n, write, place) check_range_access((uintptr_t)(p), n, write, place)
#include "fortran.h"
#include "libc.h"

/* Wrap the packing of an array section for a procedure that needs it contiguous: the section is read if it is copied. */
LIBRARY(void *, internal_pack, struct descriptor *d) {
    uint32_t place = HERE;
    void *packed = __real__gfortran_internal_pack(d);
    if (packed != d->base) touch_array(d, false, place);
    return packed;
}

/* Wrap the unpacking of such a copy after the call: the section is written. */
LIBRARY(void, internal_unpack, struct descriptor *d, const void *packed) {
    if (packed != d->base) touch_array(d, true, HERE);
    __real__gfortran_internal_unpack(d, packed);
}

/* --- functions with data of their own (POSIX.1-2017, XSH 2.9.1), of which glibc keeps apart none by thread ------------- */

#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <search.h>
#include <time.h>

/* Where the data lie is known: they are what is returned. weft.openmp.library_functions names them. */
#define RETURNS(type, name, size, given, parameters)                                                                   \
    WRAP(type *, name, parameters) {                                                                                   \
        type *p = __real_##name given;                                                                                 \
        if (p) WRITTEN(p, size);                                                                                       \
        return p;                                                                                                      \
    }
RETURNS(struct tm, gmtime, sizeof *p, (t), const time_t *t)
RETURNS(struct tm, localtime, sizeof *p, (t), const time_t *t)
RETURNS(char, asctime, __real_strlen(p) + 1, (t), const struct tm *t)
RETURNS(char, ctime, __real_strlen(p) + 1, (t), const time_t *t)
RETURNS(struct passwd, getpwnam, sizeof *p, (name), const char *name)
RETURNS(struct passwd, getpwuid, sizeof *p, (user), uid_t user)
RETURNS(struct group, getgrnam, sizeof *p, (name), const char *name)
RETURNS(struct group, getgrgid, sizeof *p, (group), gid_t group)
RETURNS(struct hostent, gethostbyname, sizeof *p, (name), const char *name)

/* Where they lie is not known: this stands for them. */
static char weft_state_of_strtok, weft_state_of_drand48, weft_state_of_environment, weft_state_of_search;
#define KEEPS(type, name, state, write, given, ...)                                                                    \
    WRAP(type, name, __VA_ARGS__) {                                                                                    \
        if (WATCHED) RANGE(&weft_state_of_##state, 1, write, HERE);                                                    \
        return __real_##name given;                                                                                    \
    }
KEEPS(char *, strtok, strtok, true, (text, separators), char *text, const char *separators)
KEEPS(double, drand48, drand48, true, (), void)
KEEPS(long, lrand48, drand48, true, (), void)
KEEPS(long, mrand48, drand48, true, (), void)
KEEPS(void, srand48, drand48, true, (seed), long seed)
KEEPS(char *, getenv, environment, false, (name), const char *name)
KEEPS(int, setenv, environment, true, (name, value, anew), const char *name, const char *value, int anew)
KEEPS(int, unsetenv, environment, true, (name), const char *name)
KEEPS(int, putenv, environment, true, (text), char *text)
KEEPS(ENTRY *, hsearch, search, true, (entry, action), ENTRY entry, ACTION action)
