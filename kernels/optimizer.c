// Updates in place, element by element, with the gradient first scaled to the norm the plan allows. Learning rate, steps
// taken and norm are f32 scalars in memory; what is the same for all elements is computed once, in f64. A norm that is not
// below the limit, or not a number, means that the step is skipped: nothing is written.
#include "kernels.h"
#include "functions.h"

static float clip_scale(double clip, double norm_squared) {
  if (clip <= 0) return 1;
  const double scale = clip / (__builtin_sqrt(norm_squared) + 1e-6);
  return scale < 1 ? (float)scale : 1;
}

COMMAND(take) {
  if ((double)*floats(c, w[TAKE_NORM_SQUARED]) < w[TAKE_LIMIT]) *floats(c, w[TAKE_TAKEN]) += 1;
}

static double rate_of(const struct context *c, double lr, double rate) { return (double)*floats(c, lr) * rate; }

// direction = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps), with the corrections moved out of the loop:
// lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps). What a plan leaves out is left out of the loop, too.
struct adamw {
  float scale, beta1, rest1, beta2, rest2, eps, rate, root, decay;
};

INLINE void adamw_all(
    struct adamw a, int coupled, size n, float *restrict param, float *restrict m, float *restrict v, float *restrict top,
    const float *restrict grad) {
  for (size i = 0; i < n; i++) {
    const float g = coupled ? grad[i] * a.scale + a.decay * param[i] : grad[i] * a.scale;
    m[i] = a.beta1 * m[i] + a.rest1 * g;
    v[i] = a.beta2 * v[i] + a.rest2 * g * g;
    if (top) top[i] = top[i] > v[i] ? top[i] : v[i];
    const float step = a.rate * m[i] / (__builtin_sqrtf(top ? top[i] : v[i]) * a.root + a.eps);
    param[i] -= coupled ? step : step + a.decay * param[i];
  }
}

COMMAND(adamw) {
  const double norm_squared = (double)*floats(c, w[ADAMW_NORM_SQUARED]);
  if (!(norm_squared < w[ADAMW_LIMIT])) return;
  float *param = floats(c, w[ADAMW_PARAM]), *m = floats(c, w[ADAMW_M]), *v = floats(c, w[ADAMW_V]);
  float *top = w[ADAMW_TOP] == 0 ? 0 : floats(c, w[ADAMW_TOP]), *grad = floats(c, w[ADAMW_GRAD]);
  const double lr = rate_of(c, w[ADAMW_LR], w[ADAMW_RATE]), time = (double)*floats(c, w[ADAMW_TAKEN]) + 1;
  const int coupled = w[ADAMW_COUPLED] != 0;
  const struct adamw a = {
    .scale = clip_scale(w[ADAMW_CLIP], norm_squared),
    .beta1 = (float)w[ADAMW_BETA1], .rest1 = (float)(1 - w[ADAMW_BETA1]),
    .beta2 = (float)w[ADAMW_BETA2], .rest2 = (float)(1 - w[ADAMW_BETA2]), .eps = (float)w[ADAMW_EPS],
    .rate = (float)(lr / (1 - power_f64(w[ADAMW_BETA1], time))),
    .root = (float)(1 / __builtin_sqrt(1 - power_f64(w[ADAMW_BETA2], time))),
    .decay = (float)((coupled ? 1 : lr) * w[ADAMW_WEIGHT_DECAY]),
  };
  const size n = (size)w[ADAMW_N];
  if (!coupled && !top) adamw_all(a, 0, n, param, m, v, 0, grad);
  else if (!coupled) adamw_all(a, 0, n, param, m, v, top, grad);
  else if (!top) adamw_all(a, 1, n, param, m, v, 0, grad);
  else adamw_all(a, 1, n, param, m, v, top, grad);
}

COMMAND(sgd) {
  const double norm_squared = (double)*floats(c, w[SGD_NORM_SQUARED]);
  if (!(norm_squared < w[SGD_LIMIT])) return;
  float *restrict param = floats(c, w[SGD_PARAM]), *restrict m = floats(c, w[SGD_M]);
  const float *restrict grad = floats(c, w[SGD_GRAD]);
  const float scale = clip_scale(w[SGD_CLIP], norm_squared), lr = (float)rate_of(c, w[SGD_LR], w[SGD_RATE]);
  const float momentum = (float)w[SGD_MOMENTUM], decay = (float)w[SGD_WEIGHT_DECAY];
  const float fresh = w[SGD_TAKEN] != 0 && *floats(c, w[SGD_TAKEN]) > 0 ? (float)(1 - w[SGD_DAMPENING]) : 1;
  const size n = (size)w[SGD_N];
  if (w[SGD_M] == 0)
    for (size i = 0; i < n; i++) param[i] -= lr * (grad[i] * scale + decay * param[i]);
  else if (w[SGD_NESTEROV] != 0)
    for (size i = 0; i < n; i++) {
      const float g = grad[i] * scale + decay * param[i];
      m[i] = momentum * m[i] + fresh * g;
      param[i] -= lr * (g + momentum * m[i]);
    }
  else
    for (size i = 0; i < n; i++) {
      m[i] = momentum * m[i] + fresh * (grad[i] * scale + decay * param[i]);
      param[i] -= lr * m[i];
    }
}

COMMAND(lion) {
  const double norm_squared = (double)*floats(c, w[LION_NORM_SQUARED]);
  if (!(norm_squared < w[LION_LIMIT])) return;
  float *restrict param = floats(c, w[LION_PARAM]), *restrict m = floats(c, w[LION_M]);
  const float *restrict grad = floats(c, w[LION_GRAD]);
  const float scale = clip_scale(w[LION_CLIP], norm_squared), lr = (float)rate_of(c, w[LION_LR], w[LION_RATE]);
  const float beta1 = (float)w[LION_BETA1], rest1 = (float)(1 - w[LION_BETA1]), decay = (float)w[LION_WEIGHT_DECAY];
  const float beta2 = (float)w[LION_BETA2], rest2 = (float)(1 - w[LION_BETA2]);
  for (size i = 0; i < (size)w[LION_N]; i++) {
    const float g = grad[i] * scale, mean = beta1 * m[i] + rest1 * g;
    const float sign = (float)(mean > 0) - (float)(mean < 0);
    m[i] = beta2 * m[i] + rest2 * g;
    param[i] -= lr * (sign + decay * param[i]);
  }
}
