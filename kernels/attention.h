// Causal attention by blocks, after Rabe and Staats, Milakov and Gimelshein, and Dao: a block of queries meets one block
// of keys after the other and keeps a running maximum and sum per query, so the seq x seq matrix never exists. Backward
// computes the probabilities again from the log-sum-exp. Every product is the matmul's register tile. Scores lie by key, so
// that a lane is a query: maxima, sums and masks of a vector of queries wait for no other lane, and keys are multiplied where they lie.
//
// The plain rung: score = scale q.k for the keys a query sees, p = exp(score - lse), out = sum of mask p v;
// dscore = scale p (mask dout.v - dout.out), and dq, dk, dv are products with it. Queries and keys are `depth` wide, values
// and what becomes of them `width`.
//
// attention-blocks.c has what forward (attention.c) and backward (attention-grad.c) share: what a command asks for, products near the
// diagonal, and which keys a query sees.
#pragma once
#include "functions.h"
#include "matmul.h"
#include "part.h"
#include "random.h"

#define KEYS 64
#define QUERIES 64
#define KEPT 16  // blocks of values that are kept packed

struct problem {
  const struct variant *variant;  // of the register tile
  size batch, kv_heads, group, depth, width, window;
  struct part queries, keys;
  size positions;           // of the whole sequence
  size q_stride, k_stride, out_stride, v_stride;  // from one position to the next
  float scale;
  int dropping;
  struct mask mask;
  size batch_origin, head_origin, group_origin, heads, groups;
  const int32_t *places;  // [batch queries]: where queries stand in their documents; null: a sequence is one document
  const int32_t *order;   // [batch positions]: the token at each slot of a sequence; null: each lies at its place
};

// From the words from `places` on, which are the same in attention and attentionGrad.
struct problem problem_of(const struct context *c, const double *w);

// Panels of the variant's own width: k rows of so many columns each.
INLINE size padded(const struct problem *p, size columns) { return round_up(columns, p->variant->columns); }

INLINE float *pack(const struct problem *p, float *to, struct matrix b, size k, size columns) {
  return p->variant->pack_columns(to, b, k, columns);
}

// a[rows k] times panels of b, which are k high: added to what is there, or instead of it.
struct panelled {
  float *out;
  size stride;
  struct matrix a;
  const float *panels;
  size rows, columns, k;
  int adds;
};

// What a row of the left operand needs of the others near the diagonal, where query i sees the first i + shift + 1 keys: a query, of
// keys that are k, the first; a key, of queries that are columns or k, those from its own on. Columns that are not
// needed are left as they are.
enum side { K_TO, COLUMNS_FROM, K_FROM };
void multiply_seen(const struct problem *p, struct panelled x, enum side side, size shift);

// One row of queries: a sample, a kv head, and one of the query heads that share it.
struct row {
  size batch, head, group;
};

INLINE size q_offset(const struct problem *p, struct row r, size query) {
  return (r.batch * p->queries.length + query) * p->q_stride + (r.head * p->group + r.group) * p->depth;
}
INLINE size k_offset(const struct problem *p, struct row r, size key) {
  return (r.batch * p->keys.length + key) * p->k_stride + r.head * p->depth;
}
INLINE size out_offset(const struct problem *p, struct row r, size query) {
  return (r.batch * p->queries.length + query) * p->out_stride + (r.head * p->group + r.group) * p->width;
}
INLINE size v_offset(const struct problem *p, struct row r, size key) {
  return (r.batch * p->keys.length + key) * p->v_stride + r.head * p->width;
}
INLINE size lse_offset(const struct problem *p, struct row r, size query) {
  return ((r.batch * p->queries.length + query) * p->kv_heads + r.head) * p->group + r.group;
}

// From its element `first` on, what follows each other in a part and in its sequence. Beyond the last element: nothing.
struct run run_from(const struct problem *p, struct part part, size batch, size first);
#define EACH_RUN(run, p, part, batch) \
  for (struct run run = run_from(p, part, batch, 0); run.length > 0; run = run_from(p, part, batch, run.first + run.length))

// The first that any of some queries sees.
size first_seen_by_any(const struct problem *p, struct row r, struct run queries);

// Some keys of a block, counted inside of it: [from, to).
struct visible {
  size from, to;
};

// What the queries of a vector see of a block of keys: one of them at least, all of them, and each.
struct sight {
  struct visible any, all;
  int32_t from[LANES], to[LANES];
};

// Of the first LANES of some queries.
struct sight sight_of(const struct problem *p, struct row r, struct run queries, struct run keys);

// Numbers by key, of a vector of queries, become something else where one of them does not see a key that others see.
void hide(const struct sight *s, float *numbers, float otherwise);
// And 0 where none of them does, up to so many keys.
void clear_unseen(const struct sight *s, float *numbers, size keys);

// The factors of dropout, by key.
void draw_factors(const struct problem *p, struct row r, float *factors, struct run queries, struct run keys);

// Rows of numbers, where they lie or widened.
struct matrix rows_of(struct numbers first, size stride, size rows, size width, float *space);
