/* The root of weft.native._kernel, a plain shared object that weft.native.kernel loads with ctypes.
 *
 * It is built by setuptools like an extension module but defines no PyInit function: nothing imports it, so it
 * needs no Python headers to build and serves every Python version. What Python and C share stands in headers:
 * weft.native.generate makes Python of them, and the state of them, weft_kernel_headers(), for the loader. */
#include "format.h"
