/* Probes for C and C++: values that `weft run` writes down and `weft compare` holds against another run's.
 *
 *     #include <weft.h>                              // cc $(weft probes --cflags) ...
 *
 *     for (int i = 0; i < steps; i++) {
 *         weft_loop("sweep", i);                     // iteration i begins; the one before has ended
 *         weft_probe("residual", &residual, double); // one value
 *         weft_probe_n("row", a, double, n);         // n of them
 *     }
 *     weft_end("sweep");
 *
 *     weft_part(u, double, "u", 2, WEFT_LIST(rows + 2, n + 2), WEFT_LIST(1, 1), cart); // an array with ghost cells
 *
 * Nothing is linked. Without `weft run` each line is a test of one variable. Compile with -DWEFT_OFF to leave even that out.
 */
#ifndef WEFT_H
#define WEFT_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "weft_array.h"

#define WEFT_ENTRIES(X)                                                                                                \
    X(place, uint32_t, (int kind, const char *name, const char *file, uint32_t line, const char *function))            \
    X(enter, void, (uint32_t place, int64_t index))                                                                    \
    X(nest, void, (uint32_t place, int64_t index))                                                                     \
    X(leave, void, (uint32_t place))                                                                                   \
    X(probe, void, (uint32_t place, const struct weft_array *array))

#ifdef __cplusplus
extern "C" {
#endif

struct weft_entries {
#define WEFT_ENTRY(name, type, parameters) type(*name) parameters;
    WEFT_ENTRIES(WEFT_ENTRY)
#undef WEFT_ENTRY
};

#if defined(WEFT_OFF) || !defined(__GNUC__) || defined(WEFT_CAPTURE)
static inline struct weft_entries *weft_entries(void) { return NULL; }
#else
/* A libc that has them in another library links all the same. */
#pragma weak dlopen
#pragma weak dlsym

/* Return what `weft run` offers to probes; NULL without it. */
static inline struct weft_entries *weft_entries(void) {
    static struct weft_entries *known;
    static int asked;
    if (__builtin_expect(asked, 1)) return known;
    const char *path = getenv("WEFT_INTERNAL_VALUES_LIBRARY");
    void *library = path && dlopen && dlsym ? dlopen(path, 2 /* RTLD_NOW */) : NULL;
    struct weft_entries *(*give)(void) = NULL;
    if (library) *(void **)(&give) = dlsym(library, "weft_values_entries");
    known = give ? give() : NULL;
    asked = 1;
    return known;
}
#endif

#ifdef __GNUC__
#define WEFT_KNOWN(pointer, size)                                                                                      \
    (__builtin_object_size((const void *)(pointer), 0) != (size_t)-1 &&                                                \
     __builtin_object_size((const void *)(pointer), 0) >= (size))
#else
#define WEFT_KNOWN(pointer, size) 0
#endif

enum { WEFT_IS_PROBE = 1, WEFT_IS_LOOP = 2, WEFT_IS_REGION = 3, WEFT_IS_END = 5 };

#define WEFT_PLACE(kind, name)                                                                                         \
    static uint32_t weft_here;                                                                                         \
    if (!weft_here) weft_here = weft_entries()->place(kind, name, __FILE__, __LINE__, __func__)

/* Iteration `index` of the loop `name` begins; an earlier one that is still open has ended. */
#define weft_loop(name, index)                                                                                         \
    do {                                                                                                               \
        if (weft_entries()) {                                                                                          \
            WEFT_PLACE(WEFT_IS_LOOP, name);                                                                            \
            weft_entries()->enter(weft_here, index);                                                                   \
        }                                                                                                              \
    } while (0)

/* A part of the program begins that is no loop: a procedure, a phase. */
#define weft_region(name)                                                                                              \
    do {                                                                                                               \
        if (weft_entries()) {                                                                                          \
            WEFT_PLACE(WEFT_IS_REGION, name);                                                                          \
            weft_entries()->enter(weft_here, 0);                                                                       \
        }                                                                                                              \
    } while (0)

/* The loop or region `name` has ended. */
#define weft_end(name)                                                                                                 \
    do {                                                                                                               \
        if (weft_entries()) {                                                                                          \
            WEFT_PLACE(WEFT_IS_END, name);                                                                             \
            weft_entries()->leave(weft_here);                                                                          \
        }                                                                                                              \
    } while (0)

/* The letter of a type of numbers, as numpy's; of other types v, which is refused. */
#ifdef __cplusplus
}
#include <complex>
#include <initializer_list>
#include <type_traits>
template <class T> struct weft_letter {
    static const int value = std::is_same<T, bool>::value       ? 'b'
                             : std::is_floating_point<T>::value ? 'f'
                             : !std::is_integral<T>::value      ? 'v'
                             : std::is_signed<T>::value         ? 'i'
                                                                : 'u';
};
template <class T> struct weft_letter<std::complex<T>> {
    static const int value = 'c';
};
#define WEFT_LETTER(type) weft_letter<type>::value
#define WEFT_LIST(...) (std::initializer_list<int64_t>{__VA_ARGS__}.begin())
extern "C" {
#else
#define WEFT_LETTER(type)                                                                                              \
    _Generic((type)0,                                                                                                  \
        _Bool: 'b',                                                                                                    \
        char: (char)-1 < 0 ? 'i' : 'u',                                                                                \
        signed char: 'i',                                                                                              \
        short: 'i',                                                                                                    \
        int: 'i',                                                                                                      \
        long: 'i',                                                                                                     \
        long long: 'i',                                                                                                \
        unsigned char: 'u',                                                                                            \
        unsigned short: 'u',                                                                                           \
        unsigned: 'u',                                                                                                 \
        unsigned long: 'u',                                                                                            \
        unsigned long long: 'u',                                                                                       \
        float: 'f',                                                                                                    \
        double: 'f',                                                                                                   \
        long double: 'f',                                                                                              \
        float _Complex: 'c',                                                                                           \
        double _Complex: 'c',                                                                                          \
        long double _Complex: 'c',                                                                                     \
        default: 'v')
#define WEFT_LIST(...) ((const int64_t[]){__VA_ARGS__})
#endif

/* A variable of some type. One that the compiler knows is copied: its own address goes nowhere, so that it may stay in a
 * register. Any other pointer is handed on, and looked at before it is followed. */
#define weft_probe(name, pointer, type)                                                                                \
    do {                                                                                                               \
        if (weft_entries()) {                                                                                          \
            const int weft_known = WEFT_KNOWN(pointer, sizeof(type));                                                  \
            type weft_value = weft_known ? *(pointer) : (type)0;                                                       \
            const void *weft_at = weft_known ? (const void *)&weft_value : (const void *)(pointer);                    \
            WEFT_PLACE(WEFT_IS_PROBE, name);                                                                           \
            weft_probe_array(weft_here, weft_at, WEFT_LETTER(type), sizeof(type), NULL, 0, WEFT_LIST(0), WEFT_LIST(0), \
                             WEFT_LIST(0));                                                                            \
        }                                                                                                              \
    } while (0)

/* `count` elements one behind the other. */
#define weft_probe_n(name, pointer, type, count)                                                                       \
    weft_probe_part(name, pointer, type, NULL, 1, WEFT_LIST(count), WEFT_LIST(0), WEFT_LIST(1))

/* Elements of an array in `dims` dimensions: `shape` of them, which are those from `lower` on of the global array `of`.
 * `pitch`: how many elements the array in memory has in each dimension, ghost cells and padding too; never fewer than `shape`
 * (that of the first dimension does not matter). Shape, lower and pitch are arrays of int64_t; WEFT_LIST(3, 4) makes one. */
#define weft_probe_part(name, pointer, type, of, dims, shape, lower, pitch)                                            \
    do {                                                                                                               \
        if (weft_entries()) {                                                                                          \
            WEFT_PLACE(WEFT_IS_PROBE, name);                                                                           \
            weft_probe_array(weft_here, pointer, WEFT_LETTER(type), sizeof(type), of, dims, shape, lower, pitch);      \
        }                                                                                                              \
    } while (0)

/* Record an array at a place; `pitch` gives the distances of its elements in memory. */
static inline void weft_probe_array(uint32_t place, const void *data, int type, size_t size, const char *of, int dims,
                                    const int64_t *shape, const int64_t *lower, const int64_t *pitch) {
#ifdef __cplusplus
    struct weft_array array = {};
#else
    struct weft_array array = {0};
#endif
    array.data = data;
    array.of = of;
    array.type = (uint8_t)type;
    array.size = (uint8_t)size;
    array.dims = (uint8_t)dims;
    int64_t stride = (int64_t)size;
    for (int d = dims - 1; d >= 0 && dims <= 8; d--) {
        array.shape[d] = shape[d];
        array.lower[d] = lower[d];
        array.stride[d] = stride;
        stride *= pitch[d];
        if (d && pitch[d] < shape[d]) array.dims = WEFT_SMALL_PITCH;
    }
    weft_entries()->probe(place, &array);
}

/* An array with ghost cells, before it is filled: `shape` elements in `dims` dimensions, the last index fastest, of which the
 * outermost are copies of what other ranks own: `halo` at both ends of each dimension. The communicator, best a Cartesian
 * one, says whose they are; `of` is the array's name. What the program does to it is seen if `weft cc` compiled it. Memory
 * that is given back by another way than free, realloc or delete: say weft_part_end before. */
#define weft_part(pointer, type, of, dims, shape, halo, comm)                                                          \
    weft_part_lagging(pointer, type, of, dims, shape, halo, comm, 0)

/* The same, where receives tell how wide the ghosts are. */
#define weft_part_inferred(pointer, type, of, dims, shape, comm)                                                       \
    weft_part_lagging(pointer, type, of, dims, shape, (const int64_t *)0, comm, 0)

/* The same, where a ghost may be older than its owner's cell by so many changes. */
#define weft_part_lagging(pointer, type, of, dims, shape, halo, comm, lag)                                             \
    do {                                                                                                               \
        __typeof__(comm) weft_comm = (comm);                                                                           \
        const char *const weft_at[2] = {__FILE__, __func__};                                                           \
        weft_part_declare(pointer, WEFT_LETTER(type), sizeof(type), of, dims, shape, halo, &weft_comm, lag, weft_at,   \
                          __LINE__);                                                                                   \
    } while (0)

/* The same, where the communicator's grid is not the array's: `lower` is the index, in the array that all ranks share, of the
 * first cell that this rank owns, `periodic` says which dimensions go round. */
#define weft_part_at(pointer, type, of, dims, shape, halo, lower, periodic)                                            \
    weft_part_at_lagging(pointer, type, of, dims, shape, halo, lower, periodic, 0)

#define weft_part_at_lagging(pointer, type, of, dims, shape, halo, lower, periodic, lag)                               \
    do {                                                                                                               \
        const char *const weft_at[2] = {__FILE__, __func__};                                                           \
        weft_part_declare_at(pointer, WEFT_LETTER(type), sizeof(type), of, dims, shape, halo, lower, periodic, lag,    \
                             weft_at, __LINE__);                                                                       \
    } while (0)

#if defined(WEFT_OFF) || !defined(__GNUC__) || defined(WEFT_CAPTURE)
static inline void *weft_recorder(const char *name) { return (void)name, (void *)0; }
#else
static inline void *weft_recorder(const char *name) { return dlsym ? dlsym(NULL, name) : NULL; }
#endif

/* Tell the recorder, if there is one, of an array with ghost cells, by its communicator. */
static inline void weft_part_declare(const void *data, int letter, size_t size, const char *of, int dims,
                                     const int64_t *shape, const int64_t *halo, const void *comm, int lag,
                                     const char *const at[2], int line) {
    void (*part)(const void *, int, size_t, const char *, int, const int64_t *, const int64_t *, const void *, int,
                 const char *const *, int);
    *(void **)(&part) = weft_recorder("weft_halo_part");
    if (part) part(data, letter, size, of, dims, shape, halo, comm, lag, at, line);
}

/* Tell the recorder of an array with ghost cells, by its place in the array that all ranks share. */
static inline void weft_part_declare_at(const void *data, int letter, size_t size, const char *of, int dims,
                                        const int64_t *shape, const int64_t *halo, const int64_t *lower,
                                        const int64_t *periodic, int lag, const char *const at[2], int line) {
    void (*part)(const void *, int, size_t, const char *, int, const int64_t *, const int64_t *, const int64_t *,
                 const int64_t *, int, const char *const *, int);
    *(void **)(&part) = weft_recorder("weft_halo_part_at");
    if (part) part(data, letter, size, of, dims, shape, halo, lower, periodic, lag, at, line);
}

/* Tell the recorder that an array ends here: what lies at its place later is another one. */
static inline void weft_part_end(const void *data) {
    void (*end)(const void *);
    *(void **)(&end) = weft_recorder("weft_halo_part_end");
    if (end) end(data);
}

#ifdef __cplusplus
}
#endif
#endif
