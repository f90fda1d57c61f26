// How ranks wait for each other: blocks of counters in the memory they share, and a bell for those that sleep.
#pragma once
#include "kernels.h"

// A block is made of lines of 64 bytes, so that counters of different ranks never share one.
enum { LINE = 16 };
// The first line of a group's block is its bell. A member's line, after it, holds these counters of meetings.
enum { ARRIVED, LEFT };
// A message's block is one line: counters of messages, the bell, and two f64 where both ends may say what they bring.
enum { SENT, READY, TAKEN, COPIED, MESSAGE_BELL, MESSAGE_X = 8, MESSAGE_OUT = 10 };

INLINE int *group_bell(const struct context *c, double sync) { return ints(c, sync); }
INLINE int *member_line(const struct context *c, double sync, int member) { return ints(c, sync) + LINE * (1 + member); }

// Sets a member's counter and rings the bell if it was the last to come.
void lockstep_come(struct context *c, double sync, int me, int members, int which, int meeting);
// Waits until that counter of every member has reached the meeting. On failure c->error is set: returns 0.
int lockstep_meet(struct context *c, double sync, int members, int which, int meeting);
