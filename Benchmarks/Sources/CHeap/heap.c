#include "heap.h"

// Says which C library this is.
#include <stdlib.h>

// <malloc.h> is no part of the module that Swift imports from the C library.
#if defined(__GLIBC__)
#include <malloc.h>

size_t heap_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
#elif defined(__APPLE__)
#include <malloc/malloc.h>

size_t heap_bytes(void) {
    malloc_statistics_t statistics;
    malloc_zone_statistics(NULL, &statistics);
    return statistics.size_in_use;
}
#else
size_t heap_bytes(void) {
    return 0;
}
#endif
