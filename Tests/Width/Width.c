#include "Width.h"

#include <stdlib.h>

// Before main, and so before the runner of the tests reads it; who has set it already knows better.
__attribute__((constructor)) static void setWidth(void) {
    setenv("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", "48", 0);
}
