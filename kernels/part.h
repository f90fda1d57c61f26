// A rank's part of a dim: one run of positions, or two. Its first `until` elements follow each other from `origin` on; then
// `gap` positions are skipped.
#ifndef LOCKSTEP_PART_H
#define LOCKSTEP_PART_H
#include "kernels.h"

struct part {
  size length, origin, until, gap;
};

// Elements that follow each other both in the part and in the whole: the first, and its position.
struct run {
  size first, position, length;
};

// At most so many of its elements, from `at` on.
static inline struct run piece_of(struct run r, size at, size most) {
  return (struct run){r.first + at, r.position + at, r.length - at < most ? r.length - at : most};
}
#endif
