// Updates in place, element by element, with the gradient first scaled to the norm the plan allows. Learning rate, steps
// taken and norm are f32 scalars in memory; what is the same for all elements is computed once, in f64. A norm that is not
// below the limit, or not a number, means that the step is skipped: nothing is written.
#include "kernels.h"
#include "functions.h"
#include "numbers.h"

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
  const double lr = rate_of(c, w[ADAMW_LR], w[ADAMW_RATE]);
  const int corrects = w[ADAMW_TAKEN] != 0;
  const double time = corrects ? (double)*floats(c, w[ADAMW_TAKEN]) + 1 : 0;
  const int coupled = w[ADAMW_COUPLED] != 0;
  const struct adamw a = {
    .scale = clip_scale(w[ADAMW_CLIP], norm_squared),
    .beta1 = (float)w[ADAMW_BETA1], .rest1 = (float)(1 - w[ADAMW_BETA1]),
    .beta2 = (float)w[ADAMW_BETA2], .rest2 = (float)(1 - w[ADAMW_BETA2]), .eps = (float)w[ADAMW_EPS],
    .rate = (float)(corrects ? lr / (1 - power_f64(w[ADAMW_BETA1], time)) : lr),
    .root = (float)(corrects ? 1 / __builtin_sqrt(1 - power_f64(w[ADAMW_BETA2], time)) : 1),
    .decay = (float)((coupled ? 1 : lr) * w[ADAMW_WEIGHT_DECAY]),
  };
  const size n = (size)w[ADAMW_N];
  if (!coupled && !top) adamw_all(a, 0, n, param, m, v, 0, grad);
  else if (!coupled) adamw_all(a, 0, n, param, m, v, top, grad);
  else if (!top) adamw_all(a, 1, n, param, m, v, 0, grad);
  else adamw_all(a, 1, n, param, m, v, top, grad);
}

// It is given the mean of gradients. What never had one before v stood still has none now.
COMMAND(frozenAdam) {
  const double norm_squared = (double)*floats(c, w[FROZEN_ADAM_NORM_SQUARED]);
  if (!(norm_squared < w[FROZEN_ADAM_LIMIT])) return;
  float *restrict param = floats(c, w[FROZEN_ADAM_PARAM]), *restrict m = floats(c, w[FROZEN_ADAM_M]);
  const float *restrict v = floats(c, w[FROZEN_ADAM_V]), *restrict mean = floats(c, w[FROZEN_ADAM_GRAD]);
  const double rate = rate_of(c, w[FROZEN_ADAM_LR], w[FROZEN_ADAM_RATE]);
  const float scale = clip_scale(w[FROZEN_ADAM_CLIP], norm_squared), lr = (float)rate, eps = (float)w[FROZEN_ADAM_EPS];
  const float decay = (float)(rate * w[FROZEN_ADAM_WEIGHT_DECAY]);
  for (size i = 0; i < (size)w[FROZEN_ADAM_N]; i++) {
    m[i] = v[i] > 0 ? mean[i] * scale : 0;
    param[i] -= lr * m[i] / (__builtin_sqrtf(v[i]) + eps) + decay * param[i];
  }
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

struct lamb {
  float scale, beta1, rest1, beta2, rest2, eps, unbias, root, decay;
};

static struct lamb lamb_of(const double *betas_eps, double decay, double clip, double norm_squared, double taken) {
  const double beta1 = betas_eps[0], beta2 = betas_eps[1];
  return (struct lamb){
    .scale = clip_scale(clip, norm_squared),
    .beta1 = (float)beta1, .rest1 = (float)(1 - beta1), .beta2 = (float)beta2, .rest2 = (float)(1 - beta2),
    .eps = (float)betas_eps[2], .decay = (float)decay,
    .unbias = (float)(1 / (1 - power_f64(beta1, taken + 1))),
    .root = (float)(1 / __builtin_sqrt(1 - power_f64(beta2, taken + 1))),
  };
}

// Adam's direction and the decay, from moments that have seen the gradient.
INLINE float lamb_step(struct lamb a, float m, float v, float param) {
  return m * a.unbias / (__builtin_sqrtf(v) * a.root + a.eps) + a.decay * param;
}

enum { LAMB_RUN = 256 };

COMMAND(lambSquares) {
  const struct lamb a = lamb_of(
      w + LAMB_SQUARES_BETA1, w[LAMB_SQUARES_WEIGHT_DECAY], w[LAMB_SQUARES_CLIP],
      (double)*floats(c, w[LAMB_SQUARES_NORM_SQUARED]), (double)*floats(c, w[LAMB_SQUARES_TAKEN]));
  static const int words[] = {LAMB_SQUARES_GRAD, LAMB_SQUARES_PARAM, LAMB_SQUARES_M, LAMB_SQUARES_V};
  const size n = (size)w[LAMB_SQUARES_N];
  float space[4][LAMB_RUN];
  double of_param = 0, of_step = 0;
  // Runs of f32 sums, added up in f64: as exact as need be, and in vectors.
  for (size from = 0; from < n; from += LAMB_RUN) {
    const size run = n - from < LAMB_RUN ? n - from : LAMB_RUN;
    const float *x[4];
    for (int i = 0; i < 4; i++) x[i] = wide(numbers_of(c, w[words[i]]), from, run, space[i]);
    const float *grad = x[0], *param = x[1], *m = x[2], *v = x[3];
    float params[16] = {0}, steps[16] = {0};
    for (size i = 0; i < run; i++) {
      const float g = grad[i] * a.scale;
      const float step = lamb_step(a, a.beta1 * m[i] + a.rest1 * g, a.beta2 * v[i] + a.rest2 * g * g, param[i]);
      params[i % 16] += param[i] * param[i];
      steps[i % 16] += step * step;
    }
    for (int i = 0; i < 16; i++) of_param += (double)params[i], of_step += (double)steps[i];
  }
  *floats(c, w[LAMB_SQUARES_PARAM_SQUARED]) = (float)of_param;
  *floats(c, w[LAMB_SQUARES_STEP_SQUARED]) = (float)of_step;
}

COMMAND(lamb) {
  const double norm_squared = (double)*floats(c, w[LAMB_NORM_SQUARED]);
  if (!(norm_squared < w[LAMB_LIMIT])) return;
  const struct lamb a =
      lamb_of(w + LAMB_BETA1, w[LAMB_WEIGHT_DECAY], w[LAMB_CLIP], norm_squared, (double)*floats(c, w[LAMB_TAKEN]));
  const double of_param = (double)*floats(c, w[LAMB_PARAM_SQUARED]), of_step = (double)*floats(c, w[LAMB_STEP_SQUARED]);
  const int adapts = (w[LAMB_WEIGHT_DECAY] != 0 || w[LAMB_ALWAYS] != 0) && of_param > 0 && of_step > 0;
  const double trust = adapts ? __builtin_sqrt(of_param / of_step) : 1;
  const float rate = (float)(rate_of(c, w[LAMB_LR], w[LAMB_RATE]) * trust);
  float *restrict param = floats(c, w[LAMB_PARAM]), *restrict m = floats(c, w[LAMB_M]), *restrict v = floats(c, w[LAMB_V]);
  const float *restrict grad = floats(c, w[LAMB_GRAD]);
  for (size i = 0; i < (size)w[LAMB_N]; i++) {
    const float g = grad[i] * a.scale;
    m[i] = a.beta1 * m[i] + a.rest1 * g;
    v[i] = a.beta2 * v[i] + a.rest2 * g * g;
    param[i] -= rate * lamb_step(a, m[i], v[i], param[i]);
  }
}

COMMAND(muonMean) {
  const float scale = clip_scale(w[MUON_MEAN_CLIP], (double)*floats(c, w[MUON_MEAN_NORM_SQUARED]));
  const float momentum = (float)w[MUON_MEAN_MOMENTUM], rest = (float)(1 - w[MUON_MEAN_MOMENTUM]);
  const float *restrict grad = floats(c, w[MUON_MEAN_GRAD]), *restrict m = floats(c, w[MUON_MEAN_M]);
  float *restrict direction = floats(c, w[MUON_MEAN_DIRECTION]);
  const int ahead = w[MUON_MEAN_NESTEROV] != 0;
  for (size i = 0; i < (size)w[MUON_MEAN_N]; i++) {
    const float g = grad[i] * scale, mean = momentum * m[i] + rest * g;
    direction[i] = ahead ? momentum * mean + rest * g : mean;
  }
}

COMMAND(normalise) {
  const float *restrict x = floats(c, w[NORMALISE_X]);
  float *restrict out = floats(c, w[NORMALISE_OUT]);
  const size n = (size)w[NORMALISE_N];
  double squares = 0;
  for (size i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
  const double norm = __builtin_sqrt(squares);
  const float by = (float)(1 / (norm > 1e-7 ? norm : 1e-7));
  for (size i = 0; i < n; i++) out[i] = x[i] * by;
}

COMMAND(muon) {
  const double norm_squared = (double)*floats(c, w[MUON_NORM_SQUARED]);
  if (!(norm_squared < w[MUON_LIMIT])) return;
  float *restrict param = floats(c, w[MUON_PARAM]), *restrict m = floats(c, w[MUON_M]);
  const float *restrict grad = floats(c, w[MUON_GRAD]), *restrict direction = floats(c, w[MUON_DIRECTION]);
  const double lr = rate_of(c, w[MUON_LR], w[MUON_RATE]);
  const float scale = clip_scale(w[MUON_CLIP], norm_squared), momentum = (float)w[MUON_MOMENTUM];
  const float rest = (float)(1 - w[MUON_MOMENTUM]), by = (float)(lr * w[MUON_STRETCH]), decay = (float)(lr * w[MUON_WEIGHT_DECAY]);
  for (size i = 0; i < (size)w[MUON_N]; i++) {
    m[i] = momentum * m[i] + rest * (grad[i] * scale);
    param[i] -= by * direction[i] + decay * param[i];
  }
}

// In the first step that is taken, the value itself.
COMMAND(average) {
  if (!((double)*floats(c, w[AVERAGE_NORM_SQUARED]) < w[AVERAGE_LIMIT])) return;
  float *restrict ema = floats(c, w[AVERAGE_EMA]);
  const float *restrict value = floats(c, w[AVERAGE_VALUE]);
  const double decays = *floats(c, w[AVERAGE_TAKEN]) > 0 ? w[AVERAGE_DECAY] : 0;
  const float decay = (float)decays, rest = (float)(1 - decays);
  for (size i = 0; i < (size)w[AVERAGE_N]; i++) ema[i] = decay * ema[i] + rest * value[i];
}
