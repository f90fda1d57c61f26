// Rotary positions: x[i] and x[i + half] are the coordinates of a point that turns by position * frequency i.
// Angles are taken in f64, once per position and pair, and used by every sample and head; where documents are packed, samples
// have positions of their own.
#include "numbers.h"
#include "functions.h"

#define PAIRS 64  // turned at once

static void turn(float *y, const float *x, const float *cosines, const float *sines, size pairs, size half) {
  for (size i = 0; i < pairs; i++) {
    const float a = x[i], b = x[i + half];
    y[i] = a * cosines[i] - b * sines[i];
    y[i + half] = b * cosines[i] + a * sines[i];
  }
}

static void turn_narrow(struct numbers y, struct numbers x, size at, const float *cosines, const float *sines, size pairs,
                        size half) {
  float points[2 * PAIRS];
  widen(points, from_number(x, at), pairs);
  widen(points + PAIRS, from_number(x, at + half), pairs);
  turn(points, points, cosines, sines, pairs, PAIRS);
  narrow(from_number(y, at), points, pairs);
  narrow(from_number(y, at + half), points + PAIRS, pairs);
}

COMMAND(rope) {
  const struct numbers y = numbers_of(c, w[ROPE_Y]), x = numbers_of(c, w[ROPE_X]);
  const size batch = (size)w[ROPE_BATCH], seq = (size)w[ROPE_SEQ], heads = (size)w[ROPE_HEADS];
  const size head_dim = (size)w[ROPE_HEAD_DIM], half = head_dim / 2;
  const double growth = w[ROPE_GROWTH], sign = w[ROPE_INVERSE] ? -growth : growth;
  const int32_t *places = w[ROPE_PLACES] > 0 ? ints(c, w[ROPE_PLACES]) : 0;
  for (size start = 0; start < half; start += PAIRS) {
    const size pairs = min_size(PAIRS, half - start);
    const double *frequencies = w + ROPE_GAP + 1 + start;
    float cosines[PAIRS], sines[PAIRS];
    for (size s = 0; s < seq; s++)
      for (size b = 0; b < batch; b++) {
        const double position = places ? places[b * seq + s] : w[ROPE_ORIGIN] + (double)s + (s < (size)w[ROPE_UNTIL] ? 0 : w[ROPE_GAP]);
        for (size i = 0; i < pairs && (b == 0 || places); i++) {
          double cosine, sine;
          cos_sin_f64(position * frequencies[i], &cosine, &sine);
          cosines[i] = (float)(growth * cosine);
          sines[i] = (float)(sign * sine);
        }
        for (size h = 0; h < heads; h++) {
          const size at = ((b * seq + s) * heads + h) * head_dim + start;
          if (is_narrow(x.dtype | y.dtype))
            turn_narrow(y, x, at, cosines, sines, pairs, half);
          else
            turn((float *)y.at + at, (float *)x.at + at, cosines, sines, pairs, half);
        }
      }
  }
}
