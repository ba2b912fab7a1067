/* Level order: see later. */
#include "wrap.h"
