// The variants of the register tile in this build, and the tuning that JavaScript asks for.
#include "matmul.h"

#ifndef VARIANTS  // the script that builds names those of variants.mjs that are for this target
#define VARIANTS X(variant_plain)
#endif
#define X(name) extern const struct variant name;
VARIANTS
#undef X
#define X(name) &name,
static const struct variant *const variants[] = {VARIANTS};
#undef X

const struct variant *variant_at(int index) {
  const int count = sizeof variants / sizeof *variants;
  return index >= 0 && index < count ? variants[index] : 0;
}

struct tuning tuning_of(const int32_t *words) {
  const struct variant *asked = variant_at(words[TUNING_VARIANT]);
  return (struct tuning){.variant = asked ? asked : variants[0],
                         .tiles = words[TUNING_TILES] != 0,
                         .blocks = {.k = words[TUNING_BLOCK_K],
                                    .rows = words[TUNING_BLOCK_ROWS],
                                    .columns = words[TUNING_BLOCK_COLUMNS],
                                    .unpacked = words[TUNING_UNPACKED]},
                         .moving = {.piece = words[TUNING_PIECE_BYTES],
                                    .fetched = words[TUNING_FETCHED],
                                    .ahead = words[TUNING_FETCHED_AHEAD],
                                    .streamed = words[TUNING_STREAMED_BYTES],
                                    .coded = words[TUNING_CODED_BYTES]}};
}
