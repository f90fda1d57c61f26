// What the files of this folder share: the state of a rank while it executes a list, and the few kernels that others are
// built from. The commands, the names of their words, one function per command and all codes are commands.h.
#pragma once
#include "commands.h"
#include "vector.h"

// The largest blocks of a product that are packed at once: k of one pass, rows of a and columns of b. Up to `unpacked`
// columns rows of a are read where they lie: packing them would cost more than it saves.
struct blocks {
  size k, rows, columns, unpacked;
};

// How bytes move between ranks: pieces that are taken at once; up to how many elements of a tensor lines to be written are
// fetched, and how many elements ahead; from how many bytes on a result is written past the caches, and one that is made of codes.
struct moving {
  size piece, fetched, ahead, streamed, coded;
};

// How the kernels are tuned to the machine: the same for all ranks of a run.
struct tuning {
  const struct variant *variant;  // of the register tile: matmul.h
  struct blocks blocks;
  struct moving moving;
  int tiles;  // whether matmul may use the CPU's matrix tiles
};

struct context {
  struct tuning tuning;
  char *base;    // of the memory all ranks share: offsets in commands count from here
  int *status;   // this rank's status block
  int *abort;    // nonzero: stop waiting; null before `config`
  double timeout_ms;
  int spin, yields;
  double *spans;  // ring of (command, start, end), or null
  size span_capacity;
  char *workspace;
  size workspace_bytes;
  int error;  // a command that fails sets it; the list stops there
  const double *dither;  // how the parameter of the next command is rounded by chance; null: it is rounded to the nearest
};

// What `config` should give: enough for every matmul, and for attention up to headDim 1024.
#define VECTORS_BYTES ((size)4 << 20)
#if defined(__AMX_BF16__) && defined(__AMX_TILE__) && defined(__AVX512BW__) && defined(__linux__)
#define HAS_TILES
#define TILES_BYTES ((size)4 << 20)
#else
#define TILES_BYTES ((size)0)
#endif
#define SUMS_BYTES ((size)4 << 20)  // of a block of a product that is rounded: at most 384 rows and 2048 columns (tuning.ts)
#define LOCKSTEP_WORKSPACE_BYTES (TILES_BYTES + VECTORS_BYTES + SUMS_BYTES)

// From the words that JavaScript asks in.
struct tuning tuning_of(const int32_t *words);

int lockstep_exec(char *base, double *list, char *status, struct tuning tuning);
double lockstep_now(void);  // seconds, never going back

// A word that is an offset, as a pointer. Added as integers: WebAssembly's base is 0, and a compiler may take a pointer
// that was made from a null pointer to be null.
INLINE void *address(const struct context *c, double offset) { return (void *)((intptr_t)c->base + (intptr_t)offset); }
INLINE float *floats(const struct context *c, double offset) { return address(c, offset); }
INLINE int *ints(const struct context *c, double offset) { return address(c, offset); }

// sync.c
void lockstep_wake(int *address);
