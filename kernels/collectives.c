// Collectives, straight on the memory all ranks share: nothing is staged or sent. The work has a share for every member,
// and every share is cut into pieces. Whoever waits takes pieces, first of its own share, then of those that nobody has
// begun: a member that has no core, or still computes, is not waited for. A sum is taken in member order, whoever takes
// it, so the bits are the same in every run. 16-bit numbers are added up in f32 and rounded once.
#include "bytes.h"
#include "rows.h"
#include "sync.h"

enum { CHUNK = 1024 };  // elements added up at a time: they stay in the first cache
static const int bytes_per[DTYPE_COUNT] = DTYPE_BYTES;

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
    if (combine == COMBINE_MAX)                                                                  \
      for (size i = 0; i < n; i++) acc[i] = GREATER(acc[i], LOAD(x[i]));                         \
    else if (combine == COMBINE_MIN)                                                             \
      for (size i = 0; i < n; i++) acc[i] = LESS(acc[i], LOAD(x[i]));                            \
    else if (combine == COMBINE_PRODUCT)                                                         \
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
TYPE(bf16, uint16_t, float, float, from_bf16, to_bf16)
TYPE(f16, uint16_t, float, float, from_f16, to_f16)
TYPE(i32, int, int, unsigned, SAME, SAME)
TYPE(i8, signed char, int, unsigned, SAME, SAME)

// A dtype without its TYPE does not compile.
#define TYPE_ROW(name) {take_##name, fold_##name, put_##name, divide_##name},
static const struct {
  void (*take)(void *restrict, const void *restrict, size);
  void (*fold)(void *restrict, const void *restrict, size, int);
  void (*put)(void *restrict, const void *restrict, size);
  void (*divide)(void *, size, int);
} types[DTYPE_COUNT] = {DTYPES(TYPE_ROW)};

// What is folded: n elements, of `whole` that every member has, that lie `from` bytes into every operand and go `to` bytes
// into the results.
struct fold {
  const double *x, *out;
  int operands, results, combine, dtype;
  size from, to, n, whole;
};

// The sum of f32, by which training lives, needs no memory between operands and results. It goes a cache line of every
// operand at a time. A line that will be written may be fetched to be written: fetched to be read, it would have to be asked
// for twice where another core has it. In large results that can cost more than it saves: some CPUs see by themselves that
// lines are overwritten as a whole, unless somebody has asked for them.
enum { MOST_DIRECT = 16, LINE_FLOATS = 16 };

INLINE void sum_lines(const float *const *x, float *const *out, size n, const int operands, const int results, size ahead) {
  enum { VECTORS = LINE_FLOATS / LANES };
  size i = 0;
  for (; i + LINE_FLOATS <= n; i += LINE_FLOATS) {
    vec sums[VECTORS];
    for (int p = 0; p < results && ahead > 0 && i + ahead < n; p++) __builtin_prefetch(out[p] + i + ahead, 1);
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) sums[v] = load(x[0] + i + v * LANES);
    for (int p = 1; p < operands; p++)
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; v++) sums[v] += load(x[p] + i + v * LANES);
    for (int p = 0; p < results; p++)
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; v++) store(out[p] + i + v * LANES, sums[v]);
  }
  for (; i < n; i += LANES) {
    vec sum = load_some(x[0] + i, n - i);
    for (int p = 1; p < operands; p++) sum += load_some(x[p] + i, n - i);
    for (int p = 0; p < results; p++) store_some(out[p] + i, sum, n - i);
  }
}

static void sum_f32(struct context *c, const struct fold *s) {
  const float *x[MOST_DIRECT];
  float *out[MOST_DIRECT];
  const size ahead = s->whole <= c->tuning.moving.fetched ? c->tuning.moving.ahead : 0;
  int results = 0;
  for (int p = 0; p < s->operands; p++) x[p] = (float *)((char *)address(c, s->x[p]) + s->from);
  for (int p = 0; p < s->results; p++)
    if (s->out[p] >= 0) out[results++] = (float *)((char *)address(c, s->out[p]) + s->to);
  if (s->operands == 2 && results == 2)
    sum_lines(x, out, s->n, 2, 2, ahead);
  else if (s->operands == 4 && results == 4)
    sum_lines(x, out, s->n, 4, 4, ahead);
  else
    sum_lines(x, out, s->n, s->operands, results, ahead);
}

static void fold(struct context *c, const struct fold *s) {
  if (s->dtype == DTYPE_F32 && s->combine == COMBINE_SUM && s->operands <= MOST_DIRECT) {
    sum_f32(c, s);
    return;
  }
  void *acc = __builtin_alloca(CHUNK * sizeof(double));  // memory of no declared type: each dtype sees its own
  size width = bytes_per[s->dtype];
  for (size done = 0; done < s->n; done += CHUNK) {
    size n = s->n - done < CHUNK ? s->n - done : CHUNK, from = s->from + done * width, to = s->to + done * width;
    types[s->dtype].take(acc, (char *)address(c, s->x[0]) + from, n);
    for (int p = 1; p < s->operands; p++)
      types[s->dtype].fold(acc, (char *)address(c, s->x[p]) + from, n, s->combine);
    if (s->combine == COMBINE_MEAN) types[s->dtype].divide(acc, n, s->operands);
    for (int p = 0; p < s->results; p++)
      if (s->out[p] >= 0) types[s->dtype].put((char *)address(c, s->out[p]) + to, acc, n);
  }
}

void share_out(struct context *c, const double *w, size whole, size piece, work *work) {
  const struct collective m = collective_of(w);
  if (!lockstep_meet(c, &m, ARRIVED)) return;
  const size pieces = max_size(1, (whole + piece - 1) / piece);
  int span = 1;
  while (span < m.members) span *= 2;
  // Each member has an order of its own: first its share, then that of the neighbour it may share a core with.
  for (int i = 0; i < span; i++) {
    const int share = m.me ^ i;
    if (share >= m.members) continue;
    for (size taken; (taken = lockstep_take(c, &m, share, pieces)) >= 0; lockstep_finish(c, &m, share, pieces))
      work(c, w, share, taken * piece, min_size(whole, (taken + 1) * piece));
  }
  lockstep_meet(c, &m, DONE);
}

// Shares of an all-reduce end on cache lines: nobody writes another's.
static size reduced_share(const double *w) {
  enum { GRAIN = 32 };
  const size members = (size)w[WAIT_ALL_REDUCE_MEMBERS];
  return round_up(((size)w[WAIT_ALL_REDUCE_N] + members - 1) / members, GRAIN);
}

static void all_reduce(struct context *c, const double *w, int share, size low, size high) {
  enum { OPERANDS = WAIT_ALL_REDUCE_DTYPE + 1 };
  const size n = (size)w[WAIT_ALL_REDUCE_N], start = share * reduced_share(w);
  const int members = (int)w[WAIT_ALL_REDUCE_MEMBERS], dtype = (int)w[WAIT_ALL_REDUCE_DTYPE];
  const size from = min_size(n, start + low), to = min_size(n, start + high);
  fold(c, &(struct fold){.x = w + OPERANDS,
                         .out = w + OPERANDS + members,
                         .operands = members,
                         .results = members,
                         .combine = (int)w[WAIT_ALL_REDUCE_COMBINE],
                         .dtype = dtype,
                         .from = from * bytes_per[dtype],
                         .to = from * bytes_per[dtype],
                         .n = to - from,
                         .whole = n});
}

COMMAND(waitAllReduce) {
  share_out(c, w, reduced_share(w), c->tuning.moving.piece / bytes_per[(int)w[WAIT_ALL_REDUCE_DTYPE]], all_reduce);
}

// Where column `column` of a member's row of `inner` lies in the row of all members, and how many follow it there. In
// zigzag, `minor` members in a row share what one of n ranks would have: chunks r and 2n-1-r of 2n.
struct chunk {
  size at, left;
};
static struct chunk chunk_of(size member, size members, size column, size inner, size minor) {
  if (!minor) return (struct chunk){member * inner + column, inner - column};
  const size rank = member / minor, ranks = members / minor, half = minor * inner / 2, x = member % minor * inner + column;
  const size later = x >= half, within = x - later * half;
  return (struct chunk){(later ? 2 * ranks - 1 - rank : rank) * half + within, min_size(half - within, inner - column)};
}

// A share is a member's result: `outer` rows of `inner` elements, which need not begin or end with a piece.
static void reduce_scatter(struct context *c, const double *w, int share, size low, size high) {
  enum { OPERANDS = WAIT_REDUCE_SCATTER_DTYPE + 1 };
  const size inner = (size)w[WAIT_REDUCE_SCATTER_INNER];
  const int members = (int)w[WAIT_REDUCE_SCATTER_MEMBERS], dtype = (int)w[WAIT_REDUCE_SCATTER_DTYPE];
  for (size at = low, n; at < high; at += n) {
    const size row = at / inner, column = at % inner;
    const struct chunk k = chunk_of(share, members, column, inner, (size)w[WAIT_REDUCE_SCATTER_ZIGZAG]);
    n = min_size(k.left, high - at);
    fold(c, &(struct fold){.x = w + OPERANDS,
                           .out = w + OPERANDS + members + share,
                           .operands = members,
                           .results = 1,
                           .combine = (int)w[WAIT_REDUCE_SCATTER_COMBINE],
                           .dtype = dtype,
                           .from = (row * members * inner + k.at) * bytes_per[dtype],
                           .to = at * bytes_per[dtype],
                           .n = n,
                           .whole = (size)w[WAIT_REDUCE_SCATTER_OUTER] * inner * members});
  }
}

COMMAND(waitReduceScatter) {
  const size whole = (size)w[WAIT_REDUCE_SCATTER_OUTER] * (size)w[WAIT_REDUCE_SCATTER_INNER];
  share_out(c, w, whole, c->tuning.moving.piece / bytes_per[(int)w[WAIT_REDUCE_SCATTER_DTYPE]], reduce_scatter);
}

// A member's result that is copied: so many runs of bytes from every member, beginning with its own, so that not all
// read from one. Where a run lies in the result and in its member's operand is each collective's own.
struct runs {
  size members, count, bytes;
};

struct place {
  size out, x;
};

typedef struct place place(const double *w, size share, size member, size run);

static void copy_runs(struct context *c, const double *w, const struct runs *r, place *place, const double *x,
                      int share, size low, size high) {
  const size each = r->count * r->bytes;
  for (size at = low, n; at < high; at += n) {
    const size member = (share + at / each) % r->members, run = at % each / r->bytes, byte = at % r->bytes;
    const struct place p = place(w, share, member, run);
    n = min_size(r->bytes - byte, high - at);
    copy_bytes((char *)address(c, x[r->members + share]) + p.out + byte, (char *)address(c, x[member]) + p.x + byte, n,
               r->members * each >= c->tuning.moving.streamed);
  }
}

static struct runs gathered(const double *w) {
  const size halves = w[WAIT_ALL_GATHER_ZIGZAG] ? 2 : 1;
  return (struct runs){(size)w[WAIT_ALL_GATHER_MEMBERS], (size)w[WAIT_ALL_GATHER_OUTER] * halves,
                       (size)w[WAIT_ALL_GATHER_INNER_BYTES] / halves};
}

static struct place gathered_at(const double *w, size share, size member, size run) {
  (void)share;
  const struct runs r = gathered(w);
  const size halves = w[WAIT_ALL_GATHER_ZIGZAG] ? 2 : 1, inner = r.bytes * halves;
  const struct chunk k = chunk_of(member, r.members, run % halves * r.bytes, inner, (size)w[WAIT_ALL_GATHER_ZIGZAG]);
  return (struct place){run / halves * r.members * inner + k.at, run * r.bytes};
}

static void all_gather(struct context *c, const double *w, int share, size low, size high) {
  const struct runs r = gathered(w);
  copy_runs(c, w, &r, gathered_at, w + WAIT_ALL_GATHER_ZIGZAG + 1, share, low, high);
}

COMMAND(waitAllGather) {
  const struct runs r = gathered(w);
  share_out(c, w, r.members * r.count * r.bytes, c->tuning.moving.piece, all_gather);
}

static struct runs exchanged(const double *w) {
  const size count = (size)w[WAIT_ALL_TO_ALL_OUTER] * (size)w[WAIT_ALL_TO_ALL_FIRST] * (size)w[WAIT_ALL_TO_ALL_MIDDLE];
  return (struct runs){(size)w[WAIT_ALL_TO_ALL_MEMBERS], count,
                       (size)w[WAIT_ALL_TO_ALL_SECOND] * (size)w[WAIT_ALL_TO_ALL_INNER_BYTES]};
}

static struct place exchanged_at(const double *w, size share, size member, size run) {
  const size n = (size)w[WAIT_ALL_TO_ALL_MEMBERS], middle = (size)w[WAIT_ALL_TO_ALL_MIDDLE];
  const size block = (size)w[WAIT_ALL_TO_ALL_FIRST] * middle, o = run / block, in_block = run % block;
  const int cut_first = (int)w[WAIT_ALL_TO_ALL_CUT_FIRST];
  const size bytes = exchanged(w).bytes;
  const size along_first = ((o * n + (cut_first ? share : member)) * block + in_block) * bytes;
  const size along_second = (run * n + (cut_first ? member : share)) * bytes;
  return cut_first ? (struct place){along_second, along_first} : (struct place){along_first, along_second};
}

static void all_to_all(struct context *c, const double *w, int share, size low, size high) {
  const struct runs r = exchanged(w);
  copy_runs(c, w, &r, exchanged_at, w + WAIT_ALL_TO_ALL_CUT_FIRST + 1, share, low, high);
}

COMMAND(waitAllToAll) {
  const struct runs r = exchanged(w);
  share_out(c, w, r.members * r.count * r.bytes, c->tuning.moving.piece, all_to_all);
}

// A member's result is what the member `by` before it has.
static void shift(struct context *c, const double *w, int share, size low, size high) {
  const size members = (size)w[WAIT_SHIFT_MEMBERS], bytes = (size)w[WAIT_SHIFT_BYTES];
  const double *x = w + WAIT_SHIFT_BY + 1;
  const size from = (share + members - (size)w[WAIT_SHIFT_BY]) % members;
  copy_bytes((char *)address(c, x[members + share]) + low, (char *)address(c, x[from]) + low, high - low,
             bytes >= c->tuning.moving.streamed);
}

COMMAND(waitShift) { share_out(c, w, (size)w[WAIT_SHIFT_BYTES], c->tuning.moving.piece, shift); }

// Several tensors at one collective: a member's shares of all of them lie one behind the other, and are cut into pieces as if
// they were one. Parts of a line are equal, so that the last may reach beyond its end: there a sum is zero, and nothing is
// gathered.

// A tensor: elements of a part and of the whole, and where all members' operands and results lie.
struct tensor {
  size part, whole;
  const double *x, *out;
};

static struct tensor tensor_of(const double *w, size index) {
  const size members = (size)w[WAIT_SEVERAL_MEMBERS];
  const double *t = w + WAIT_SEVERAL_PAIRS + 1 + index * (2 + 2 * members);
  return (struct tensor){(size)t[0], (size)t[1], t + 2, t + 2 + members};
}

// Elements of a member's result that it answers for: of a sum that all get its part, of a gather all.
static size share_of(const double *w, const struct tensor *t) {
  return (int)w[WAIT_SEVERAL_HOW] == SEVERAL_ALL_GATHER ? (size)w[WAIT_SEVERAL_MEMBERS] * t->part : t->part;
}

static void sum_part(struct context *c, const double *w, const struct tensor *t, int share, size low, size high) {
  const int members = (int)w[WAIT_SEVERAL_MEMBERS], dtype = (int)w[WAIT_SEVERAL_DTYPE];
  const int everybody = (int)w[WAIT_SEVERAL_HOW] == SEVERAL_ALL_REDUCE;
  const size width = bytes_per[dtype], start = share * t->part, end = max_size(low, min_size(high, t->whole - start));
  if (end > low)
    fold(c, &(struct fold){.x = t->x,
                           .out = everybody ? t->out : t->out + share,
                           .operands = members,
                           .results = everybody ? members : 1,
                           .combine = (int)w[WAIT_SEVERAL_COMBINE],
                           .dtype = dtype,
                           .from = (start + low) * width,
                           .to = (everybody ? start + low : low) * width,
                           .n = end - low,
                           .whole = t->whole});
  if (!everybody && high > end)
    __builtin_memset((char *)address(c, t->out[share]) + end * width, 0, (size_t)((high - end) * width));
}

static void gather_parts(struct context *c, const double *w, const struct tensor *t, int share, size low, size high) {
  const size members = (size)w[WAIT_SEVERAL_MEMBERS], width = bytes_per[(int)w[WAIT_SEVERAL_DTYPE]];
  for (size at = low, n; at < high; at += n) {
    const size member = (share + at / t->part) % members, from = at % t->part;
    n = min_size(t->part - from, high - at);
    const size start = member * t->part + from, there = min_size(n, t->whole - start);
    if (there > 0)
      copy_bytes((char *)address(c, t->out[share]) + start * width, (char *)address(c, t->x[member]) + from * width,
                 there * width, t->whole * width >= c->tuning.moving.streamed);
  }
}

static void several(struct context *c, const double *w, int share, size low, size high) {
  const int gathers = (int)w[WAIT_SEVERAL_HOW] == SEVERAL_ALL_GATHER;
  for (size i = 0, before = 0; i < (size)w[WAIT_SEVERAL_PAIRS] && before < high; i++) {
    const struct tensor t = tensor_of(w, i);
    const size own = share_of(w, &t), from = max_size(0, low - before), to = min_size(own, high - before);
    if (from < to) (gathers ? gather_parts : sum_part)(c, w, &t, share, from, to);
    before += own;
  }
}

COMMAND(waitSeveral) {
  size whole = 0;
  for (size i = 0; i < (size)w[WAIT_SEVERAL_PAIRS]; i++) {
    const struct tensor t = tensor_of(w, i);
    whole += share_of(w, &t);
  }
  share_out(c, w, whole, c->tuning.moving.piece / bytes_per[(int)w[WAIT_SEVERAL_DTYPE]], several);
}

// Rows that go to the experts of other members, and back. A share is a member's result; where its rows come from, its own
// routes say, which are listed behind the results.
static const int *routes_of(struct context *c, const double *x, size members, int share) {
  return ints(c, x[2 * members + (size)share]);
}

// Tokens are counted through the batches and sequences of all members. A member has `batch` of the batches in a row, and of
// a sequence chunks, some of which may lie behind others: a table says for each part of the batches and each chunk who has it
// and where in its own sequence it begins.
struct found {
  size member, token;
};
static struct found find_token(const double *w, size token) {
  const double *places = w + WAIT_ALL_DISPATCH_CHUNKS + 1;
  const size whole = (size)w[WAIT_ALL_DISPATCH_WHOLE_SEQ], chunk = (size)w[WAIT_ALL_DISPATCH_CHUNK];
  const size batch = (size)w[WAIT_ALL_DISPATCH_BATCH], at = token / whole, position = token % whole;
  const double *place = places + 2 * (at / batch * (size)w[WAIT_ALL_DISPATCH_CHUNKS] + position / chunk);
  return (struct found){(size)place[0],
                        at % batch * (size)w[WAIT_ALL_DISPATCH_SEQ] + (size)place[1] + position % chunk};
}

static void all_dispatch(struct context *c, const double *w, int share, size low, size high) {
  const size members = (size)w[WAIT_ALL_DISPATCH_MEMBERS], columns = (size)w[WAIT_ALL_DISPATCH_COLUMNS];
  const size chosen = (size)w[WAIT_ALL_DISPATCH_CHOSEN], choices = (size)w[WAIT_ALL_DISPATCH_CHOICES];
  const double *x = w + WAIT_ALL_DISPATCH_CHUNKS + 1 + (size)w[WAIT_ALL_DISPATCH_PLACES_LENGTH];
  const int *from = routes_of(c, x, members, share);
  const struct numbers out = numbers_of(c, x[members + (size)share]);
  for (size r = low; r < high; r++) {
    const size choice = from[r] < 0 ? 0 : (size)from[r];
    const struct found f = find_token(w, choice / chosen);
    // Each choice has a row of its own, or shares its token's.
    const size at = f.token * choices + choice % chosen % choices;
    fill_row(from_number(out, r * columns), from_number(numbers_of(c, x[f.member]), at * columns).at, from[r], columns);
  }
}

COMMAND(waitAllDispatch) {
  const size piece = max_size(1, c->tuning.moving.piece / (4 * (size)w[WAIT_ALL_DISPATCH_COLUMNS]));
  share_out(c, w, (size)w[WAIT_ALL_DISPATCH_ROWS], piece, all_dispatch);
}

static void all_combine(struct context *c, const double *w, int share, size low, size high) {
  const size members = (size)w[WAIT_ALL_COMBINE_MEMBERS], columns = (size)w[WAIT_ALL_COMBINE_COLUMNS];
  const size repeats = (size)w[WAIT_ALL_COMBINE_REPEATS], rows = (size)w[WAIT_ALL_COMBINE_ROOM];
  const double *x = w + WAIT_ALL_COMBINE_ROOM + 1;
  const int *to = routes_of(c, x, members, share);
  const struct numbers out = numbers_of(c, x[members + (size)share]);
  for (size t = low; t < high; t++)
    for (size first = 0, n; first < columns; first += n) {
      float sums[ROW_RUN], *sum = room(out, t * columns + first, sums);
      n = min_size(ROW_RUN, columns - first);
      for (size i = 0; i < n; i++) sum[i] = 0;
      for (size k = 0; k < repeats; k++) {
        const int row = to[t * repeats + k];
        const size at = row < 0 ? 0 : (size)row;
        add_run(sum, numbers_of(c, x[at / rows]), at % rows * columns + first, row, n);
      }
      put(out, t * columns + first, n, sum);
    }
}

COMMAND(waitAllCombine) {
  const size piece = max_size(1, c->tuning.moving.piece / (4 * (size)w[WAIT_ALL_COMBINE_COLUMNS]));
  share_out(c, w, (size)w[WAIT_ALL_COMBINE_TOKENS], piece, all_combine);
}
