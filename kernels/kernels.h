// What the files of this folder share: the state of a rank while it executes a list, one function per command, and the
// few kernels that others are built from. The commands and the names of their words are commands.h.
#pragma once
#include "commands.h"
#include "vector.h"

enum {
  LOCKSTEP_OK = 0,
  LOCKSTEP_ABORTED = 1,    // the abort flag was raised while this rank waited
  LOCKSTEP_TIMEOUT = 2,    // a peer did not come
  LOCKSTEP_UNKNOWN = 3,    // an opcode that is not in the table
  LOCKSTEP_WORKSPACE = 4,  // a kernel needs more workspace than `config` gave
};

// A rank's status block: i32 words, then live and peak bytes of the kinds of memory. As Status in commands.ts.
enum { STATUS_COMMAND, STATUS_ERROR, STATUS_WAITING_FOR, STATUS_SPANS };
#define STATUS_LIVE_BYTES 64
#define MEMORY_KINDS 6

struct context {
  char *base;    // of the memory all ranks share: offsets in commands count from here
  int *status;   // this rank's status block
  int tiles;     // whether matmul may use the CPU's matrix tiles
  int *abort;    // nonzero: stop waiting; null before `config`
  double timeout_ms;
  int spin, yields;
  double *spans;  // ring of (command, start, end), or null
  size span_capacity;
  char *workspace;
  size workspace_bytes;
  int error;  // a command that fails sets it; the list stops there
};

// What `config` should give: enough for every matmul, and for attention up to headDim 1024.
#define VECTORS_BYTES ((size)4 << 20)
#if defined(__AMX_BF16__) && defined(__AMX_TILE__) && defined(__AVX512BW__) && defined(__linux__)
#define HAS_TILES
#define TILES_BYTES ((size)4 << 20)
#else
#define TILES_BYTES ((size)0)
#endif
#define LOCKSTEP_WORKSPACE_BYTES (VECTORS_BYTES + TILES_BYTES)

int lockstep_exec(char *base, double *list, char *status, int tiles);
double lockstep_now(void);  // seconds, never going back

// A word that is an offset, as a pointer. Added as integers: WebAssembly's base is 0, and a compiler may take a pointer
// that was made from a null pointer to be null.
INLINE void *address(const struct context *c, double offset) { return (void *)((intptr_t)c->base + (intptr_t)offset); }
INLINE float *floats(const struct context *c, double offset) { return address(c, offset); }
INLINE int *ints(const struct context *c, double offset) { return address(c, offset); }

#define COMMAND(name) void cmd_##name(struct context *c, const double *w)

COMMAND(config);
COMMAND(alloc);
COMMAND(free);
COMMAND(matmul);
COMMAND(add);
COMMAND(mul);
COMMAND(scale);
COMMAND(sumRows);
COMMAND(sumColumns);
COMMAND(gelu);
COMMAND(geluGrad);
COMMAND(swiglu);
COMMAND(swigluGrad);
COMMAND(layerNorm);
COMMAND(layerNormInputGrad);
COMMAND(layerNormWeightGrad);
COMMAND(rmsNorm);
COMMAND(rmsNormInputGrad);
COMMAND(rmsNormWeightGrad);
COMMAND(rope);
COMMAND(attention);
COMMAND(attentionGrad);
COMMAND(dropout);
COMMAND(embed);
COMMAND(embedGrad);
COMMAND(maxColumns);
COMMAND(sumExp);
COMMAND(pick);
COMMAND(tokenLoss);
COMMAND(tokenLossGrad);
COMMAND(countLabels);
COMMAND(squaredError);
COMMAND(squaredErrorGrad);
COMMAND(fill);
COMMAND(accumulate);
COMMAND(sumSquares);
COMMAND(adamw);
COMMAND(sgd);
COMMAND(copy);
// sync.c and collectives.c
COMMAND(start);
COMMAND(waitAllReduce);
COMMAND(waitAllGather);
COMMAND(waitReduceScatter);
COMMAND(waitAllToAll);
COMMAND(send);
COMMAND(waitRecv);
COMMAND(waitSend);
COMMAND(barrier);
COMMAND(copyBytes);
COMMAND(recv);
COMMAND(waitSeveral);
void lockstep_wake(int *address);
