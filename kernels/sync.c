// Waiting. First spin, where every rank has a core of its own; then yield; then sleep until the bell rings. A waiter says
// that it sleeps before it looks a last time, and whoever comes looks for sleepers after it has come, so one of the two
// always sees the other. Only the last to come rings: nobody is woken to go back to sleep. Sleep ends every few
// milliseconds to look at the abort flag and the clock, so neither a lost peer nor a lost wake-up can hang a rank.
#if defined(__linux__)
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#elif !defined(__wasm__)
#include <sched.h>
#include <time.h>
#endif
#include "bytes.h"
#include "sync.h"

enum { SLEEPERS, EPOCH };  // the words of a bell
static const double SLICE = 20e-3;
// On a busy machine a yield can last as long as others' turns: who sleeps is given a core again sooner than who yields.
static const double MOST_YIELDING = 200e-6;

// x64's pause takes 40 ns: a spin of so many looks lasts about as long everywhere if it counts for several.
#if defined(__x86_64__)
enum { LOOKS_PER_PAUSE = 4 };
#else
enum { LOOKS_PER_PAUSE = 1 };
#endif

INLINE void pause_briefly(void) {
#if defined(__aarch64__)
  __asm__ volatile("isb");
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

INLINE void give_way(void) {
#if !defined(__wasm__)
  sched_yield();
#endif
}

static void sleep_on(int *epoch, int seen, double seconds) {
  const long nanoseconds = (long)((seconds < SLICE ? seconds : SLICE) * 1e9);
#if defined(__linux__)
  struct timespec slice = {0, nanoseconds};
  syscall(SYS_futex, epoch, FUTEX_WAIT_PRIVATE, seen, &slice, 0, 0);
#elif defined(__wasm__)
  __builtin_wasm_memory_atomic_wait32(epoch, seen, (long long)nanoseconds);
#else
  struct timespec moment = {0, 50000L};
  (void)epoch, (void)seen, (void)nanoseconds;
  nanosleep(&moment, 0);
#endif
}

void lockstep_wake(int *address) {
#if defined(__linux__)
  syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, 0x7fffffff, 0, 0, 0);
#elif defined(__wasm__)
  __builtin_wasm_memory_atomic_notify(address, 0xffffffffu);
#else
  (void)address;
#endif
}

INLINE int look(const int *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }

// The first of `count` counters, a line apart, that has not reached the collective; -1: all have.
static int missing(const int *counters, int count, int collective) {
  for (int i = 0; i < count; i++)
    if (look(counters + LINE * i) - collective < 0) return i;
  return -1;
}

static int aborted(struct context *c) {
  if (!c->abort || !look(c->abort)) return 0;
  c->error = LOCKSTEP_ABORTED;
  return 1;
}

// One rank gives up: so do all, each where it waits.
static void give_up(struct context *c) {
  c->error = LOCKSTEP_TIMEOUT;
  if (c->abort) __atomic_store_n(c->abort, 1, __ATOMIC_SEQ_CST);
}

static int wait_for(struct context *c, int *bell, const int *counters, int count, int collective) {
  for (int i = 0; i < c->spin; i += LOOKS_PER_PAUSE) {
    if (missing(counters, count, collective) < 0) return 1;
    pause_briefly();
  }
  const double start = lockstep_now(), deadline = start + c->timeout_ms * 1e-3;
  for (int i = 0; i < c->yields && lockstep_now() - start < MOST_YIELDING; i++) {
    if (missing(counters, count, collective) < 0) return 1;
    give_way();
  }
  __atomic_add_fetch(&bell[SLEEPERS], 1, __ATOMIC_SEQ_CST);
  for (;;) {
    int seen = look(&bell[EPOCH]), who = missing(counters, count, collective);
    __atomic_store_n(&c->status[STATUS_WAITING_FOR], who + 1, __ATOMIC_RELAXED);
    if (who < 0 || aborted(c)) break;
    if (lockstep_now() > deadline) {
      give_up(c);
      break;
    }
    sleep_on(&bell[EPOCH], seen, SLICE);
  }
  __atomic_sub_fetch(&bell[SLEEPERS], 1, __ATOMIC_SEQ_CST);
  return !c->error;
}

static void ring(int *bell) {
  __atomic_add_fetch(&bell[EPOCH], 1, __ATOMIC_SEQ_CST);
  lockstep_wake(&bell[EPOCH]);
}

// Sets a member's counter and rings the bell if it was the last to be set.
static void come(struct context *c, const struct collective *m, int member, int which) {
  __atomic_store_n(member_line(c, m->sync, member) + which, m->number, __ATOMIC_SEQ_CST);
  int *bell = group_bell(c, m->sync);
  if (look(&bell[SLEEPERS]) && missing(member_line(c, m->sync, 0) + which, m->members, m->number) < 0) ring(bell);
}

int lockstep_meet(struct context *c, const struct collective *m, int which) {
  return wait_for(c, group_bell(c, m->sync), member_line(c, m->sync, 0) + which, m->members, m->number);
}

// Who comes late finds a later collective's number: whatever it came for is done.
size lockstep_take(struct context *c, const struct collective *m, int share, size pieces) {
  int64_t *next = (int64_t *)(member_line(c, m->sync, share) + NEXT), seen = __atomic_load_n(next, __ATOMIC_SEQ_CST);
  for (;;) {
    const int ahead = (int)(seen >> 32) - m->number;
    const size piece = ahead < 0 ? 0 : ahead == 0 ? (size)(seen & 0xffffffff) : pieces;
    if (piece >= pieces) return -1;
    const int64_t taken = (int64_t)((uint64_t)m->number << 32) | (piece + 1);
    if (__atomic_compare_exchange_n(next, &seen, taken, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return piece;
  }
}

// Nobody takes a piece of the next collective before all of this one is done, so the count can begin again here.
void lockstep_finish(struct context *c, const struct collective *m, int share, size pieces) {
  int *finished = member_line(c, m->sync, share) + FINISHED;
  if (__atomic_add_fetch(finished, 1, __ATOMIC_SEQ_CST) < pieces) return;
  __atomic_store_n(finished, 0, __ATOMIC_SEQ_CST);
  come(c, m, share, DONE);
}

static int chosen(struct context *c, const struct collective *m, int share) {
  return (look(member_line(c, m->sync, share) + WAY) >> 1) - m->number >= 0;
}

int lockstep_choose(struct context *c, const struct collective *m, int share, int way) {
  int *word = member_line(c, m->sync, share) + WAY, seen = look(word), *bell = group_bell(c, m->sync);
  while ((seen >> 1) - m->number < 0)
    if (__atomic_compare_exchange_n(word, &seen, m->number << 1 | way, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      if (look(&bell[SLEEPERS])) ring(bell);
      return way;
    }
  return seen & 1;  // of a later collective: of this one nothing is left to do
}

void lockstep_await_choice(struct context *c, const struct collective *m, int share, double seconds) {
  int *bell = group_bell(c, m->sync);
  const double until = lockstep_now() + seconds;
  __atomic_add_fetch(&bell[SLEEPERS], 1, __ATOMIC_SEQ_CST);
  for (double left = seconds; left > 0; left = until - lockstep_now()) {
    const int seen = look(&bell[EPOCH]);
    if (chosen(c, m, share) || aborted(c)) break;
    sleep_on(&bell[EPOCH], seen, left);
  }
  __atomic_sub_fetch(&bell[SLEEPERS], 1, __ATOMIC_SEQ_CST);
}

COMMAND(start) {
  const struct collective m = collective_of(w);
  come(c, &m, m.me, ARRIVED);
}

COMMAND(barrier) {
  const struct collective m = collective_of(w);
  come(c, &m, m.me, ARRIVED);
  lockstep_meet(c, &m, ARRIVED);
}

static void post(int *line, int which, int message) {
  __atomic_store_n(&line[which], message, __ATOMIC_SEQ_CST);
  if (look(&line[MESSAGE_BELL + SLEEPERS])) ring(line + MESSAGE_BELL);
}

COMMAND(send) { post(ints(c, w[SEND_SYNC]), SENT, (int)w[SEND_MESSAGE]); }
COMMAND(recv) { post(ints(c, w[RECV_SYNC]), READY, (int)w[RECV_MESSAGE]); }

static void *end_of(const struct context *c, double offset, const int *said) {
  return address(c, offset < 0 ? *(const double *)said : offset);
}

// Once the other end has started, the first of the two takes the message and copies it; the other waits for that.
static void finish_message(struct context *c, const double *w, int other) {
  int *line = ints(c, w[WAIT_RECV_SYNC]), message = (int)w[WAIT_RECV_MESSAGE], before = message - 1;
  if (!wait_for(c, line + MESSAGE_BELL, line + other, 1, message)) return;
  if (!__atomic_compare_exchange_n(&line[TAKEN], &before, message, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    wait_for(c, line + MESSAGE_BELL, line + COPIED, 1, message);
    return;
  }
  const size bytes = (size)w[WAIT_RECV_BYTES];
  copy_bytes(end_of(c, w[WAIT_RECV_OUT], line + MESSAGE_OUT), end_of(c, w[WAIT_RECV_X], line + MESSAGE_X), bytes,
             bytes >= c->tuning.moving.streamed);
  post(line, COPIED, message);
}

COMMAND(waitRecv) { finish_message(c, w, SENT); }
COMMAND(waitSend) { finish_message(c, w, READY); }

COMMAND(copyBytes) {
  const size bytes = (size)w[COPY_BYTES_BYTES];
  copy_bytes(address(c, w[COPY_BYTES_OUT]), address(c, w[COPY_BYTES_X]), bytes, bytes >= c->tuning.moving.streamed);
}
