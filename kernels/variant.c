// The inner product of everything, after Goto and van de Geijn: blocks of a and b are packed into the order in which a
// register tile of TILE_ROWS x TILE_COLUMNS of the result reads them, sized for the caches they are read from. The tile
// runs over k with all of its sums in registers. Sums over k run in ascending order, one pass per block of k, so the bits
// of a result depend on the sizes, and on how long a pass is, alone.
//
// Which tile is fastest differs between CPUs: this file is compiled once for each variant of variants.mjs, and the
// machine it is to run on chooses. The plain rung, which all of them must agree with:
//
//   for (i < m) for (j < n) for (p < k) out[i][j] += a[i][p] * b[p][j];
#ifndef VARIANT  // compiled by hand
#define VARIANT variant_plain
#define NAME plain
#define TILE_ROWS 4
#define TILE_VECTORS 2
#endif
#ifndef READS_LANES
#define READS_LANES 0  // 1: a comes four numbers a load, each of which multiplies as a lane; 0: one number at a time
#endif
#ifndef FETCHES
#define FETCHES 0  // how many steps of k ahead a and b are fetched; 0: the CPU sees by itself what comes
#endif
#ifndef FETCHES_NEXT
#define FETCHES_NEXT 0  // 1: while a tile is multiplied, the rows or the panel behind it are fetched into the second cache
#endif
#ifndef OVERWRITES
#define OVERWRITES 0  // 1: a result that is not read is not fetched either: the CPU sees lines that are written as a whole
#endif
#ifndef SPREADS
#define SPREADS 0  // how many rows of the result are fetched at a time, over the steps of k; 0: all of them at the beginning
#endif
#include "matmul.h"

#define TILE_COLUMNS (TILE_VECTORS * LANES)
#include "pack.h"
_Static_assert(!READS_LANES || TILE_ROWS % 4 == 0, "four rows a load");

// What is fetched while a tile is multiplied: nothing, a part of the next panel of b, the rows of a behind its own.
enum fetched { NOTHING, PANEL, ROWS };

// What one tile reads and writes.
struct tile {
  const float *a;
  size a_row, a_k;  // strides of a
  const float *b;   // k rows of TILE_COLUMNS
  float *out;
  const float *bias, *add;  // or null
  size stride, k;           // of out and add
  enum fetched fetched;
  const float *next;  // the part of a panel: four floats a step of k
};

// One number at a time; across: four rows of one k lie side by side; along: four k of one row do.
enum reading { EACH, ACROSS, ALONG };

// One of four numbers in all lanes.
INLINE vec lane_of(vec4 x, const int lane) {
#ifdef __wasm__
  // By bytes, of x and of nothing else: where a shuffle has an operand that does not matter, LLVM names one of the sums,
  // and V8 keeps it alive.
#define BYTES(l) 4 * l, 4 * l + 1, 4 * l + 2, 4 * l + 3
#define COPIES(l) (vec)__builtin_wasm_shuffle_i8x16((bytes)x, (bytes)x, BYTES(l), BYTES(l), BYTES(l), BYTES(l))
  typedef signed char bytes __attribute__((vector_size(16)));
  return lane == 0 ? COPIES(0) : lane == 1 ? COPIES(1) : lane == 2 ? COPIES(2) : COPIES(3);
#undef COPIES
#undef BYTES
#else
  return splat(x[lane]);
#endif
}

// Adds the products of one row of b with one number of every row of a.
#define MULTIPLY_ROW(i, x)                                                                            \
  _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) sums[i][v] = fma_lanes(x, row[v], sums[i][v])
#define LOAD_ROW                                                                                      \
  vec row[TILE_VECTORS];                                                                              \
  _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) row[v] = load(b + v * LANES);             \
  if (FETCHES) _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v += 64 / VECTOR_BYTES)           \
      __builtin_prefetch(b + FETCHES * TILE_COLUMNS + v * LANES)

#define EACH_SUM(...)                                                                                  \
  _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                                             \
      _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) __VA_ARGS__

// Every line of a row of the result, which is written soon.
INLINE void fetch_result(const float *row, const int columns) {
#pragma GCC unroll 8
  for (int j = 0; j < columns; j += LINE_FLOATS) __builtin_prefetch(row + j, 1);
  __builtin_prefetch(row + columns - 1, 1);  // a row may begin within a line
}

// Before each part of the steps of k a few rows of the result are fetched: they have come by the time the sums are done, and the CPU, which
// waits for few lines at once, has room for those of b meanwhile.
INLINE void multiply_tile(const int rows, const int vectors, const enum reading reading, const struct tile *t, size a_row,
                          size a_k, const enum fetched fetched) {
  enum { LONG = 16 * TILE_ROWS };
  vec sums[TILE_ROWS][TILE_VECTORS] = {};
  const float *a = t->a, *b = t->b, *next = fetched == PANEL ? t->next : b;
  const int each = !SPREADS ? rows : fetched == ROWS ? 1 : SPREADS, parts = (rows + each - 1) / each;
  const size steps = t->k < LONG ? 0 : t->k / parts & ~(size)3, ahead = fetched == ROWS ? rows : 4;
  size p = 0;
#pragma GCC unroll 1
  for (int part = 0; part < parts; part++) {
    const size until = part + 1 == parts ? t->k : (part + 1) * steps;
    if (!OVERWRITES || t->add)
#pragma GCC unroll 16
      for (int i = 0; i < each; i++) fetch_result(t->out + (part * each + i) * t->stride, vectors * LANES);
    if (fetched == ROWS) next = t->a + (rows + part) * a_row;
    if (reading == ALONG)
      for (; p + 4 <= until; p += 4, a += 4, next += 4 * ahead) {
        vec4 x[TILE_ROWS];
        if (fetched) __builtin_prefetch(next, 0, 2);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) x[i] = load4(a + i * a_row);
#pragma GCC unroll 4
        for (int l = 0; l < 4; l++, b += TILE_COLUMNS) {
          LOAD_ROW;
#pragma GCC unroll 16
          for (int i = 0; i < rows; i++) MULTIPLY_ROW(i, lane_of(x[i], l));
        }
      }
#ifdef __x86_64__  // what counts steps is a tenth of what is issued, of which a core that runs two threads has half
#pragma GCC unroll 2
#endif
    for (; p < until; p++, a += a_k, b += TILE_COLUMNS, next += ahead) {
      LOAD_ROW;
      if (fetched) __builtin_prefetch(next, 0, 2);
      if (FETCHES && a_row == 1) __builtin_prefetch(a + FETCHES * a_k);
      if (reading == ACROSS) {
#pragma GCC unroll 4
        for (int i = 0; i < rows; i += 4) {
          const vec4 x = load4(a + i);
          MULTIPLY_ROW(i, lane_of(x, 0));
          MULTIPLY_ROW(i + 1, lane_of(x, 1));
          MULTIPLY_ROW(i + 2, lane_of(x, 2));
          MULTIPLY_ROW(i + 3, lane_of(x, 3));
        }
      } else {
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) MULTIPLY_ROW(i, splat(a[i * a_row]));
      }
    }
  }
  if (t->bias) EACH_SUM(sums[i][v] += load(t->bias + v * LANES));
  if (t->add) EACH_SUM(sums[i][v] += load(t->add + i * t->stride + v * LANES));
  float *out = t->out;
  const size stride = t->stride;  // read once: what is stored might be the tile, for all the compiler knows
  EACH_SUM(store(out + i * stride + v * LANES, sums[i][v]));
}

// One function per number of rows: a tile at the lower edge does not compute rows that nobody reads. The first kind runs
// on packed blocks, whose strides are known; the second on any matrix; the third on one vector of columns, the last on two.
typedef void tile_function(const struct tile *);
#define BELOW_2(do) do(1)
#define BELOW_4(do) BELOW_2(do) do(2) do(3)
#define BELOW_6(do) BELOW_4(do) do(4) do(5)
#define BELOW_8(do) BELOW_6(do) do(6) do(7)
#define BELOW_12(do) BELOW_8(do) do(8) do(9) do(10) do(11)
#define BELOW_14(do) BELOW_12(do) do(12) do(13)
#define JOIN(a, b) a##b
#define BELOW(n, do) JOIN(BELOW_, n)(do)

enum { TWICE = TILE_VECTORS > 2 ? 2 : 1 };

#define DEFINE(rows)                                                                                                    \
  static void packed_##rows(const struct tile *t) { multiply_tile(rows, TILE_VECTORS, EACH, t, 1, TILE_ROWS, NOTHING); }      \
  static void strided_##rows(const struct tile *t) { multiply_tile(rows, TILE_VECTORS, EACH, t, t->a_row, t->a_k, NOTHING); } \
  static void narrow_##rows(const struct tile *t) { multiply_tile(rows, 1, EACH, t, t->a_row, t->a_k, NOTHING); }             \
  static void twice_##rows(const struct tile *t) { multiply_tile(rows, TWICE, EACH, t, t->a_row, t->a_k, NOTHING); }
BELOW(TILE_ROWS, DEFINE)

// All rows, read in the way that how they lie allows.
INLINE void multiply_strided(const int vectors, const struct tile *t, const enum fetched fetched) {
  if (READS_LANES && t->a_row == 1)
    multiply_tile(TILE_ROWS, vectors, ACROSS, t, 1, t->a_k, fetched);
  else if (READS_LANES && t->a_k == 1)
    multiply_tile(TILE_ROWS, vectors, ALONG, t, t->a_row, 1, fetched);
  else
    multiply_tile(TILE_ROWS, vectors, EACH, t, t->a_row, t->a_k, fetched);
}
INLINE void multiply_packed(const struct tile *t, const enum fetched fetched) {
  multiply_tile(TILE_ROWS, TILE_VECTORS, READS_LANES ? ACROSS : EACH, t, 1, TILE_ROWS, fetched);
}
static void packed_whole(const struct tile *t) { multiply_packed(t, NOTHING); }
static void strided_whole(const struct tile *t) { multiply_strided(TILE_VECTORS, t, NOTHING); }
static void narrow_whole(const struct tile *t) { multiply_strided(1, t, NOTHING); }
static void twice_whole(const struct tile *t) { multiply_strided(TWICE, t, NOTHING); }
static void packed_panel(const struct tile *t) { multiply_packed(t, PANEL); }
static void strided_panel(const struct tile *t) { multiply_strided(TILE_VECTORS, t, PANEL); }
static void strided_rows(const struct tile *t) { multiply_strided(TILE_VECTORS, t, ROWS); }

// By height, and whole ones by what they fetch.
struct tiles {
  tile_function *by_height[TILE_ROWS + 1], *fetching[ROWS + 1];
};
#define PACKED(rows) packed_##rows,
#define STRIDED(rows) strided_##rows,
#define NARROW(rows) narrow_##rows,
#define OF_TWO(rows) twice_##rows,
static const struct tiles packed_tiles = {{0, BELOW(TILE_ROWS, PACKED) packed_whole},
                                          {packed_whole, FETCHES_NEXT ? packed_panel : 0}};
static const struct tiles strided_tiles = {{0, BELOW(TILE_ROWS, STRIDED) strided_whole},
                                           {strided_whole, FETCHES_NEXT ? strided_panel : 0, SPREADS ? strided_rows : 0}};
static tile_function *const narrow_tiles[] = {0, BELOW(TILE_ROWS, NARROW) narrow_whole};
static tile_function *const twice_tiles[] = {0, BELOW(TILE_ROWS, OF_TWO) twice_whole};

// A tile at the right edge goes through a whole one of its own, and only its columns are copied out.
static void multiply_edge(tile_function *multiply, struct tile t, int rows, int columns) {
  float whole[TILE_ROWS * TILE_COLUMNS];
  const struct tile edge = t;
  t.out = whole;
  t.bias = t.add = 0;
  t.stride = TILE_COLUMNS;
  multiply(&t);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      float sum = whole[i * TILE_COLUMNS + j];
      if (edge.bias) sum += edge.bias[j];
      if (edge.add) sum += edge.add[i * edge.stride + j];
      edge.out[i * edge.stride + j] = sum;
    }
}

// Few columns of a panel go by two vectors and by one.
static void multiply_narrow(const struct tile *whole, int height, size columns) {
  for (size j = 0, width; j < columns; j += width) {
    struct tile t = *whole;
    t.b += j;
    t.out += j;
    if (t.bias) t.bias += j;
    if (t.add) t.add += j;
    const int two = TWICE == 2 && columns - j > LANES;
    width = two ? 2 * LANES : LANES;
    tile_function *multiply = (two ? twice_tiles : narrow_tiles)[height];
    if (columns - j >= width)
      multiply(&t);
    else
      multiply_edge(multiply, t, height, (int)(columns - j));
  }
}

INLINE void multiply_at(const struct tiles *tiles, const struct tile *t, size rows, size columns) {
  const int height = (int)min_size(rows, TILE_ROWS);
  if (columns >= TILE_COLUMNS)
    (height == TILE_ROWS ? tiles->fetching[t->fetched] : tiles->by_height[height])(t);
  else if (columns > (TILE_VECTORS - 1) * LANES)
    multiply_edge(tiles->by_height[height], *t, height, (int)columns);
  else
    multiply_narrow(t, height, columns);
}

// What the tile at (i, j) fetches: of rows that lie where they are, those that nobody has read yet, unless they are few; else its part of
// the next panel, unless the second cache holds all panels, or other tiles have fetched everything.
INLINE enum fetched fetched_at(const struct product *x, size i, size j, size part, struct matrix a) {
  enum { FEW = 1 << 13, MOST = 1 << 16 };
  if (SPREADS && x->m * x->k > FEW && j == 0 && a.column_stride == 1 && i + 2 * TILE_ROWS <= x->m) return ROWS;
  return FETCHES_NEXT && part < TILE_COLUMNS && j + TILE_COLUMNS < x->n && x->n * x->k > MOST ? PANEL : NOTHING;
}

// The tile at (i, j), from elements of a and the panels of b, which lie `apart` from each other.
INLINE struct tile tile_of(const struct product *x, size i, size j, struct matrix a, const float *panels, size apart) {
  const size at = i * x->stride + j, part = i / TILE_ROWS * 4;
  const float *panel = panels + j / TILE_COLUMNS * apart;
  return (struct tile){.a = (const float *)a.at.at,
                       .a_row = a.row_stride,
                       .a_k = a.column_stride,
                       .b = panel,
                       .out = (float *)x->out.at + at,
                       .bias = x->bias.at ? (const float *)x->bias.at + j : 0,
                       .add = x->add.at ? (const float *)x->add.at + at : 0,
                       .stride = x->stride,
                       .k = x->k,
                       .fetched = fetched_at(x, i, j, part, a),
                       .next = panel + apart + part * x->k};
}

// The result, from rows of a where they lie.
static void multiply_rows(const struct product *x, const float *panels, size height) {
  for (size j = 0; j < x->n; j += TILE_COLUMNS)
    for (size i = 0; i < x->m; i += TILE_ROWS) {
      const struct tile t = tile_of(x, i, j, block_of(x->a, i, 0), panels, height * TILE_COLUMNS);
      multiply_at(&strided_tiles, &t, x->m - i, x->n - j);
    }
}

// The same from a packed block of a.
static void multiply_block(const struct product *x, const float *a, const float *panels) {
  for (size j = 0; j < x->n; j += TILE_COLUMNS)
    for (size i = 0; i < x->m; i += TILE_ROWS) {
      const struct tile t = tile_of(x, i, j, matrix_of(a + i * x->k, 1, TILE_ROWS), panels, x->k * TILE_COLUMNS);
      multiply_at(&packed_tiles, &t, x->m - i, x->n - j);
    }
}

// The most of `most` that is whole tiles.
INLINE size whole_tiles(size most, size unit) { return max_size(most / unit, 1) * unit; }

INLINE size step_of_n(const struct blocks *most, size n) {
  return even_block(n, whole_tiles(most->columns, TILE_COLUMNS), TILE_COLUMNS);
}
INLINE size step_of_k(const struct blocks *most, size k) { return even_block(k, most->k, 4); }

// Rows of a as they are multiplied: where they lie, where they were widened, or packed.
struct rows_of_a {
  struct matrix at;
  const float *packed;  // or null
};

static struct rows_of_a prepare_rows(struct matrix a, size rows, size k, float *space, int unpacked) {
  if (!unpacked) {
    pack_rows(space, a, rows, k);
    return (struct rows_of_a){.packed = space};
  }
  if (!is_narrow(a.at.dtype)) return (struct rows_of_a){.at = a};
  for (size i = 0; i < rows; i++) widen(space + i * k, block_of(a, i, 0).at, k);
  return (struct rows_of_a){.at = matrix_of(space, k, 1)};
}

static void multiply_prepared(struct product x, struct rows_of_a a, const float *panels) {
  x.a = a.at;
  if (a.packed)
    multiply_block(&x, a.packed, panels);
  else
    multiply_rows(&x, panels, x.k);
}

// How a product is cut.
struct cuts {
  size step_m, step_n, step_k;
  int unpacked;
  float *packed_a, *packed_b, *sums;
  size room_b;  // floats of packed_b
};

// Whether rows of a can be read where they lie: along k, or across it where one block has all of them and a few panels read them.
INLINE int lies_well(const struct product *x, size most_rows) {
  const int across = x->a.row_stride == 1 && x->m <= most_rows && x->n <= 4 * TILE_COLUMNS && !is_narrow(x->a.at.dtype);
  return x->a.column_stride == 1 || across;
}

static struct cuts cuts_of(const struct blocks *most, const struct product *x, float *space) {
  const size most_rows = whole_tiles(most->rows, TILE_ROWS), room_a = most_rows * most->k;
  return (struct cuts){.step_m = even_block(x->m, most_rows, TILE_ROWS),
                       .step_n = step_of_n(most, x->n),
                       .step_k = step_of_k(most, x->k),
                       .unpacked = x->n <= most->unpacked && lies_well(x, most_rows),
                       .packed_a = space,
                       .packed_b = space + room_a,
                       .sums = space + VECTORS_BYTES / 4,
                       .room_b = VECTORS_BYTES / 4 - room_a};
}

static void multiply_blocks(const struct blocks *most, const struct product *x, float *space) {
  const struct cuts c = cuts_of(most, x, space);
  const float *panels = x->panels ? x->panels : c.packed_b;
  double *sums = x->sums.at ? (double *)c.sums : 0;
  for (size j = 0; j < x->n; j += c.step_n) {
    const size columns = min_size(c.step_n, x->n - j);
    if (sums) __builtin_memset(sums, 0, (size_t)columns * sizeof *sums);
    for (size p = 0; p < x->k; p += c.step_k) {
      const size depth = min_size(c.step_k, x->k - p);
      if (!x->panels) pack_summed(c.packed_b, block_of(x->b, p, j), depth, columns, sums);
      for (size i = 0; i < x->m; i += c.step_m) {
        const struct product part = part_of(x, i, j, p, min_size(c.step_m, x->m - i), columns, depth);
        multiply_prepared(part, prepare_rows(part.a, part.m, depth, c.packed_a, c.unpacked), panels);
      }
      if (x->panels) panels += depth * round_up(columns, TILE_COLUMNS);
    }
    if (sums) store_columns(from_number(x->sums, j), sums, columns, x->adds);
  }
}

// Where results are rounded once, sums stay in f32 until all passes over k are done, a few panels at a time, so that the
// last pass finds them in the first caches. `sums` are those of the part; the last pass stores.
static void sum_part(const struct product *x, const struct cuts *c, size i, size j, struct product part, size p,
                     const float *panels, float *sums) {
  enum { STRIP = TILE_COLUMNS >= 64 ? 4 * TILE_COLUMNS : 256 / TILE_COLUMNS * TILE_COLUMNS };
  const struct rows_of_a a = prepare_rows(part.a, part.m, part.k, c->packed_a, c->unpacked);
  for (size first = 0; first < part.n; first += STRIP) {
    struct product strip = part;
    float *own = sums + first * part.m;
    strip.n = strip.stride = min_size(STRIP, part.n - first);
    strip.out = (struct numbers){(char *)own, DTYPE_F32};
    strip.add = p > 0 ? strip.out : (struct numbers){};
    strip.bias = (struct numbers){};
    multiply_prepared(strip, a, panels + first * part.k);
    if (p + part.k == x->k) store_sums(x, i, j + first, part.m, strip.n, own, strip.stride);
  }
}

// b is packed for all passes at once where there is room for it; else again for as many rows as there is room for sums.
static void multiply_rounded(const struct blocks *most, const struct product *x, float *space) {
  const struct cuts c = cuts_of(most, x, space);
  const size columns_most = round_up(min_size(c.step_n, x->n), TILE_COLUMNS);
  const int whole = x->panels || x->k * columns_most <= c.room_b;
  const size room_m = whole ? c.step_m : max_size(SUMS_BYTES / 4 / c.step_n / c.step_m, 1) * c.step_m;
  for (size j = 0; j < x->n; j += c.step_n) {
    const size columns = min_size(c.step_n, x->n - j), padded = round_up(columns, TILE_COLUMNS);
    const float *panels = x->panels ? x->panels + j * x->k : c.packed_b;
    for (size p = 0; !x->panels && whole && p < x->k; p += c.step_k)
      pack_columns(c.packed_b + p * padded, block_of(x->b, p, j), min_size(c.step_k, x->k - p), columns);
    for (size from = 0; from < x->m; from += room_m)
      for (size p = 0; p < x->k; p += c.step_k) {
        const size depth = min_size(c.step_k, x->k - p);
        if (!whole) pack_columns(c.packed_b, block_of(x->b, p, j), depth, columns);
        for (size i = from; i < min_size(x->m, from + room_m); i += c.step_m) {
          const struct product part = part_of(x, i, j, p, min_size(c.step_m, x->m - i), columns, depth);
          sum_part(x, &c, i, j, part, p, whole ? panels + p * padded : panels, c.sums + (i - from) * columns);
        }
      }
  }
}

static void multiply_any(const struct blocks *most, const struct product *x, float *space) {
  (is_rounded(x) ? multiply_rounded : multiply_blocks)(most, x, space);
}

static void pack_blocks(const struct blocks *most, float *to, struct matrix b, size k, size n) {
  const size step_n = step_of_n(most, n), step_k = step_of_k(most, k);
  for (size j = 0; j < n; j += step_n)
    for (size p = 0; p < k; p += step_k)
      to = pack_columns(to, block_of(b, p, j), min_size(step_k, k - p), min_size(step_n, n - j));
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
const struct variant VARIANT = {.name = TEXT(NAME),
                                .rows = TILE_ROWS,
                                .columns = TILE_COLUMNS,
                                .multiply_blocks = multiply_any,
                                .pack_blocks = pack_blocks,
                                .multiply_rows = multiply_rows,
                                .pack_columns = pack_columns};
