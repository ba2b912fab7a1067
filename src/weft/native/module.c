/* The root of weft.native._kernel, a plain shared object that weft.native.kernel loads with ctypes.
 *
 * It is built by setuptools like an extension module but defines no PyInit function: nothing imports it, so it
 * needs no Python headers to build and serves every Python version. */
#include "format.h"

#define EXPORT __attribute__((visibility("default")))

/* Layout version this object was compiled with, checked by the loader: a stale build must not write records. */
EXPORT int weft_kernel_format_version(void);
EXPORT int weft_kernel_format_version(void) { return WEFT_FORMAT_MAJOR << 16 | WEFT_FORMAT_MINOR; }
