// The scale of gradients: what was multiplied with it is divided by it, and it moves from step to step by whether the norm was
// finite. Its numbers are rounded to f32 once, when they are stored.
#include "kernels.h"

COMMAND(unscale) {
  float *x = floats(c, w[UNSCALE_X]);
  const float inverse = (float)(1 / (double)*floats(c, w[UNSCALE_SCALE]));
  for (size i = 0; i < (size)w[UNSCALE_N]; i++) x[i] *= inverse;
}

static const float most = __FLT_MAX__;

COMMAND(weigh) {
  const float norm = *floats(c, w[WEIGH_NORM_SQUARED]);
  *floats(c, w[WEIGH_WEIGHED]) = norm <= most && !(norm < *floats(c, w[WEIGH_LIMIT])) ? most : norm;
}

static float times(float scale, double by) { return (float)((double)scale * by); }
static float no_less(float scale, double min) { return scale > (float)min ? scale : (float)min; }

static void as_torch(float *scale, float *growth, const double *w, int clean) {
  if (!clean) {
    *scale = times(*scale, w[RESCALE_BACKOFF]);
    *growth = 0;
  } else if (*growth + 1 < (float)w[RESCALE_INTERVAL]) {
    *growth += 1;
  } else {
    const float grown = times(*scale, w[RESCALE_FACTOR]);
    if (grown <= most) *scale = grown;
    *growth = 0;
  }
}

static void as_megatron(float *scale, float *growth, float *hysteresis, const double *w, int clean) {
  if (!clean) {
    *growth = 0;
    *hysteresis -= 1;
    if (*hysteresis <= 0) *scale = no_less(times(*scale, w[RESCALE_BACKOFF]), w[RESCALE_MIN]);
  } else if (*growth + 1 < (float)w[RESCALE_INTERVAL]) {
    *growth += 1;
  } else {
    *growth = 0;
    *hysteresis = (float)w[RESCALE_FULL];
    *scale = times(*scale, w[RESCALE_FACTOR]);
  }
}

static void as_deepspeed(float *scale, float *growth, float *hysteresis, const double *w, int clean) {
  if (!clean) {
    if (w[RESCALE_FULL] == 1 || *hysteresis == 1) *scale = no_less(times(*scale, 1 / w[RESCALE_FACTOR]), w[RESCALE_MIN]);
    else *hysteresis -= 1;
    *growth = 0;
    return;
  }
  const int grows = *growth >= (float)w[RESCALE_INTERVAL];
  if (grows || w[RESCALE_CONSECUTIVE] != 0) *hysteresis = (float)w[RESCALE_FULL];
  if (grows) *scale = times(*scale, w[RESCALE_FACTOR]);
  *growth = (grows ? 0 : *growth) + 1;
}

COMMAND(rescale) {
  float *scale = floats(c, w[RESCALE_SCALE]), *growth = floats(c, w[RESCALE_GROWTH]);
  float *hysteresis = floats(c, w[RESCALE_HYSTERESIS]);
  const int clean = *floats(c, w[RESCALE_NORM_SQUARED]) <= most;
  switch ((int)w[RESCALE_SCALER]) {
    case SCALER_TORCH: as_torch(scale, growth, w, clean); break;
    case SCALER_MEGATRON: as_megatron(scale, growth, hysteresis, w, clean); break;
    case SCALER_DEEPSPEED: as_deepspeed(scale, growth, hysteresis, w, clean); break;
  }
}
