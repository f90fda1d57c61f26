// Adafactor: of a matrix the means of squares of rows and of columns are kept, and V = rows x columns / mean. A rank may hold any
// part of a line: its elements are gone through in runs, each within one row. Parameters and gradients may be stored in 16 bits,
// everything else is f32.
#include "kernels.h"
#include "functions.h"
#include "numbers.h"

enum { RUN = 512 };

// Elements of a part, and where it begins.
struct part {
  size n, first, each, height, width;
};

// What lies in one row, from element i of the part on.
struct run {
  size row, column, expert, n;  // column: counted through all experts
};

INLINE struct part part_of(const double *w) {
  return (struct part){(size)w[0], (size)w[1], (size)w[2], (size)w[3], (size)w[4]};
}

INLINE struct run run_at(const struct part *p, size i) {
  const size at = p->first + i, row = at / p->width, expert = row / p->height;
  const size left = min_size(p->width - at % p->width, p->n - i);
  return (struct run){row, expert * p->width + at % p->width, expert, min_size(left, RUN)};
}

static float clip_by(double clip, double norm_squared) {
  if (clip <= 0) return 1;
  const double scale = clip / (__builtin_sqrt(norm_squared) + 1e-6);
  return scale < 1 ? (float)scale : 1;
}

// What a mean is when a step more has gone into it.
INLINE float moved(float weight, float mean, float by) { return (1 - weight) * mean + weight * by; }

static void divide(float *x, size n, double by) {
  const float factor = (float)(1 / by);
  for (size i = 0; i < n; i++) x[i] *= factor;
}

COMMAND(factorSquares) {
  const struct part p = part_of(w + FACTOR_SQUARES_N);
  const float scale = clip_by(w[FACTOR_SQUARES_CLIP], (double)*floats(c, w[FACTOR_SQUARES_NORM_SQUARED]));
  float *rows = floats(c, w[FACTOR_SQUARES_ROWS]), *columns = floats(c, w[FACTOR_SQUARES_COLUMNS]);
  float *mean = floats(c, w[FACTOR_SQUARES_MEAN]), space[RUN];
  const struct numbers grads = numbers_of(c, w[FACTOR_SQUARES_GRAD]);
  for (size i = 0; i < p.each * p.height; i++) rows[i] = 0;
  for (size i = 0; i < p.each * p.width; i++) columns[i] = 0;
  for (size i = 0; i < p.n;) {
    const struct run r = run_at(&p, i);
    const float *restrict grad = wide(grads, i, r.n, space);
    float *restrict down = columns + r.column, sums[16] = {0};
    for (size j = 0; j < r.n; j++) {
      const float g = grad[j] * scale, square = g * g;
      down[j] += square;
      sums[j % 16] += square;
    }
    double sum = 0;
    for (int j = 0; j < 16; j++) sum += (double)sums[j];
    rows[r.row] += (float)sum;
    i += r.n;
  }
  for (size e = 0; e < p.each; e++) mean[e] = (float)sum_of(rows + e * p.height, p.height);
  divide(rows, p.each * p.height, w[FACTOR_SQUARES_COLUMN_COUNT]);
  divide(columns, p.each * p.width, w[FACTOR_SQUARES_ROW_COUNT]);
  divide(mean, p.each, w[FACTOR_SQUARES_ROW_COUNT] * w[FACTOR_SQUARES_COLUMN_COUNT]);
}

// What both of the following know, from words that they have alike.
struct means {
  float *v, *rows, *columns, *mean;
  const float *row_means, *column_means, *mean_square;
  float weight, eps, scale;
};

static struct means means_of(const struct context *c, const double *w) {
  const int none = w[ADAFACTOR_SQUARES_V] != 0;
  const double time = (double)*floats(c, w[ADAFACTOR_SQUARES_TAKEN]) + 1;
  return (struct means){
    .v = none ? floats(c, w[ADAFACTOR_SQUARES_V]) : 0,
    .rows = floats(c, w[ADAFACTOR_SQUARES_ROWS]), .columns = floats(c, w[ADAFACTOR_SQUARES_COLUMNS]),
    .mean = floats(c, w[ADAFACTOR_SQUARES_MEAN]), .row_means = floats(c, w[ADAFACTOR_SQUARES_ROW_MEANS]),
    .column_means = floats(c, w[ADAFACTOR_SQUARES_COLUMN_MEANS]), .mean_square = floats(c, w[ADAFACTOR_SQUARES_MEAN_SQUARE]),
    .weight = (float)exp_f64(w[ADAFACTOR_SQUARES_BETA2_DECAY] * log_f64(time)), .eps = (float)w[ADAFACTOR_SQUARES_EPS],
    .scale = clip_by(w[ADAFACTOR_SQUARES_CLIP], (double)*floats(c, w[ADAFACTOR_SQUARES_NORM_SQUARED])),
  };
}

// The mean of a matrix goes into the row's, so that a column is all that is left to multiply with.
INLINE float row_of(const struct means *m, const struct run *r) {
  const float all = moved(m->weight, m->mean[r->expert], m->mean_square[r->expert]);
  return moved(m->weight, m->rows[r->row], m->row_means[r->row]) / (all > m->eps ? all : m->eps);
}

// g / sqrt(V) of a run; the mean of squares of what is no matrix is kept where `keeps` says so.
INLINE void steps_of(const struct means *m, const struct run *r, size first, const float *restrict grad, int keeps, float *restrict step) {
  const float least = m->eps * m->eps;
  if (m->v) {
    float *restrict v = m->v + first;
    for (size j = 0; j < r->n; j++) {
      const float g = grad[j] * m->scale, square = moved(m->weight, v[j], g * g);
      if (keeps) v[j] = square;
      step[j] = g / __builtin_sqrtf(square > least ? square : least);
    }
    return;
  }
  const float row = row_of(m, r), weight = m->weight, scale = m->scale;
  const float *restrict columns = m->columns + r->column, *restrict fresh = m->column_means + r->column;
  for (size j = 0; j < r->n; j++) {
    const float square = row * moved(weight, columns[j], fresh[j]);
    step[j] = grad[j] * scale / __builtin_sqrtf(square > least ? square : least);
  }
}

COMMAND(adafactorSquares) {
  const struct part p = part_of(w + ADAFACTOR_SQUARES_N);
  const struct means m = means_of(c, w);
  const struct numbers grads = numbers_of(c, w[ADAFACTOR_SQUARES_GRAD]), params = numbers_of(c, w[ADAFACTOR_SQUARES_PARAM]);
  float space[3][RUN];
  double of_param = 0, of_step = 0;
  for (size i = 0; i < p.n;) {
    const struct run r = run_at(&p, i);
    const float *param = wide(params, i, r.n, space[0]), *step = space[2];
    steps_of(&m, &r, i, wide(grads, i, r.n, space[1]), 0, space[2]);
    float sums[2][16] = {{0}};
    for (size j = 0; j < r.n; j++) {
      sums[0][j % 16] += param[j] * param[j];
      sums[1][j % 16] += step[j] * step[j];
    }
    for (int j = 0; j < 16; j++) of_param += (double)sums[0][j], of_step += (double)sums[1][j];
    i += r.n;
  }
  *floats(c, w[ADAFACTOR_SQUARES_PARAM_SQUARED]) = (float)of_param;
  *floats(c, w[ADAFACTOR_SQUARES_STEP_SQUARED]) = (float)of_step;
}

static void move_all(float weight, float *restrict kept, const float *restrict fresh, size n) {
  for (size i = 0; i < n; i++) kept[i] = moved(weight, kept[i], fresh[i]);
}

static double larger(double a, double b) { return a > b ? a : b; }

COMMAND(adafactor) {
  const double norm_squared = (double)*floats(c, w[ADAFACTOR_NORM_SQUARED]);
  if (!(norm_squared < w[ADAFACTOR_LIMIT])) return;
  const struct part p = part_of(w + ADAFACTOR_N);
  const struct means m = means_of(c, w);
  const struct numbers grads = numbers_of(c, w[ADAFACTOR_GRAD]), params = numbers_of(c, w[ADAFACTOR_PARAM]);
  const double lr = (double)*floats(c, w[ADAFACTOR_LR]) * w[ADAFACTOR_RATE];
  const double slow = 1 / __builtin_sqrt((double)*floats(c, w[ADAFACTOR_TAKEN]) + 1), elements = w[ADAFACTOR_ELEMENTS];
  const double of_param = __builtin_sqrt((double)*floats(c, w[ADAFACTOR_PARAM_SQUARED]) / elements);
  const double of_step = __builtin_sqrt((double)*floats(c, w[ADAFACTOR_STEP_SQUARED]) / elements);
  const double length = larger(w[ADAFACTOR_LEAST], of_param) * (lr < slow ? lr : slow);
  const float by = (float)(length / larger(1, of_step / w[ADAFACTOR_MOST])), decay = (float)(lr * w[ADAFACTOR_WEIGHT_DECAY]);
  float space[3][RUN];
  for (size i = 0; i < p.n;) {
    const struct run r = run_at(&p, i);
    steps_of(&m, &r, i, wide(grads, i, r.n, space[0]), 1, space[1]);
    const float *old = wide(params, i, r.n, space[2]), *step = space[1];
    float *param = room(params, i, space[2]);
    for (size j = 0; j < r.n; j++) param[j] = old[j] - (by * step[j] + decay * old[j]);
    put(params, i, r.n, param);
    i += r.n;
  }
  if (m.v) return;
  move_all(m.weight, m.rows, m.row_means, p.each * p.height);
  move_all(m.weight, m.columns, m.column_means, p.each * p.width);
  move_all(m.weight, m.mean, m.mean_square, p.each);
}
