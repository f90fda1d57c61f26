// Executes a list of commands from end to end: no call back into JavaScript, one table look-up a command.
// The index of the command about to run is always in the status block, so that whoever watches a rank that stands
// still can name what it stands in.
#include "steps.h"

static kernel *const table[CMD_COUNT] = COMMAND_TABLE;

COMMAND(config) {
  c->abort = w[CONFIG_ABORT] ? ints(c, w[CONFIG_ABORT]) : 0;
  c->timeout_ms = w[CONFIG_TIMEOUT_MS];
  c->spin = (int)w[CONFIG_SPIN];
  c->yields = (int)w[CONFIG_YIELDS];
  c->spans = w[CONFIG_SPANS] ? address(c, w[CONFIG_SPANS]) : 0;
  c->span_capacity = (size)w[CONFIG_SPAN_CAPACITY];
  c->workspace = address(c, w[CONFIG_WORKSPACE]);
  c->workspace_bytes = (size)w[CONFIG_WORKSPACE_BYTES];
}

static void account(struct context *c, size kind, double bytes) {
  double *live = (double *)((char *)c->status + STATUS_LIVE_BYTES), *peak = live + MEMORY_KINDS;
  live[kind] += bytes;
  if (live[kind] > peak[kind]) peak[kind] = live[kind];
}

COMMAND(alloc) { account(c, (size)w[ALLOC_KIND], w[ALLOC_BYTES]); }
COMMAND(free) { account(c, (size)w[FREE_KIND], -w[FREE_BYTES]); }

// The count in the status block goes on from list to list; whoever reads the spans sets it back to 0.
static void record(struct context *c, int command, double start, double end) {
  if (c->span_capacity <= 0) return;
  unsigned count = (unsigned)c->status[STATUS_SPANS];
  double *span = c->spans + count % (size_t)c->span_capacity * 3;
  span[0] = command;
  span[1] = start;
  span[2] = end;
  c->status[STATUS_SPANS] = (int)(count + 1);
}

static void compute(struct context *c, int opcode, const double *words) {
  if (needs_steps(opcode, words))
    run_in_steps(c, opcode, words, table[opcode]);
  else
    table[opcode](c, words);
}

static void run(struct context *c, int opcode, const double *words, int index) {
  if (!c->spans) {
    compute(c, opcode, words);
    return;
  }
  double start = lockstep_now();
  compute(c, opcode, words);
  record(c, index, start, lockstep_now());
}

int lockstep_exec(char *base, double *list, char *status, struct tuning tuning) {
  struct context c = {.base = base, .status = (int *)status, .tuning = tuning};
  for (int index = 0;; index++) {
    __atomic_store_n(&c.status[STATUS_COMMAND], index, __ATOMIC_RELAXED);
    size opcode = (size)list[0];
    if (opcode == CMD_END) break;
    if (opcode < 0 || opcode >= CMD_COUNT)
      c.error = LOCKSTEP_UNKNOWN;
    else
      run(&c, (int)opcode, list + 2, index);
    if (c.error) break;
    list += 2 + (size)list[1];
  }
  c.status[STATUS_ERROR] = c.error;
  return c.error;
}
