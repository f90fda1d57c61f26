// How ranks wait for each other: blocks of counters in the memory they share, and a bell for those that sleep.
#pragma once
#include "kernels.h"

// A block is made of lines of 64 bytes, so that counters of different ranks never share one (LINE words).
// The first line of a group's block is its bell. A member's line, after it, says which collective the member has come to
// last, and of its share of the work: the last collective done, the next piece to take (an i64: of which collective, and which
// piece), how many pieces of the current collective are finished, and which of two ways its share goes (twice the collective, plus one
// for the second), where there are two.
enum { ARRIVED, DONE, NEXT, FINISHED = 4, WAY };
// A message's block is one line: counters of messages, the bell, and two f64 where both ends may say what they bring.
enum { SENT, READY, TAKEN, COPIED, MESSAGE_BELL };

INLINE int *group_bell(const struct context *c, double sync) { return ints(c, sync); }
INLINE int *member_line(const struct context *c, double sync, int member) { return ints(c, sync) + LINE * (1 + member); }

// One member at one collective of a group.
struct collective {
  double sync;
  int me, members, number;
};

// Every command of a collective begins with the same words.
INLINE struct collective collective_of(const double *w) {
  return (struct collective){w[START_SYNC], (int)w[START_ME], (int)w[START_MEMBERS], (int)w[START_COLLECTIVE]};
}

// Waits until that counter of every member has reached the collective. On failure c->error is set: returns 0.
int lockstep_meet(struct context *c, const struct collective *m, int which);
// The next piece of a member's share that nobody has taken; -1: all are.
size lockstep_take(struct context *c, const struct collective *m, int share, size pieces);
// A piece that was taken is finished. Rings the bell if nothing is left to do at the collective.
void lockstep_finish(struct context *c, const struct collective *m, int share, size pieces);

// Which way a member's share goes: this one, unless somebody has said so before.
int lockstep_choose(struct context *c, const struct collective *m, int share, int way);
// Sleeps until somebody has said so, but not longer.
void lockstep_await_choice(struct context *c, const struct collective *m, int share, double seconds);

// Every collective: everybody has come, the work, all of it is done. A share has `whole` elements (or bytes), a piece of
// it `piece`, and `work` does those from `low` to `high`. In collectives.c.
typedef void work(struct context *c, const double *w, int share, size low, size high);
void share_out(struct context *c, const double *w, size whole, size piece, work *work);
