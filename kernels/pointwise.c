// One element of the result from one element of each operand, and the sums that go with broadcasting. Results may be
// written over operands. Sums over many elements run in f64, or in blocks short enough that f32 loses nothing.
#include "numbers.h"
#include "functions.h"

#define CHUNK 1024  // numbers that are widened at once

// The second operand repeats every `period` elements: a bias over the rows, or, with period 1, a scalar. Operands of several dtypes
// go through runs of f32.
struct broadcast {
  struct numbers out, a, b;
  size n, period;
};

#define BROADCAST(name, NAME, operator)                                                             \
  static void name##_widened(const struct broadcast *t) {                                           \
    const float one = t->n > 0 && t->period == 1 ? number_at(t->b, 0) : 0;                          \
    float of_a[CHUNK], of_b[CHUNK], sums[CHUNK];                                                    \
    for (size at = 0, count; at < t->n; at += count) {                                              \
      const size left = min_size(CHUNK, t->n - at), place = at % t->period;                         \
      count = t->period == 1 ? left : min_size(left, t->period - place);                            \
      const float *x = wide(t->a, at, count, of_a);                                                 \
      const float *y = wide(t->b, place, t->period == 1 ? 0 : count, of_b);                         \
      float *to = room(t->out, at, sums);                                                           \
      if (t->period == 1)                                                                           \
        for (size i = 0; i < count; i++) to[i] = x[i] operator one;                                 \
      else                                                                                          \
        for (size i = 0; i < count; i++) to[i] = x[i] operator y[i];                                \
      put(t->out, at, count, to);                                                                   \
    }                                                                                               \
  }                                                                                                 \
  INLINE void name##_alike(const int dtype, const struct broadcast *t) {                            \
    for (size at = 0; at < t->n; at += t->period) {                                                 \
      const size count = min_size(t->period, t->n - at);                                            \
      const void *from[] = {from_number(t->a, at).at, t->b.at};                                     \
      EACH_ELEMENT(dtype, from_number(t->out, at).at, count, 2, from, v[0] operator v[1]);          \
    }                                                                                               \
  }                                                                                                 \
  COMMAND(name) {                                                                                   \
    const struct broadcast t = {numbers_of(c, w[NAME##_OUT]), numbers_of(c, w[NAME##_A]),           \
                                numbers_of(c, w[NAME##_B]), (size)w[NAME##_N], (size)w[NAME##_PERIOD]}; \
    if (t.out.dtype == t.a.dtype && t.out.dtype == t.b.dtype && t.period >= 2 * LANES)              \
      EACH_DTYPE(t.out.dtype, name##_alike, &t);                                                    \
    else                                                                                            \
      name##_widened(&t);                                                                           \
  }

BROADCAST(add, ADD, +)
BROADCAST(mul, MUL, *)

COMMAND(mulRows) {
  float *out = floats(c, w[MUL_ROWS_OUT]);
  const float *a = floats(c, w[MUL_ROWS_A]), *b = floats(c, w[MUL_ROWS_B]);
  const size rows = (size)w[MUL_ROWS_ROWS], columns = (size)w[MUL_ROWS_COLUMNS];
  for (size r = 0; r < rows; r++, out += columns, a += columns)
    for (size i = 0; i < columns; i++) out[i] = a[i] * b[r];
}

COMMAND(scale) {
  float *out = floats(c, w[SCALE_OUT]);
  const float *x = floats(c, w[SCALE_X]), by = (float)w[SCALE_BY];
  for (size i = 0; i < (size)w[SCALE_N]; i++) out[i] = x[i] * by;
}

COMMAND(joinPart) {
  char *out = address(c, w[JOIN_PART_OUT]);
  const char *x = address(c, w[JOIN_PART_X]);
  const size rows = (size)w[JOIN_PART_ROWS], repeats = (size)w[JOIN_PART_REPEATS], columns = (size)w[JOIN_PART_COLUMNS];
  const size bytes = width_of(dtype_of(w[JOIN_PART_OUT])), stride = bytes * (size)w[JOIN_PART_STRIDE];
  for (size r = 0; r < rows; r++, x += columns * bytes)
    for (size i = 0; i < repeats; i++, out += stride) __builtin_memcpy(out, x, (size_t)(columns * bytes));
}

COMMAND(joinGradPart) {
  const struct numbers out = numbers_of(c, w[JOIN_GRAD_PART_OUT]), x = numbers_of(c, w[JOIN_GRAD_PART_X]);
  const size rows = (size)w[JOIN_GRAD_PART_ROWS], repeats = (size)w[JOIN_GRAD_PART_REPEATS];
  const size columns = (size)w[JOIN_GRAD_PART_COLUMNS], stride = (size)w[JOIN_GRAD_PART_STRIDE];
  const size most = is_narrow(out.dtype | x.dtype) ? CHUNK : columns;
  float sums[CHUNK], of_x[CHUNK];
  for (size r = 0; r < rows; r++)
    for (size at = 0, count; at < columns; at += count) {
      count = min_size(most, columns - at);
      float *to = room(out, r * columns + at, sums);
      widen(to, from_number(x, r * repeats * stride + at), count);
      for (size i = 1; i < repeats; i++) {
        const float *row = wide(x, (r * repeats + i) * stride + at, count, of_x);
        for (size d = 0; d < count; d++) to[d] += row[d];
      }
      put(out, r * columns + at, count, to);
    }
}

COMMAND(fill) {
  const struct numbers out = numbers_of(c, w[FILL_OUT]);
  const size n = (size)w[FILL_N];
  const float value = (float)w[FILL_VALUE];
  if (out.dtype == DTYPE_F32)
    for (size i = 0; i < n; i++) ((float *)out.at)[i] = value;
  else {
    uint16_t one;
    narrow((struct numbers){(char *)&one, out.dtype}, &value, 1);
    for (size i = 0; i < n; i++) ((uint16_t *)out.at)[i] = one;
  }
}

INLINE void accumulate_all(const int dtype, void *out, const void *x, size n) {
  const void *from[] = {out, x};
  EACH_ELEMENT(dtype, out, n, 2, from, v[0] + v[1]);
}

COMMAND(accumulate) {
  EACH_DTYPE(dtype_of(w[ACCUMULATE_OUT]), accumulate_all, address(c, w[ACCUMULATE_OUT]), address(c, w[ACCUMULATE_X]),
             (size)w[ACCUMULATE_N]);
}

INLINE void deduct_all(const int dtype, void *out, const void *x, size n) {
  const void *from[] = {out, x};
  EACH_ELEMENT(dtype, out, n, 2, from, v[0] - v[1]);
}

COMMAND(deduct) {
  EACH_DTYPE(dtype_of(w[DEDUCT_OUT]), deduct_all, address(c, w[DEDUCT_OUT]), address(c, w[DEDUCT_X]), (size)w[DEDUCT_N]);
}

COMMAND(copy) {
  char *out = address(c, w[COPY_OUT]);
  const char *x = address(c, w[COPY_X]);
  size rows = (size)w[COPY_ROWS], columns = (size)w[COPY_COLUMNS];
  const size stride_out = (size)w[COPY_STRIDE_OUT], stride_x = (size)w[COPY_STRIDE_X];
  const size bytes = width_of(dtype_of(w[COPY_OUT]));
  if (stride_out == columns && stride_x == columns) {
    columns *= rows;
    rows = columns > 0;
  }
  for (size r = 0; r < rows; r++) 
    __builtin_memmove(out + r * stride_out * bytes, x + r * stride_x * bytes, (size_t)(columns * bytes));
}

COMMAND(sumColumns) {
  float *out = floats(c, w[SUM_COLUMNS_OUT]);
  const float *x = floats(c, w[SUM_COLUMNS_X]);
  const size columns = (size)w[SUM_COLUMNS_COLUMNS];
  for (size r = 0; r < (size)w[SUM_COLUMNS_ROWS]; r++) out[r] = (float)sum_of(x + r * columns, columns);
}

static double squares_of(const float *x, size n) {
  dvec sums[4] = {};
  size i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES)
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
      const dvec a = load_wide(x + i + q * LANES / 2);
      sums[q] += a * a;
    }
  double sum = sum_wide((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sum;
}

COMMAND(sumSquares) {
  const struct numbers x = numbers_of(c, w[SUM_SQUARES_X]);
  const size n = (size)w[SUM_SQUARES_N], most = is_narrow(x.dtype) ? CHUNK : max_size(n, 1);
  float *out = floats(c, w[SUM_SQUARES_OUT]), space[CHUNK];
  double sum = 0;
  for (size at = 0; at < n; at += most) {
    const size count = min_size(most, n - at);
    sum += squares_of(wide(x, at, count, space), count);
  }
  // Those that others count come to 0, and to NaN where one is not finite.
  *out = (float)((double)*out + w[SUM_SQUARES_TIMES] * sum);
}

// GELU is x times the normal distribution below x; its tanh form is x times the sigmoid of twice the tanh's argument.
INLINE vec tanh_argument_doubled(vec x) { return 1.59576912f * x * fma_lanes(0.044715f * x, x, splat(1.f)); }

INLINE vec gelu_exact(vec x) { return x * normal_cumulative(x, exp_half_square(x)); }
INLINE vec gelu_tanh(const int coarse, vec x) { return x * sigmoid_as(coarse, tanh_argument_doubled(x)); }

INLINE vec gelu_slope_exact(vec x) {
  const vec e = exp_half_square(x);
  return normal_cumulative(x, e) + x * e * 0.398942280f;
}

// The sigmoid of t and that of -t have one exponential and one quotient between them.
INLINE vec gelu_slope_tanh(const int coarse, vec x) {
  const vec e = exp_negated(coarse, tanh_argument_doubled(x));
  const vec below = 1 / (1 + e);
  return below + x * below * (e * below) * 1.59576912f * fma_lanes(3 * 0.044715f * x, x, splat(1.f));
}

INLINE void gelu_all(const int dtype, void *y, const void *x, size n, const int approximate) {
  EACH_ELEMENT(dtype, y, n, 1, &x, approximate ? gelu_tanh(dtype == DTYPE_BF16, v[0]) : gelu_exact(v[0]));
}

COMMAND(gelu) {
  void *y = address(c, w[GELU_Y]), *x = address(c, w[GELU_X]);
  const size n = (size)w[GELU_N];
  const int dtype = dtype_of(w[GELU_Y]);
  if (w[GELU_APPROXIMATE])
    EACH_DTYPE(dtype, gelu_all, y, x, n, 1);
  else
    EACH_DTYPE(dtype, gelu_all, y, x, n, 0);
}

INLINE void gelu_grad_all(const int dtype, void *dx, const void *dy, const void *x, size n, const int approximate) {
  const void *from[] = {dy, x};
  EACH_ELEMENT(dtype, dx, n, 2, from, v[0] * (approximate ? gelu_slope_tanh(dtype == DTYPE_BF16, v[1]) : gelu_slope_exact(v[1])));
}

COMMAND(geluGrad) {
  void *dx = address(c, w[GELU_GRAD_DX]), *dy = address(c, w[GELU_GRAD_DY]), *x = address(c, w[GELU_GRAD_X]);
  const size n = (size)w[GELU_GRAD_N];
  const int dtype = dtype_of(w[GELU_GRAD_DX]);
  if (w[GELU_GRAD_APPROXIMATE])
    EACH_DTYPE(dtype, gelu_grad_all, dx, dy, x, n, 1);
  else
    EACH_DTYPE(dtype, gelu_grad_all, dx, dy, x, n, 0);
}

INLINE void swiglu_all(const int dtype, void *y, const void *gate, const void *up, size n) {
  const void *from[] = {gate, up};
  EACH_ELEMENT(dtype, y, n, 2, from, v[0] * sigmoid_as(dtype == DTYPE_BF16, v[0]) * v[1]);
}

COMMAND(swiglu) {
  EACH_DTYPE(dtype_of(w[SWIGLU_Y]), swiglu_all, address(c, w[SWIGLU_Y]), address(c, w[SWIGLU_GATE]),
             address(c, w[SWIGLU_UP]), (size)w[SWIGLU_N]);
}

struct gated {
  vec gate, up;
};
INLINE struct gated swiglu_slopes(const int coarse, vec d, vec g, vec u) {
  const vec s = sigmoid_as(coarse, g);
  return (struct gated){d * u * (s * fma_lanes(g, 1 - s, splat(1.f))), d * (g * s)};
}

INLINE void swiglu_grad_all(const int dtype, void *dgate, void *dup, const void *dy, const void *gate, const void *up, size n) {
  const int coarse = dtype == DTYPE_BF16;
  size i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    const struct pair g = load_pair(dtype, gate, i), u = load_pair(dtype, up, i), d = load_pair(dtype, dy, i);
    const struct gated a = swiglu_slopes(coarse, d.a, g.a, u.a), b = swiglu_slopes(coarse, d.b, g.b, u.b);
    store_pair(dtype, dgate, i, (struct pair){a.gate, b.gate});
    store_pair(dtype, dup, i, (struct pair){a.up, b.up});
  }
  for (; i < n; i += LANES) {
    const vec g = load_as(dtype, gate, i, n - i), u = load_as(dtype, up, i, n - i);
    const struct gated made = swiglu_slopes(coarse, load_as(dtype, dy, i, n - i), g, u);
    store_as(dtype, dgate, i, made.gate, n - i);
    store_as(dtype, dup, i, made.up, n - i);
  }
}

COMMAND(swigluGrad) {
  EACH_DTYPE(dtype_of(w[SWIGLU_GRAD_DGATE]), swiglu_grad_all, address(c, w[SWIGLU_GRAD_DGATE]),
             address(c, w[SWIGLU_GRAD_DUP]), address(c, w[SWIGLU_GRAD_DY]), address(c, w[SWIGLU_GRAD_GATE]),
             address(c, w[SWIGLU_GRAD_UP]), (size)w[SWIGLU_GRAD_N]);
}
