#ifndef COUNTING_H
#define COUNTING_H

#include <stdint.h>

/// How often the process has asked for memory so far, on any thread.
uint64_t allocation_count(void);

#endif
