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

// direction = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps), with the corrections moved out of the loop:
// lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps).
COMMAND(adamw) {
  if (!((double)*floats(c, w[ADAMW_NORM_SQUARED]) < w[ADAMW_LIMIT])) return;
  float *restrict param = floats(c, w[ADAMW_PARAM]), *restrict m = floats(c, w[ADAMW_M]), *restrict v = floats(c, w[ADAMW_V]);
  const float *restrict grad = floats(c, w[ADAMW_GRAD]);
  const double lr = (double)*floats(c, w[ADAMW_LR]), time = (double)*floats(c, w[ADAMW_TAKEN]) + 1;
  const float scale = w[ADAMW_CLIP] > 0 ? clip_scale(w[ADAMW_CLIP], (double)*floats(c, w[ADAMW_NORM_SQUARED])) : 1;
  const float beta1 = (float)w[ADAMW_BETA1], rest1 = (float)(1 - w[ADAMW_BETA1]);
  const float beta2 = (float)w[ADAMW_BETA2], rest2 = (float)(1 - w[ADAMW_BETA2]), eps = (float)w[ADAMW_EPS];
  const float rate = (float)(lr / (1 - power_f64(w[ADAMW_BETA1], time)));
  const float root = (float)(1 / __builtin_sqrt(1 - power_f64(w[ADAMW_BETA2], time)));
  const float decay = (float)(lr * w[ADAMW_WEIGHT_DECAY]);
  for (size i = 0; i < (size)w[ADAMW_N]; i++) {
    const float g = grad[i] * scale;
    m[i] = beta1 * m[i] + rest1 * g;
    v[i] = beta2 * v[i] + rest2 * g * g;
    param[i] -= rate * m[i] / (__builtin_sqrtf(v[i]) * root + eps) + decay * param[i];
  }
}

COMMAND(sgd) {
  if (!((double)*floats(c, w[SGD_NORM_SQUARED]) < w[SGD_LIMIT])) return;
  float *restrict param = floats(c, w[SGD_PARAM]), *restrict m = floats(c, w[SGD_M]);
  const float *restrict grad = floats(c, w[SGD_GRAD]);
  const float scale = w[SGD_CLIP] > 0 ? clip_scale(w[SGD_CLIP], (double)*floats(c, w[SGD_NORM_SQUARED])) : 1;
  const float lr = *floats(c, w[SGD_LR]), momentum = (float)w[SGD_MOMENTUM], decay = (float)w[SGD_WEIGHT_DECAY];
  const size n = (size)w[SGD_N];
  if (w[SGD_M] == 0)
    for (size i = 0; i < n; i++) param[i] -= lr * (grad[i] * scale + decay * param[i]);
  else
    for (size i = 0; i < n; i++) {
      m[i] = momentum * m[i] + grad[i] * scale + decay * param[i];
      param[i] -= lr * m[i];
    }
}
