#ifndef HEAP_H
#define HEAP_H

#include <stddef.h>

/// The bytes that are allocated at the moment, as the allocator counts them; 0 where it does not say.
size_t heap_bytes(void);

#endif
