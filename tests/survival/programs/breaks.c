/* Preloaded behind the recorder: makes one part of it crash, by memory that is gone under its hands.
 *
 * BREAKS=heap: the copy of heads of malloc's chunks; copies: that of what messages and watched buffers hold; asks: what the
 * recorder gives MPI when it asks what a datatype is made of. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, LARGE = 1 << 14 };

static bool wanted(const char *what) { return getenv("BREAKS") && !strcmp(getenv("BREAKS"), what); }

static bool of_recorder(const void *address) {
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname && strstr(info.dli_fname, "libweft-shim");
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n, const struct iovec *from, unsigned long m,
                         unsigned long flags) {
    static ssize_t (*real)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
                           unsigned long);
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, "process_vm_readv");
    ssize_t got = real(pid, to, n, from, m, flags);
    if (pid != getpid()) return got; /* MPI's way to carry messages */
    uintptr_t start = (uintptr_t)to->iov_base, middle = start + to->iov_len / 2;
    bool own = of_recorder(to->iov_base), on_stack = start - (uintptr_t)__builtin_frame_address(0) < 1 << 20;
    if (own && wanted("heap")) mprotect((void *)(start / PAGE * PAGE), PAGE, PROT_NONE);
    if (!own && !on_stack && to->iov_len >= LARGE && wanted("copies"))
        mprotect((void *)(middle / PAGE * PAGE), PAGE, PROT_NONE);
    return got;
}

/* Goes on to MPI by a jump, without a frame of its own. */
#define CONTENTS(name, parameters, ...)                                                                                \
    __attribute__((optimize("O2"))) uintptr_t name parameters {                                                        \
        static uintptr_t(*real) parameters;                                                                            \
        if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, "P" #name);                                               \
        if (wanted("asks") && of_recorder(__builtin_return_address(0))) ints = 64;                                     \
        return real(__VA_ARGS__);                                                                                      \
    }
CONTENTS(MPI_Type_get_contents,
         (uintptr_t type, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t ints, uintptr_t e, uintptr_t f), type, a, b,
         c, ints, e, f)
CONTENTS(MPI_Type_get_contents_c,
         (uintptr_t type, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t ints, uintptr_t f, uintptr_t g,
          uintptr_t h),
         type, a, b, c, d, ints, f, g, h)
