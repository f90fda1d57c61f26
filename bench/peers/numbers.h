// The numbers of bench/numbers.ts.
#pragma once
#include <stdint.h>
#include <time.h>

static inline uint32_t hash_of(uint32_t i, uint32_t seed) {
  return (i * 2654435761u + seed * 40503u) * 2246822519u;
}
static inline float noise(uint32_t i, uint32_t seed) { return (float)(hash_of(i, seed) >> 8) / 16777216.0f - 0.5f; }
static inline float whole_number(uint32_t i, uint32_t seed) { return (float)(hash_of(i, seed) >> 26); }

static inline double digest(const float *x, long n) {
  double sum = 0;
  for (long i = 0; i < n; i++) sum += (double)x[i] * (1 + i % 251);
  return sum;
}

static inline double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
static inline double now(void) { return seconds_of(CLOCK_MONOTONIC); }
static inline double processor_seconds(void) { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }
