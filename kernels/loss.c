// Looking up rows and scoring labels. A rank may hold a run of the rows (classes): an id is a number of the whole table,
// and one outside the rank's run contributes 0, so the true value is the sum over ranks.
#include "numbers.h"
#include "functions.h"

COMMAND(embed) {
  char *out = address(c, w[EMBED_OUT]);
  const int *ids = ints(c, w[EMBED_IDS]);
  const char *table = address(c, w[EMBED_TABLE]);
  const size rows = (size)w[EMBED_ROWS], origin = (size)w[EMBED_ORIGIN];
  const size bytes = (size)w[EMBED_COLUMNS] * width_of(dtype_of(w[EMBED_OUT]));
  for (size i = 0; i < (size)w[EMBED_N]; i++, out += bytes) {
    const size row = ids[i] - origin;
    if (row >= 0 && row < rows)
      __builtin_memcpy(out, table + row * bytes, (size_t)bytes);
    else
      __builtin_memset(out, 0, (size_t)bytes);
  }
}

struct rows_of_ids {
  const int *ids;
  size n, rows, columns, origin;
};

INLINE void add_row(const int dtype, float *sum, const void *x, size n) {
  EACH_VECTOR(i, left, n, { store_some(sum + i, load_some(sum + i, left) + load_as(dtype, x, i, left), left); });
}

// In the order of ids, so that a row that occurs twice gives the same bits every time.
static void add_by_id(float *dtable, const struct rows_of_ids *t, struct numbers dout) {
  for (size i = 0; i < t->rows * t->columns; i++) dtable[i] = 0;
  for (size i = 0; i < t->n; i++) {
    const size row = t->ids[i] - t->origin;
    if (row < 0 || row >= t->rows) continue;
    EACH_DTYPE(dout.dtype, add_row, dtable + row * t->columns, from_number(dout, i * t->columns).at, t->columns);
  }
}

// The same where sums are rounded: row by row of the table, whose ids are found as lists, first[row] and next[i] of the same row.
static void sum_by_row(struct numbers dtable, const struct rows_of_ids *t, struct numbers dout, float *sum, int *first,
                       int *next) {
  for (size row = 0; row < t->rows; row++) first[row] = -1;
  for (size i = t->n - 1; i >= 0; i--) {
    const size row = t->ids[i] - t->origin;
    if (row < 0 || row >= t->rows) continue;
    next[i] = first[row];
    first[row] = (int)i;
  }
  for (size row = 0; row < t->rows; row++) {
    for (size j = 0; j < t->columns; j++) sum[j] = 0;
    for (int i = first[row]; i >= 0; i = next[i])
      EACH_DTYPE(dout.dtype, add_row, sum, from_number(dout, i * t->columns).at, t->columns);
    narrow(from_number(dtable, row * t->columns), sum, t->columns);
  }
}

COMMAND(embedGrad) {
  const struct numbers dtable = numbers_of(c, w[EMBED_GRAD_DTABLE]), dout = numbers_of(c, w[EMBED_GRAD_DOUT]);
  const struct rows_of_ids t = {ints(c, w[EMBED_GRAD_IDS]), (size)w[EMBED_GRAD_N], (size)w[EMBED_GRAD_ROWS],
                                (size)w[EMBED_GRAD_COLUMNS], (size)w[EMBED_GRAD_ORIGIN]};
  size used = 0;
  if (!is_narrow(dtable.dtype)) {
    add_by_id((float *)dtable.at, &t, dout);
    return;
  }
  float *sum = take_room(c, &used, t.columns);
  int *first = (int *)take_room(c, &used, t.rows), *next = (int *)take_room(c, &used, t.n);
  if (!c->error) sum_by_row(dtable, &t, dout, sum, first, next);
}

// The greatest of a row, or NaN where there is one.
INLINE float larger(float x, float best) { return x > best || x != x ? x : best; }

INLINE void max_rows(const int dtype, float *out, struct numbers x, size rows, size n) {
  for (size r = 0; r < rows; r++, x = from_number(x, n)) {
    float best = -__builtin_inff();
    size i = 0;
    if (n >= LANES) {
      vec most = load_as(dtype, x.at, 0, n);
      for (i = LANES; i + LANES <= n; i += LANES) {
        const vec next = load_as(dtype, x.at, i, n - i);
        most = select_lanes((next > most) | (next != next), next, most);
      }
      for (int lane = 0; lane < LANES; lane++) best = larger(most[lane], best);
    }
    for (; i < n; i++) best = larger(number_at(x, i), best);
    out[r] = best;
  }
}

COMMAND(maxColumns) {
  const struct numbers x = numbers_of(c, w[MAX_COLUMNS_X]);
  EACH_DTYPE(x.dtype, max_rows, floats(c, w[MAX_COLUMNS_OUT]), x, (size)w[MAX_COLUMNS_ROWS], (size)w[MAX_COLUMNS_COLUMNS]);
}

INLINE void sum_exp_rows(const int dtype, float *out, struct numbers x, const float *max, size rows, size n) {
  for (size r = 0; r < rows; r++, x = from_number(x, n)) {
    vec sums = {}, others = {};
    size i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
      const struct pair next = load_pair(dtype, x.at, i);
      sums += exp_lanes(next.a - max[r]);
      others += exp_lanes(next.b - max[r]);
    }
    double sum = (double)sum_lanes(sums + others);
    for (; i < n; i += LANES) {
      const vec last = exp_lanes(load_as(dtype, x.at, i, n - i) - max[r]);
      for (size j = 0; j < n - i && j < LANES; j++) sum += (double)last[j];
    }
    out[r] = (float)sum;
  }
}

COMMAND(sumExp) {
  const struct numbers x = numbers_of(c, w[SUM_EXP_X]);
  EACH_DTYPE(x.dtype, sum_exp_rows, floats(c, w[SUM_EXP_OUT]), x, floats(c, w[SUM_EXP_MAX]), (size)w[SUM_EXP_ROWS],
             (size)w[SUM_EXP_COLUMNS]);
}

COMMAND(pick) {
  float *out = floats(c, w[PICK_OUT]);
  const struct numbers x = numbers_of(c, w[PICK_X]);
  const int *labels = ints(c, w[PICK_LABELS]);
  const size n = (size)w[PICK_COLUMNS], origin = (size)w[PICK_ORIGIN];
  for (size r = 0; r < (size)w[PICK_ROWS]; r++) {
    const size label = labels[r] - origin;
    out[r] = labels[r] >= 0 && label >= 0 && label < n ? number_at(x, r * n + label) : 0;
  }
}

COMMAND(tokenLoss) {
  const float *max = floats(c, w[TOKEN_LOSS_MAX]), *sum_exp = floats(c, w[TOKEN_LOSS_SUM_EXP]);
  const float *picked = floats(c, w[TOKEN_LOSS_PICKED]);
  const int *labels = ints(c, w[TOKEN_LOSS_LABELS]);
  double total = 0;
  for (size i = 0; i < (size)w[TOKEN_LOSS_N]; i++)
    if (labels[i] >= 0) total += log_f64((double)sum_exp[i]) + (double)max[i] - (double)picked[i];
  *floats(c, w[TOKEN_LOSS_LOSS]) = (float)total;
}

// A row of (softmax - onehot) / count, in place where dx is x.
INLINE void token_loss_grad_row(const int dtype, struct numbers dx, struct numbers x, float max, double sum_exp, double count,
                                size label, size n) {
  const int is_mine = label >= 0 && label < n;
  const double mine = is_mine ? (double)number_at(x, label) : 0;
  const float scale = (float)(1 / (sum_exp * count));
  EACH_ELEMENT(dtype, dx.at, n, 1, &x.at, exp_as(dtype == DTYPE_BF16, v[0] - max) * scale);
  if (is_mine) {  // close to 1 the difference cancels: take it before it is rounded
    const float at_label = (float)((exp_f64(mine - (double)max) / sum_exp - 1) / count);
    if (is_narrow(dtype)) narrow(from_number(dx, label), &at_label, 1);
    else ((float *)dx.at)[label] = at_label;
  }
}

// 0 where the label is ignored.
COMMAND(tokenLossGrad) {
  struct numbers dx = numbers_of(c, w[TOKEN_LOSS_GRAD_DX]), x = numbers_of(c, w[TOKEN_LOSS_GRAD_X]);
  const float *max = floats(c, w[TOKEN_LOSS_GRAD_MAX]), *sum_exp = floats(c, w[TOKEN_LOSS_GRAD_SUM_EXP]);
  const int *labels = ints(c, w[TOKEN_LOSS_GRAD_LABELS]);
  const double count = (double)*floats(c, w[TOKEN_LOSS_GRAD_COUNT]);
  const size n = (size)w[TOKEN_LOSS_GRAD_COLUMNS], origin = (size)w[TOKEN_LOSS_GRAD_ORIGIN];
  for (size r = 0; r < (size)w[TOKEN_LOSS_GRAD_ROWS]; r++, x = from_number(x, n), dx = from_number(dx, n)) {
    if (labels[r] < 0) __builtin_memset(dx.at, 0, (size_t)(n * width_of(dx.dtype)));
    else EACH_DTYPE(dx.dtype, token_loss_grad_row, dx, x, max[r], (double)sum_exp[r], count, labels[r] - origin, n);
  }
}

COMMAND(countLabels) {
  const int *labels = ints(c, w[COUNT_LABELS_LABELS]);
  size count = 0;
  for (size i = 0; i < (size)w[COUNT_LABELS_N]; i++) count += labels[i] >= 0;
  *floats(c, w[COUNT_LABELS_COUNT]) = (float)count;
}

static double squared_distance(const float *x, const float *target, size n) {
  dvec sums = {};
  size i = 0;
  for (; i + LANES / 2 <= n; i += LANES / 2) {
    const dvec difference = load_wide(x + i) - load_wide(target + i);
    sums += difference * difference;
  }
  double sum = sum_wide(sums);
  for (; i < n; i++) sum += ((double)x[i] - (double)target[i]) * ((double)x[i] - (double)target[i]);
  return sum;
}

COMMAND(squaredError) {
  enum { CHUNK = 1024 };
  const struct numbers x = numbers_of(c, w[SQUARED_ERROR_X]), target = numbers_of(c, w[SQUARED_ERROR_TARGET]);
  const size n = (size)w[SQUARED_ERROR_N], most = is_narrow(x.dtype | target.dtype) ? CHUNK : max_size(n, 1);
  float of_x[CHUNK], of_target[CHUNK];
  double sum = 0;
  for (size at = 0; at < n; at += most) {
    const size count = min_size(most, n - at);
    sum += squared_distance(wide(x, at, count, of_x), wide(target, at, count, of_target), count);
  }
  *floats(c, w[SQUARED_ERROR_LOSS]) = (float)sum;
}

COMMAND(squaredErrorGrad) {
  float *dx = floats(c, w[SQUARED_ERROR_GRAD_DX]);
  const float *x = floats(c, w[SQUARED_ERROR_GRAD_X]), *target = floats(c, w[SQUARED_ERROR_GRAD_TARGET]);
  const float scale = 2 / *floats(c, w[SQUARED_ERROR_GRAD_COUNT]);
  for (size i = 0; i < (size)w[SQUARED_ERROR_GRAD_N]; i++) dx[i] = (x[i] - target[i]) * scale;
}
