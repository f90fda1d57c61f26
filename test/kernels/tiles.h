// The matrix tiles of AMX in plain C, for CPUs that have AVX-512 and no tiles: included before kernels/amx.c and all it includes.
#pragma once
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_loadconfig
#undef _tile_release

extern uint8_t tiles[8][16][64];
extern long tile_products;

static inline float tile_number(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static inline void tile_load(int tile, const void *from, long stride) {
  for (int r = 0; r < 16; r++) memcpy(tiles[tile][r], (const char *)from + r * stride, 64);
}

static inline void tile_store(int tile, void *to, long stride) {
  for (int r = 0; r < 16; r++) memcpy((char *)to + r * stride, tiles[tile][r], 64);
}

// Pairs of k: a row of a has 16 of them, a row of b one of each column.
static inline void tile_multiply(int to, int left, int right) {
  float *sums = (float *)tiles[to];
  const uint16_t *a = (const uint16_t *)tiles[left], *b = (const uint16_t *)tiles[right];
  for (int i = 0; i < 16; i++)
    for (int pair = 0; pair < 16; pair++)
      for (int j = 0; j < 16; j++)
        for (int of = 0; of < 2; of++)
          sums[i * 16 + j] += tile_number(a[i * 32 + 2 * pair + of]) * tile_number(b[pair * 32 + 2 * j + of]);
  tile_products++;
}

#define _tile_loadd(tile, from, stride) tile_load(tile, from, stride)
#define _tile_stored(tile, to, stride) tile_store(tile, to, stride)
#define _tile_zero(tile) memset(tiles[tile], 0, sizeof tiles[tile])
#define _tile_dpbf16ps(to, left, right) tile_multiply(to, left, right)
#define _tile_loadconfig(config) (void)(config)
#define _tile_release() (void)0
#define __AMX_BF16__ 1
#define __AMX_TILE__ 1
