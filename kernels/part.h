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

static inline struct run first_run(struct part p) {
  return (struct run){0, p.origin, p.until < p.length ? p.until : p.length};
}
// After the last: a run of no elements.
static inline struct run next_run(struct part p, struct run r) {
  const size first = r.first + r.length;
  return (struct run){first, p.origin + first + p.gap, p.length - first};
}
// At most so many of its elements, from `at` on.
static inline struct run piece_of(struct run r, size at, size most) {
  return (struct run){r.first + at, r.position + at, r.length - at < most ? r.length - at : most};
}
#define EACH_RUN(run, part) for (struct run run = first_run(part); run.length > 0; run = next_run(part, run))
#endif
