// Numbers of codes, wherever those lie.
#pragma once
#include "numbers.h"

// Numbers `from` to `to` of a part, whose codes and units begin at these places, go to `out` from its number `at` on; past the caches
// where `out` is large.
void decode_part(struct numbers out, size at, const signed char *codes, const float *units, size run, size from, size to, int large);
