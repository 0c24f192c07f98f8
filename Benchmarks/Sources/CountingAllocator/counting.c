#include "counting.h"
