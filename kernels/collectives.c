// Collectives, straight on the memory all ranks share: nothing is staged or sent. Each member does its share of the work
// for the whole group when it waits: it reads from every member, in member order, and writes where the result belongs.
// The order of a sum depends on nothing but the group, so the bits are the same in every run. 16-bit numbers are added
// up in f32 and rounded once.
#include "sync.h"

enum { SUM, MAX, PRODUCT, MIN, MEAN };
enum { F32, F64, BF16, F16, I32 };
enum { CHUNK = 1024 };  // elements added up at a time: they stay in the first cache
static const int bytes_per[] = {4, 8, 2, 2, 4};

INLINE float from_bf16(unsigned short x) {
  unsigned bits = (unsigned)x << 16;
  float f;
  __builtin_memcpy(&f, &bits, 4);
  return f;
}

INLINE unsigned short to_bf16(float f) {
  unsigned bits;
  __builtin_memcpy(&bits, &f, 4);
  if (f != f) return (unsigned short)(bits >> 16 | 0x40);
  return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

INLINE float from_f16(unsigned short x) {
  unsigned sign = (unsigned)(x & 0x8000) << 16, exponent = x >> 10 & 31, fraction = x & 1023, bits;
  float f;
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24
    f = (float)fraction * 0x1p-24f;
    return sign ? -f : f;
  }
  bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
  __builtin_memcpy(&f, &bits, 4);
  return f;
}

INLINE unsigned short to_f16(float f) {
  unsigned bits, sign;
  __builtin_memcpy(&bits, &f, 4);
  sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return (unsigned short)(sign | 0x7e00);
  if (bits >= 0x477ff000) return (unsigned short)(sign | 0x7c00);  // rounds past 65504
  if (bits < 0x38800000) {                                         // below 2^-14: units of 2^-24, to even
    float a;
    __builtin_memcpy(&a, &bits, 4);
    a = a * 0x1p24f;
    float whole = (a + 0x1p23f) - 0x1p23f;
    return (unsigned short)(sign | (unsigned)whole);
  }
  bits += 0xfff + (bits >> 13 & 1);
  return (unsigned short)(sign | ((bits >> 13) - (112 << 10)));
}

#define SAME(x) (x)
// A NaN stays: whatever it is compared with.
#define GREATER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define LESS(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))

// For one type in memory T and one to add up in A: take the first operand, fold in the next, and put the total.
#define TYPE(name, T, A, U, LOAD, STORE)                                                         \
  static void take_##name(void *restrict to, const void *restrict from, size n) {                \
    A *restrict acc = to;                                                                        \
    const T *restrict x = from;                                                                  \
    for (size i = 0; i < n; i++) acc[i] = LOAD(x[i]);                                            \
  }                                                                                              \
  static void fold_##name(void *restrict to, const void *restrict from, size n, int combine) {   \
    A *restrict acc = to;                                                                        \
    const T *restrict x = from;                                                                  \
    if (combine == MAX)                                                                          \
      for (size i = 0; i < n; i++) acc[i] = GREATER(acc[i], LOAD(x[i]));                         \
    else if (combine == MIN)                                                                     \
      for (size i = 0; i < n; i++) acc[i] = LESS(acc[i], LOAD(x[i]));                            \
    else if (combine == PRODUCT)                                                                 \
      for (size i = 0; i < n; i++) acc[i] = (A)((U)acc[i] * (U)LOAD(x[i]));                      \
    else                                                                                         \
      for (size i = 0; i < n; i++) acc[i] = (A)((U)acc[i] + (U)LOAD(x[i]));                      \
  }                                                                                              \
  static void put_##name(void *restrict to, const void *restrict from, size n) {                 \
    T *restrict out = to;                                                                        \
    const A *restrict acc = from;                                                                \
    for (size i = 0; i < n; i++) out[i] = STORE(acc[i]);                                         \
  }                                                                                              \
  static void divide_##name(void *to, size n, int by) {                                          \
    A *acc = to;                                                                                 \
    for (size i = 0; i < n; i++) acc[i] = acc[i] / (A)by;                                        \
  }

TYPE(f32, float, float, float, SAME, SAME)
TYPE(f64, double, double, double, SAME, SAME)
TYPE(bf16, unsigned short, float, float, from_bf16, to_bf16)
TYPE(f16, unsigned short, float, float, from_f16, to_f16)
TYPE(i32, int, int, unsigned, SAME, SAME)

static const struct {
  void (*take)(void *restrict, const void *restrict, size);
  void (*fold)(void *restrict, const void *restrict, size, int);
  void (*put)(void *restrict, const void *restrict, size);
  void (*divide)(void *, size, int);
} types[] = {
    {take_f32, fold_f32, put_f32, divide_f32},     {take_f64, fold_f64, put_f64, divide_f64},
    {take_bf16, fold_bf16, put_bf16, divide_bf16}, {take_f16, fold_f16, put_f16, divide_f16},
    {take_i32, fold_i32, put_i32, divide_i32},
};

// What one member folds: n elements that lie `from` bytes into every operand and go `to` bytes into the results.
struct share {
  const double *x, *out;
  int operands, results, combine, dtype;
  size from, to, n;
};

static void reduce(struct context *c, const struct share *s) {
  void *acc = __builtin_alloca(CHUNK * sizeof(double));  // memory of no declared type: each dtype sees its own
  size width = bytes_per[s->dtype];
  for (size done = 0; done < s->n; done += CHUNK) {
    size n = s->n - done < CHUNK ? s->n - done : CHUNK, from = s->from + done * width, to = s->to + done * width;
    types[s->dtype].take(acc, (char *)address(c, s->x[0]) + from, n);
    for (int p = 1; p < s->operands; p++)
      types[s->dtype].fold(acc, (char *)address(c, s->x[p]) + from, n, s->combine);
    if (s->combine == MEAN) types[s->dtype].divide(acc, n, s->operands);
    for (int p = 0; p < s->results; p++)
      if (s->out[p] >= 0) types[s->dtype].put((char *)address(c, s->out[p]) + to, acc, n);
  }
}

// Every collective: everybody has come, the work, everybody has done theirs.
struct meeting {
  double sync;
  int me, members, number;
};

static int begin(struct context *c, const double *w, struct meeting *m) {
  *m = (struct meeting){w[START_SYNC], (int)w[START_ME], (int)w[START_MEMBERS], (int)w[START_MEETING]};
  return lockstep_meet(c, m->sync, m->members, ARRIVED, m->number);
}

static void finish(struct context *c, const struct meeting *m) {
  lockstep_come(c, m->sync, m->me, m->members, LEFT, m->number);
  lockstep_meet(c, m->sync, m->members, LEFT, m->number);
}

COMMAND(waitAllReduce) {
  struct meeting m;
  if (!begin(c, w, &m)) return;
  enum { OPERANDS = WAIT_ALL_REDUCE_DTYPE + 1, GRAIN = 32 };  // shares end on cache lines: nobody writes another's
  size n = (size)w[WAIT_ALL_REDUCE_N], per = ((n + m.members - 1) / m.members + GRAIN - 1) / GRAIN * GRAIN;
  size low = per * m.me < n ? per * m.me : n, high = low + per < n ? low + per : n;
  int dtype = (int)w[WAIT_ALL_REDUCE_DTYPE];
  struct share share = {w + OPERANDS, w + OPERANDS + m.members, m.members, m.members, (int)w[WAIT_ALL_REDUCE_COMBINE],
                        dtype,        low * bytes_per[dtype],   low * bytes_per[dtype], high - low};
  reduce(c, &share);
  finish(c, &m);
}

COMMAND(waitReduceScatter) {
  struct meeting m;
  if (!begin(c, w, &m)) return;
  enum { OPERANDS = WAIT_REDUCE_SCATTER_DTYPE + 1 };
  size outer = (size)w[WAIT_REDUCE_SCATTER_OUTER], inner = (size)w[WAIT_REDUCE_SCATTER_INNER];
  int dtype = (int)w[WAIT_REDUCE_SCATTER_DTYPE];
  for (size row = 0; row < outer; row++) {
    struct share share = {w + OPERANDS,
                          w + OPERANDS + m.members + m.me,
                          m.members,
                          1,
                          (int)w[WAIT_REDUCE_SCATTER_COMBINE],
                          dtype,
                          (row * m.members + m.me) * inner * bytes_per[dtype],
                          row * inner * bytes_per[dtype],
                          inner};
    reduce(c, &share);
  }
  finish(c, &m);
}

static void copy(char *to, const char *from, size bytes) {
  if (to != from) __builtin_memcpy(to, from, (size_t)bytes);
}

COMMAND(waitAllGather) {
  struct meeting m;
  if (!begin(c, w, &m)) return;
  enum { OPERANDS = WAIT_ALL_GATHER_INNER_BYTES + 1 };
  size outer = (size)w[WAIT_ALL_GATHER_OUTER], inner = (size)w[WAIT_ALL_GATHER_INNER_BYTES];
  const double *x = w + OPERANDS;
  char *out = address(c, x[m.members + m.me]);
  for (int i = 0; i < m.members; i++) {
    int p = (m.me + i) % m.members;  // members start at different parts, so that they do not all read one
    for (size row = 0; row < outer; row++)
      copy(out + (row * m.members + p) * inner, (char *)address(c, x[p]) + row * inner, inner);
  }
  finish(c, &m);
}

COMMAND(waitAllToAll) {
  struct meeting m;
  if (!begin(c, w, &m)) return;
  enum { OPERANDS = WAIT_ALL_TO_ALL_CUT_FIRST + 1 };
  size outer = (size)w[WAIT_ALL_TO_ALL_OUTER], first = (size)w[WAIT_ALL_TO_ALL_FIRST];
  size middle = (size)w[WAIT_ALL_TO_ALL_MIDDLE], second = (size)w[WAIT_ALL_TO_ALL_SECOND];
  size inner = (size)w[WAIT_ALL_TO_ALL_INNER_BYTES], n = m.members, run = second * inner;
  int cut_first = (int)w[WAIT_ALL_TO_ALL_CUT_FIRST];
  const double *x = w + OPERANDS;
  char *out = address(c, x[m.members + m.me]);
  for (int i = 0; i < m.members; i++) {
    size q = (m.me + i) % m.members;
    const char *from = address(c, x[q]);
    for (size o = 0; o < outer; o++)
      for (size f = 0; f < first; f++)
        for (size k = 0; k < middle; k++) {
          size along_first = (((o * n + (cut_first ? m.me : q)) * first + f) * middle + k) * run;
          size along_second = (((o * first + f) * middle + k) * n + (cut_first ? q : m.me)) * run;
          copy(out + (cut_first ? along_second : along_first), from + (cut_first ? along_first : along_second), run);
        }
  }
  finish(c, &m);
}
