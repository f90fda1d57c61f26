// What experts do with the rows of their tokens. Rows stand in the order of experts, `counts` says how many each has; behind
// the last row there are zeros. A product of experts is the product of matrices, expert by expert.
#include "functions.h"
#include "matmul.h"
#include "rows.h"

// Every rank that shares the experts sees all choices, and so knows the rows of all of them.
COMMAND(rowsOf) {
  int *to = ints(c, w[ROWS_OF_TO]), *from = ints(c, w[ROWS_OF_FROM]), *counts = ints(c, w[ROWS_OF_COUNTS]);
  const int *choice = ints(c, w[ROWS_OF_CHOICE]);
  const size n = (size)w[ROWS_OF_N], experts = (size)w[ROWS_OF_EXPERTS], own = (size)w[ROWS_OF_OWN];
  const size first = (size)w[ROWS_OF_FIRST], room = (size)w[ROWS_OF_ROOM];
  size *next = (size *)c->workspace;
  if ((size)sizeof(size) * experts > c->workspace_bytes) {
    c->error = LOCKSTEP_WORKSPACE;
    return;
  }
  for (size e = 0; e < experts; e++) next[e] = 0;
  int lost = 0;
  for (size i = 0; i < n; i++) {
    if (choice[i] >= 0) next[choice[i]]++;
    lost |= choice[i] < -1;
  }
  for (size e = 0; e < own; e++) counts[e] = (int)next[first + e];
  // From here on: the row at which the next choice of an expert goes, of all ranks' rows.
  for (size owner = 0; owner < experts; owner += own) {
    size rows = 0;
    for (size e = owner; e < owner + own; e++) {
      const size of = next[e];
      next[e] = owner / own * room + rows;
      rows += of;
    }
    if (rows <= room) continue;
    // Another's rows do not fit: that rank says so, and stops us all.
    c->error = owner == first ? LOCKSTEP_ROWS : LOCKSTEP_ABORTED;
    if (owner == first) {
      c->status[STATUS_NEEDED] = (int)rows;
      return;
    }
  }
  if (c->error) return;
  for (size r = 0; r < room; r++) from[r] = lost ? -2 : -1;
  const size before = first / own * room;
  for (size i = 0; i < n; i++) {
    const int expert = choice[i];
    to[i] = expert >= 0 ? (int)next[expert]++ : expert;
    if (expert >= (int)first && expert < (int)(first + own)) from[to[i] - (int)before] = (int)i;
  }
}

COMMAND(dispatchRows) {
  const struct numbers out = numbers_of(c, w[DISPATCH_ROWS_OUT]), x = numbers_of(c, w[DISPATCH_ROWS_X]);
  const int *from = ints(c, w[DISPATCH_ROWS_FROM]);
  const size rows = (size)w[DISPATCH_ROWS_ROWS], columns = (size)w[DISPATCH_ROWS_COLUMNS];
  const size repeats = (size)w[DISPATCH_ROWS_REPEATS];
  for (size r = 0; r < rows; r++)
    fill_row(from_number(out, r * columns), from_number(x, (from[r] < 0 ? 0 : (size)from[r] / repeats) * columns).at, from[r],
             columns);
}

COMMAND(combineRows) {
  const struct numbers out = numbers_of(c, w[COMBINE_ROWS_OUT]), rows = numbers_of(c, w[COMBINE_ROWS_X]);
  const int *to = ints(c, w[COMBINE_ROWS_TO]);
  const size tokens = (size)w[COMBINE_ROWS_TOKENS], columns = (size)w[COMBINE_ROWS_COLUMNS];
  const size repeats = (size)w[COMBINE_ROWS_REPEATS];
  for (size t = 0; t < tokens; t++, to += repeats)
    for (size at = 0, n; at < columns; at += n) {
      float sums[ROW_RUN], *sum = room(out, t * columns + at, sums);
      n = min_size(ROW_RUN, columns - at);
      for (size i = 0; i < n; i++) sum[i] = 0;
      for (size k = 0; k < repeats; k++) add_run(sum, rows, (to[k] < 0 ? 0 : (size)to[k]) * columns + at, to[k], n);
      put(out, t * columns + at, n, sum);
    }
}

COMMAND(expertContract) {
  const struct numbers out = numbers_of(c, w[EXPERT_CONTRACT_OUT]);
  const struct numbers rows = numbers_of(c, w[EXPERT_CONTRACT_ROWS]), weights = numbers_of(c, w[EXPERT_CONTRACT_W]);
  const int *counts = ints(c, w[EXPERT_CONTRACT_COUNTS]), transposed = w[EXPERT_CONTRACT_TRANS_W] != 0;
  const size experts = (size)w[EXPERT_CONTRACT_EXPERTS], room = (size)w[EXPERT_CONTRACT_ROOM];
  const size n = (size)w[EXPERT_CONTRACT_N], k = (size)w[EXPERT_CONTRACT_K];
  size row = 0;
  for (size e = 0; e < experts; e++) {
    const size m = counts[e];
    const struct numbers own = from_number(weights, e * n * k);
    const struct product x = {.out = from_number(out, row * n),
                              .stride = n,
                              .a = {from_number(rows, row * k), k, 1},
                              .b = transposed ? (struct matrix){own, 1, k} : (struct matrix){own, n, 1},
                              .m = m,
                              .n = n,
                              .k = k};
    if (m > 0) multiply(c, &x);
    row += m;
  }
  __builtin_memset(from_number(out, row * n).at, 0, (size_t)((room - row) * n * width_of(out.dtype)));
}

COMMAND(expertWeightGrad) {
  const struct numbers dw = numbers_of(c, w[EXPERT_WEIGHT_GRAD_DW]);
  struct numbers rows = numbers_of(c, w[EXPERT_WEIGHT_GRAD_ROWS]), drows = numbers_of(c, w[EXPERT_WEIGHT_GRAD_DROWS]);
  const int *counts = ints(c, w[EXPERT_WEIGHT_GRAD_COUNTS]);
  const size experts = (size)w[EXPERT_WEIGHT_GRAD_EXPERTS];
  const size m = (size)w[EXPERT_WEIGHT_GRAD_M], n = (size)w[EXPERT_WEIGHT_GRAD_N];
  for (size e = 0; e < experts; e++) {
    const size k = counts[e];
    const struct product x = {.out = from_number(dw, e * m * n),
                              .stride = n,
                              .a = {rows, 1, m},
                              .b = {drows, n, 1},
                              .m = m,
                              .n = n,
                              .k = k};
    multiply(c, &x);
    rows = from_number(rows, k * m);
    drows = from_number(drows, k * n);
  }
}

COMMAND(weightedSwiglu) {
  float *y = floats(c, w[WEIGHTED_SWIGLU_Y]);
  const float *gate = floats(c, w[WEIGHTED_SWIGLU_GATE]), *up = floats(c, w[WEIGHTED_SWIGLU_UP]);
  const float *weight = floats(c, w[WEIGHTED_SWIGLU_WEIGHT]);
  const size rows = (size)w[WEIGHTED_SWIGLU_ROWS], columns = (size)w[WEIGHTED_SWIGLU_COLUMNS];
  for (size r = 0; r < rows; r++, y += columns, gate += columns, up += columns)
    for (size i = 0; i < columns; i += LANES) {
      const size left = columns - i;
      const vec g = load_some(gate + i, left);
      store_some(y + i, g * sigmoid(g) * load_some(up + i, left) * weight[r], left);
    }
}

COMMAND(weightedSwigluGrad) {
  float *dgate = floats(c, w[WEIGHTED_SWIGLU_GRAD_DGATE]), *dup = floats(c, w[WEIGHTED_SWIGLU_GRAD_DUP]);
  float *dweight = floats(c, w[WEIGHTED_SWIGLU_GRAD_DWEIGHT]);
  const float *dy = floats(c, w[WEIGHTED_SWIGLU_GRAD_DY]), *gate = floats(c, w[WEIGHTED_SWIGLU_GRAD_GATE]);
  const float *up = floats(c, w[WEIGHTED_SWIGLU_GRAD_UP]), *weight = floats(c, w[WEIGHTED_SWIGLU_GRAD_WEIGHT]);
  const size rows = (size)w[WEIGHTED_SWIGLU_GRAD_ROWS], columns = (size)w[WEIGHTED_SWIGLU_GRAD_COLUMNS];
  for (size r = 0; r < rows; r++) {
    vec sum = {};
    const size at = r * columns;
    for (size i = 0; i < columns; i += LANES) {
      const size left = columns - i;
      const vec g = load_some(gate + at + i, left), u = load_some(up + at + i, left), d = load_some(dy + at + i, left);
      const vec s = sigmoid(g), silu = g * s;
      sum += d * silu * u;  // beyond the end of the row all of them are 0
      store_some(dgate + at + i, d * weight[r] * u * (s + silu * (1 - s)), left);
      store_some(dup + at + i, d * weight[r] * silu, left);
    }
    dweight[r] = sum_lanes(sum);
  }
}
