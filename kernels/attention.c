// Causal attention by blocks, after Rabe and Staats, Milakov and Gimelshein, and Dao: a block of queries meets one block
// of keys after the other and keeps a running maximum and sum per query, so the seq x seq matrix never exists. Backward
// computes the probabilities again from the log-sum-exp. Every product is the matmul's register tile. Scores lie by key, so
// that a lane is a query: maxima, sums and masks of a vector of queries wait for no other lane, and keys are multiplied where they lie.
//
// The plain rung: score = scale q.k for the keys a query sees, p = exp(score - lse), out = sum of mask p v;
// dscore = scale p (mask dout.v - dout.out), and dq, dk, dv are products with it. Queries and keys are `depth` wide, values
// and what becomes of them `width`.
#include "functions.h"
#include "matmul.h"
#include "part.h"
#include "random.h"

#define KEYS 64
#define QUERIES 64
#define KEPT 16  // blocks of values that are kept packed

struct problem {
  const struct variant *variant;  // of the register tile
  size batch, kv_heads, group, depth, width, window;
  struct part queries, keys;
  size positions;           // of the whole sequence
  size q_stride, k_stride, out_stride, v_stride;  // from one position to the next
  float scale;
  int dropping;
  struct mask mask;
  size batch_origin, head_origin, group_origin, heads, groups;
  const int32_t *places;  // [batch queries]: where queries stand in their documents; null: a sequence is one document
  const int32_t *order;   // [batch positions]: the token at each slot of a sequence; null: each lies at its place
};

// Blocks of keys and queries are packed whole: another variant is taken than the chosen one where that would fill panels up.
static const struct variant *variant_for(const struct variant *chosen) {
  const struct variant *widest = 0;
  for (int i = 0; variant_at(i); i++) {
    const struct variant *other = variant_at(i);
    if (KEYS % other->columns == 0 && (!widest || other->columns > widest->columns)) widest = other;
  }
  return KEYS % chosen->columns == 0 || !widest ? chosen : widest;
}

// The words from `places` on are the same in attention and attentionGrad.
static struct problem problem_of(const struct context *c, const double *w) {
  enum { shift = ATTENTION_PLACES };
  const double places = w[ATTENTION_PLACES - shift], order = w[ATTENTION_ORDER - shift];
  struct problem p = {
      .variant = variant_for(c->tuning.variant),
      .batch = (size)w[ATTENTION_BATCH - shift],
      .queries = {(size)w[ATTENTION_QUERIES - shift], (size)w[ATTENTION_QUERY_ORIGIN - shift],
                  (size)w[ATTENTION_QUERY_UNTIL - shift], (size)w[ATTENTION_QUERY_GAP - shift]},
      .keys = {(size)w[ATTENTION_KEYS - shift], (size)w[ATTENTION_KEY_ORIGIN - shift],
               (size)w[ATTENTION_KEY_UNTIL - shift], (size)w[ATTENTION_KEY_GAP - shift]},
      .positions = (size)w[ATTENTION_POSITIONS - shift],
      .kv_heads = (size)w[ATTENTION_KV_HEADS - shift],
      .group = (size)w[ATTENTION_GROUP - shift],
      .depth = (size)w[ATTENTION_HEAD_DIM - shift],
      .width = (size)w[ATTENTION_VALUE_DIM - shift],
      .scale = (float)w[ATTENTION_SCALE - shift],
      .window = (size)w[ATTENTION_WINDOW - shift],
      .dropping = w[ATTENTION_RATE - shift] > 0,
      .mask = mask_of(w[ATTENTION_RATE - shift], w[ATTENTION_SEED - shift], w[ATTENTION_NAME - shift],
                      w[ATTENTION_STEP - shift]),
      .batch_origin = (size)w[ATTENTION_BATCH_ORIGIN - shift],
      .head_origin = (size)w[ATTENTION_HEAD_ORIGIN - shift],
      .group_origin = (size)w[ATTENTION_GROUP_ORIGIN - shift],
      .heads = (size)w[ATTENTION_HEADS - shift],
      .groups = (size)w[ATTENTION_GROUPS - shift],
      .places = places > 0 ? ints(c, places) : 0,
      .order = order > 0 ? ints(c, order) : 0,
  };
  if (p.window <= 0) p.window = p.positions;
  p.k_stride = p.kv_heads * p.depth;
  p.q_stride = p.k_stride * p.group;
  p.v_stride = p.kv_heads * p.width;
  p.out_stride = p.v_stride * p.group;
  return p;
}

// Panels of the variant's own width: k rows of so many columns each.
static size padded(const struct problem *p, size columns) { return round_up(columns, p->variant->columns); }

static float *pack(const struct problem *p, float *to, struct matrix b, size k, size columns) {
  return p->variant->pack_columns(to, b, k, columns);
}

// a[rows k] times panels of b, which are k high; added to what is there, or not.
struct panelled {
  float *out;
  size stride;
  struct matrix a;
  const float *panels;
  size rows, columns, k;
};

// Rows, columns and k that are multiplied.
struct cut {
  struct run rows, columns, k;
};

static void multiply_columns(const struct problem *p, const struct panelled *x, struct cut cut, int accumulate) {
  float *out = x->out + cut.rows.first * x->stride + cut.columns.first;
  const struct numbers to = {(char *)out, DTYPE_F32};
  const size width = p->variant->columns, panel = cut.columns.first / width * width;
  const struct product part = {.out = to,
                               .add = accumulate ? to : (struct numbers){},
                               .stride = x->stride,
                               .a = block_of(x->a, cut.rows.first, cut.k.first),
                               .m = cut.rows.length,
                               .n = cut.columns.length,
                               .k = cut.k.length};
  p->variant->multiply_rows(&part, x->panels + panel * x->k + cut.k.first * width + cut.columns.first - panel, x->k);
}

// Columns may begin within a panel, at a whole vector of it: what is left of that panel goes first.
static void multiply_cut(const struct problem *p, const struct panelled *x, struct cut cut, int accumulate) {
  const size width = p->variant->columns, within = cut.columns.first % width;
  if (within > 0) {
    struct cut rest = cut;
    rest.columns.length = min_size(width - within, cut.columns.length);
    multiply_columns(p, x, rest, accumulate);
    cut.columns = piece_of(cut.columns, rest.columns.length, cut.columns.length);
  }
  if (cut.columns.length > 0) multiply_columns(p, x, cut, accumulate);
}

// What a row of the left operand needs of the others near the diagonal, where query i sees the first i + shift + 1 keys: a query, of
// keys that are k, the first; a key, of queries that are columns or k, those from its own on. Rows go by groups, and what is not
// needed is left as it is.
enum side { K_TO, COLUMNS_FROM, K_FROM };

// What a group of rows needs, of `all`; more rows join it as long as they need the same.
static struct run needed_by(struct run *rows, const enum side side, size all, size many, size shift) {
  const size end = rows->first + rows->length;
  if (side == K_TO) {
    const size reach = min_size(round_up(max_size(end + shift, 0), 16), all);
    if (reach == all) rows->length = many - rows->first;
    return (struct run){.length = reach};
  }
  const size from = min_size(max_size(rows->first - shift, 0) / 16 * 16, all);
  if (end <= shift) rows->length = min_size(shift, many) - rows->first;
  return (struct run){.first = from, .length = all - from};
}

static void multiply_seen(const struct problem *p, struct panelled x, const enum side side, size shift) {
  const size group = round_up(16, p->variant->rows);
  const struct run columns = {.length = x.columns}, k = {.length = x.k};
  struct run rows = {};
  for (size i = 0; i < x.rows; i += rows.length) {
    rows = (struct run){.first = i, .length = min_size(group, x.rows - i)};
    const struct run needed = needed_by(&rows, side, side == COLUMNS_FROM ? x.columns : x.k, x.rows, shift);
    const struct cut cut = {rows, side == COLUMNS_FROM ? needed : columns, side == COLUMNS_FROM ? k : needed};
    if (needed.length > 0) multiply_cut(p, &x, cut, side != COLUMNS_FROM);
  }
}

// One row of queries: a sample, a kv head, and one of the query heads that share it.
struct row {
  size batch, head, group;
};

static size q_offset(const struct problem *p, struct row r, size query) {
  return (r.batch * p->queries.length + query) * p->q_stride + (r.head * p->group + r.group) * p->depth;
}
static size k_offset(const struct problem *p, struct row r, size key) {
  return (r.batch * p->keys.length + key) * p->k_stride + r.head * p->depth;
}
static size out_offset(const struct problem *p, struct row r, size query) {
  return (r.batch * p->queries.length + query) * p->out_stride + (r.head * p->group + r.group) * p->width;
}
static size v_offset(const struct problem *p, struct row r, size key) {
  return (r.batch * p->keys.length + key) * p->v_stride + r.head * p->width;
}
static size lse_offset(const struct problem *p, struct row r, size query) {
  return ((r.batch * p->queries.length + query) * p->kv_heads + r.head) * p->group + r.group;
}

// The mask's index is row-major over (batch, kvHeads, group, query, key) of the whole scores; query and key are positions.
static uint64_t mask_index(const struct problem *p, struct row r, size query, size key) {
  const uint64_t batch = (uint64_t)(p->batch_origin + r.batch), head = (uint64_t)(p->head_origin + r.head);
  const uint64_t row = (batch * (uint64_t)p->heads + head) * (uint64_t)p->groups + (uint64_t)(p->group_origin + r.group);
  return (row * (uint64_t)p->positions + (uint64_t)query) * (uint64_t)p->positions + (uint64_t)key;
}

// From its element `first` on, what follows each other in a part and in its sequence. Beyond the last element: nothing.
static struct run run_from(const struct problem *p, struct part part, size batch, size first) {
  if (first >= part.length) return (struct run){first, 0, 0};
  const size end = first < part.until ? min_size(part.until, part.length) : part.length;
  const size slot = part.origin + first + (first < part.until ? 0 : part.gap);
  if (!p->order) return (struct run){first, slot, end - first};
  const int32_t *token = p->order + batch * p->positions + slot;
  size length = 1;
  while (first + length < end && token[length] == token[0] + length) length++;
  return (struct run){first, token[0], length};
}
#define EACH_RUN(run, p, part, batch) \
  for (struct run run = run_from(p, part, batch, 0); run.length > 0; run = run_from(p, part, batch, run.first + run.length))

// The first position that a query sees: of its window, and of its document.
static size first_seen(const struct problem *p, struct row r, struct run query) {
  const size place = p->places ? p->places[r.batch * p->queries.length + query.first] : p->positions;
  return query.position - min_size(p->window - 1, place);
}

// The first that any of some queries sees.
static size first_seen_by_any(const struct problem *p, struct row r, struct run queries) {
  size first = first_seen(p, r, queries);
  for (size i = 1; i < queries.length && p->places; i++) first = min_size(first, first_seen(p, r, piece_of(queries, i, 1)));
  return first;
}

// Which keys of a block a query sees: [from, to), counted inside the block.
struct visible {
  size from, to;
};
static struct visible visible_keys(const struct problem *p, struct row r, struct run query, struct run keys) {
  const size from = max_size(0, first_seen(p, r, query) - keys.position);
  const size to = min_size(keys.length, query.position + 1 - keys.position);
  return (struct visible){min_size(from, KEYS), max_size(to, 0)};
}

// Panels of the values of a block of keys, kept for the blocks of queries and the heads that see the same: of which they are.
struct kept {
  size batch, head, first, length;
  float *panels;
};

// Short rows that lie far apart, which the CPU does not see coming: they are fetched while exponentials are taken.
struct ahead {
  struct numbers rows;
  size stride, count, width;
};

INLINE void fetch_ahead(const struct ahead *a, size row) {
  if (row >= a->count) return;
  const struct numbers from = from_number(a->rows, row * a->stride), end = from_number(from, a->width);
  for (const char *at = from.at; at < end.at; at += 64) __builtin_prefetch(at);
}

// Scores and probabilities lie by key: what is done for one query is done for as many as a vector has lanes.
struct forward_space {
  float *q_panels, *out, *keys, *scores;
  float max[QUERIES], sum[QUERIES];
  struct kept kept[KEPT];
  size slots;
  struct ahead ahead[2];
};

// Which keys of a block each query sees.
struct sight {
  int32_t from[QUERIES], to[QUERIES];
};

static int sees_all(const struct problem *p, struct row r, struct run queries, struct run keys) {
  const struct run last = piece_of(queries, queries.length - 1, 1);
  return !p->places && keys.position + keys.length - 1 <= queries.position && first_seen(p, r, last) <= keys.position;
}

static void see(const struct problem *p, struct row r, struct sight *s, struct run queries, struct run keys) {
  for (size i = 0; i < QUERIES; i++) {
    const struct visible v = i < queries.length ? visible_keys(p, r, piece_of(queries, i, 1), keys) : (struct visible){};
    s->from[i] = (int32_t)v.from;
    s->to[i] = (int32_t)v.to;
  }
}

// Numbers by key become something else where a query does not see the key.
static void hide(const struct sight *s, float *numbers, struct run queries, struct run keys, float otherwise) {
  for (size i = 0; i < queries.length; i += LANES) {
    const ivec from = *(const ivec_at *)(s->from + i), to = *(const ivec_at *)(s->to + i);
    for (size t = 0; t < keys.length; t++) {
      const ivec key = (int32_t)t - (ivec){};
      float *at = numbers + t * QUERIES + i;
      store(at, select_lanes((key >= from) & (key < to), load(at), splat(otherwise)));
    }
  }
}

INLINE vec greatest(const float *scores, size keys) {
  vec most[4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; q++) most[q] = splat(-__builtin_inff());
  size t = 0;
  for (; t + 4 <= keys; t += 4)
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) most[q] = greater(load(scores + (t + q) * QUERIES), most[q]);
  for (; t < keys; t++) most[0] = greater(load(scores + t * QUERIES), most[0]);
  return greater(greater(most[0], most[1]), greater(most[2], most[3]));
}

// Scores become exp(score - max); returns their sum. Of what is ahead, some rows from `first` on are fetched.
INLINE vec soften(float *scores, size keys, vec max, const struct ahead *ahead, size first) {
  vec sum = {};
  for (size t = 0; t < keys; t++) {
    if (t % (QUERIES / LANES) == 0)
      for (int a = 0; a < 2; a++) fetch_ahead(ahead + a, first + t / (QUERIES / LANES));
    const vec e = exp_lanes(load(scores + t * QUERIES) - max);
    store(scores + t * QUERIES, e);
    sum += e;
  }
  return sum;
}

// The factors of dropout, by key.
static void draw_factors(const struct problem *p, struct row r, float *factors, struct run queries, struct run keys) {
  for (size i = 0; i < queries.length; i++) {
    float of_query[KEYS];
    mask_factors(of_query, p->mask, mask_index(p, r, queries.position + i, keys.position), KEYS);
    for (size t = 0; t < keys.length; t++) factors[t * QUERIES + i] = of_query[t];
  }
}

static void drop(const struct problem *p, struct row r, float *probabilities, struct run queries, struct run keys) {
  float factors[KEYS * QUERIES] = {};
  draw_factors(p, r, factors, queries, keys);
  for (size i = 0; i < keys.length * QUERIES; i++) probabilities[i] *= factors[i];
}

// The scores of a block become probabilities, and what was accumulated before is corrected for the new maxima.
static void soften_block(const struct problem *p, struct row r, struct forward_space *s, struct run queries, struct run keys) {
  float corrections[QUERIES];
  if (!sees_all(p, r, queries, keys)) {
    struct sight seen;
    see(p, r, &seen, queries, keys);
    hide(&seen, s->scores, queries, keys, -__builtin_inff());
  }
  for (size i = 0; i < queries.length; i += LANES) {
    const vec before = load(s->max + i), now = greater(greatest(s->scores + i, keys.length), before);
    const vec base = select_lanes(now == -__builtin_inff(), splat(0), now);  // no key was seen so far
    const vec correction = exp_lanes(before - base);
    store(s->sum + i, load(s->sum + i) * correction + soften(s->scores + i, keys.length, base, s->ahead, i));
    store(s->max + i, now);
    store(corrections + i, correction);
  }
  if (p->dropping) drop(p, r, s->scores, queries, keys);
  for (size i = 0; i < queries.length; i++)
    if (corrections[i] != 1)
      for (size d = 0; d < p->width; d++) s->out[i * p->width + d] *= corrections[i];
}

// The panels of the values of a block of keys, packed here unless they are kept.
static const float *values_of(const struct problem *p, struct row r, struct forward_space *s, struct numbers v, struct run keys) {
  struct kept *slot = &s->kept[keys.first / KEYS % s->slots];
  if (slot->batch != r.batch || slot->head != r.head || slot->first != keys.first || slot->length != keys.length) {
    pack(p, slot->panels, (struct matrix){from_number(v, v_offset(p, r, keys.first)), p->v_stride, 1}, keys.length, p->width);
    *slot = (struct kept){r.batch, r.head, keys.first, keys.length, slot->panels};
  }
  return slot->panels;
}

// Rows of numbers, where they lie or widened.
static struct matrix rows_of(struct numbers first, size stride, size rows, size width, float *space) {
  if (!is_narrow(first.dtype)) return (struct matrix){first, stride, 1};
  for (size r = 0; r < rows; r++) widen(space + r * width, from_number(first, r * stride), width);
  return matrix_of(space, width, 1);
}

static struct matrix keys_of(const struct problem *p, struct row r, struct numbers k, struct run keys, float *space) {
  return rows_of(from_number(k, k_offset(p, r, keys.first)), p->k_stride, keys.length, p->depth, space);
}

// One block of keys: scores, probabilities, and their product with v added to out.
static void attend_block(const struct problem *p, struct row r, struct forward_space *s, struct numbers k, struct numbers v,
                         struct run queries, struct run keys) {
  const size shift = queries.position - keys.position, columns = round_up(queries.length, LANES);
  const struct matrix by_query = matrix_of(s->scores, 1, QUERIES);
  multiply_seen(p, (struct panelled){s->scores, QUERIES, keys_of(p, r, k, keys, s->keys), s->q_panels, keys.length, columns, p->depth}, COLUMNS_FROM, shift);
  soften_block(p, r, s, queries, keys);
  const float *values = values_of(p, r, s, v, keys);
  multiply_seen(p, (struct panelled){s->out, p->width, by_query, values, queries.length, p->width, keys.length}, K_TO, shift);
}

// Where attention reads and writes; before: the output of other keys, or null.
struct attended {
  struct numbers q, k, v, before, out;
  const float *before_lse;
  float *lse;
};

// A query begins with nothing, or with what other keys gave it: as if these were one key whose score is their lse.
static void begin(const struct problem *p, struct row r, struct forward_space *s, const struct attended *o, struct run queries) {
  for (size i = queries.length; i < QUERIES; i++) s->max[i] = s->sum[i] = 0;
  for (size i = 0; i < queries.length; i++) {
    const size query = queries.first + i;
    const float lse = o->before.at ? o->before_lse[lse_offset(p, r, query)] : -__builtin_inff();
    const int seen = lse != -__builtin_inff();
    s->max[i] = lse;
    s->sum[i] = seen ? 1 : 0;
    if (seen) widen(s->out + i * p->width, from_number(o->before, out_offset(p, r, query)), p->width);
    else __builtin_memset(s->out + i * p->width, 0, (size_t)p->width * 4);
  }
}

// The scaled queries of a block, by columns.
static void pack_queries(const struct problem *p, struct row r, struct forward_space *s, struct numbers q, struct run queries) {
  const struct matrix by_depth = {from_number(q, q_offset(p, r, queries.first)), 1, p->q_stride};
  float *end = pack(p, s->q_panels, by_depth, p->depth, queries.length);
  for (float *x = s->q_panels; x < end; x++) *x *= p->scale;
}

static void attend(const struct problem *p, struct row r, struct forward_space *s, const struct attended *o,
                   struct run queries) {
  pack_queries(p, r, s, o->q, queries);
  begin(p, r, s, o, queries);
  const size first = first_seen_by_any(p, r, queries);
  EACH_RUN(run, p, p->keys, r.batch) {
    const size seen = max_size(0, first - run.position) / KEYS * KEYS;
    const size end = min_size(run.length, queries.position + queries.length - run.position);
    for (size key = seen; key < end; key += KEYS) {
      const struct run next = piece_of(run, min_size(key + KEYS, end), min_size(KEYS, max_size(0, end - key - KEYS)));
      s->ahead[0] = (struct ahead){from_number(o->k, k_offset(p, r, next.first)), p->k_stride, next.length, p->depth};
      s->ahead[1] = (struct ahead){from_number(o->v, v_offset(p, r, next.first)), p->v_stride, next.length, p->width};
      attend_block(p, r, s, o->k, o->v, queries, piece_of(run, key, KEYS));
    }
  }
  for (size i = 0; i < queries.length; i++) {
    const float scale = s->sum[i] > 0 ? 1 / s->sum[i] : 0;  // no key was seen: lse is -infinity
    float *own = s->out + i * p->width, *to = room(o->out, out_offset(p, r, queries.first + i), own);
    for (size d = 0; d < p->width; d++) to[d] = own[d] * scale;
    put(o->out, out_offset(p, r, queries.first + i), p->width, to);
    o->lse[lse_offset(p, r, queries.first + i)] = (float)((double)s->max[i] + log_f64((double)s->sum[i]));
  }
}

// Takes `count` floats of the workspace, or sets the error.
static float *take(struct context *c, size *used, size count) {
  float *at = (float *)c->workspace + *used;
  *used += round_up(count, 16);
  if (*used * 4 > c->workspace_bytes) c->error = LOCKSTEP_WORKSPACE;
  return at;
}

// As many slots as there is room for; one at least.
static void take_slots(struct context *c, size *used, struct forward_space *s, size count) {
  const size room = (c->workspace_bytes / 4 - *used) / round_up(count, 16);
  s->slots = max_size(min_size(room, KEPT), 1);
  for (size i = 0; i < s->slots; i++) s->kept[i] = (struct kept){.length = 0, .panels = take(c, used, count)};
}

#define EACH_ROW(r, p)                                       \
  for (struct row r = {}; r.batch < (p).batch; r.batch++)    \
    for (r.head = 0; r.head < (p).kv_heads; r.head++)        \
      for (r.group = 0; r.group < (p).group; r.group++)

COMMAND(attention) {
  const struct problem p = problem_of(c, w + ATTENTION_PLACES);
  size used = 0;
  struct forward_space s = {.q_panels = take(c, &used, padded(&p, QUERIES) * p.depth),
                            .out = take(c, &used, QUERIES * p.width),
                            .scores = take(c, &used, QUERIES * KEYS),
                            .keys = take(c, &used, KEYS * p.depth)};
  take_slots(c, &used, &s, KEYS * padded(&p, p.width));
  if (c->error) return;
  const int merges = w[ATTENTION_BEFORE] > 0;
  const struct attended o = {.q = numbers_of(c, w[ATTENTION_Q]),
                             .k = numbers_of(c, w[ATTENTION_K]),
                             .v = numbers_of(c, w[ATTENTION_V]),
                             .before = merges ? numbers_of(c, w[ATTENTION_BEFORE]) : (struct numbers){},
                             .before_lse = merges ? floats(c, w[ATTENTION_BEFORE_LSE]) : 0,
                             .out = numbers_of(c, w[ATTENTION_OUT]),
                             .lse = floats(c, w[ATTENTION_LSE])};
  EACH_ROW(r, p)
  EACH_RUN(run, &p, p.queries, r.batch)
  for (size query = 0; query < run.length; query += QUERIES) attend(&p, r, &s, &o, piece_of(run, query, QUERIES));
}

// Each is weighed by its part of the sum of exp(scores), which is 0 where it saw no key.
COMMAND(attentionMerge) {
  const size rows = (size)w[ATTENTION_MERGE_ROWS], columns = (size)w[ATTENTION_MERGE_COLUMNS];
  const float *a = floats(c, w[ATTENTION_MERGE_A]), *a_lse = floats(c, w[ATTENTION_MERGE_A_LSE]);
  const float *b = floats(c, w[ATTENTION_MERGE_B]), *b_lse = floats(c, w[ATTENTION_MERGE_B_LSE]);
  float *out = floats(c, w[ATTENTION_MERGE_OUT]), *lse = floats(c, w[ATTENTION_MERGE_LSE]);
  for (size r = 0; r < rows; r++, a += columns, b += columns, out += columns) {
    const float most = a_lse[r] > b_lse[r] ? a_lse[r] : b_lse[r];
    const int seen = most > -__builtin_inff();
    const float from_a = seen ? exp_lanes(splat(a_lse[r] - most))[0] : 0, from_b = seen ? exp_lanes(splat(b_lse[r] - most))[0] : 0;
    const float total = from_a + from_b, scale = seen ? 1 / total : 0;
    lse[r] = seen ? (float)((double)most + log_f64((double)total)) : most;
    for (size i = 0; i < columns; i++) out[i] = (a[i] * from_a + b[i] * from_b) * scale;
  }
}

struct operands {
  struct numbers dq, dk, dv, dout, q, k, v, out;
  const float *lse;
};

// A block of queries as the blocks of keys meet it, kept for all of them: of which row it is, its first query, and how many there are.
struct kept_queries {
  struct row row;
  size first, length;
  float *q_transposed, *dout_transposed, *q_panels, *dout_panels;  // q scaled
  float lse[QUERIES], delta[QUERIES];                              // delta: dout.out
};

// Scores and slopes lie by key, as in the forward pass.
struct backward_space {
  float *k_panels;          // of the block of keys, scaled
  float *dk, *dv;           // sums of the block of keys
  float *dq;                // of the queries of a kv head, where they are rounded; or null
  float *keys, *values;     // of the block of keys, where they are widened
  float *dout, *out;        // of the block of queries, where they are widened
  float *scores, *slopes, *factors;
  struct kept_queries kept[KEPT];
  size slots;
};

static float dot(const float *a, const float *b, size n) {
  vec sums = {};
  for (size i = 0; i < n; i += LANES) sums = fma_lanes(load_some(a + i, n - i), load_some(b + i, n - i), sums);
  return sum_lanes(sums);
}

static void multiply_by_scale(const struct problem *p, float *from, const float *end) {
  for (; from < end; from++) *from *= p->scale;
}

static void pack_block(const struct problem *p, const struct operands *o, struct backward_space *s, struct kept_queries *b,
                       struct run queries) {
  const size many = queries.length, depth = p->depth, width = p->width;
  const struct numbers q = from_number(o->q, q_offset(p, b->row, queries.first));
  const size at = out_offset(p, b->row, queries.first);
  const struct matrix dout = rows_of(from_number(o->dout, at), p->out_stride, many, width, s->dout);
  const struct matrix out = rows_of(from_number(o->out, at), p->out_stride, many, width, s->out);
  multiply_by_scale(p, b->q_transposed, pack(p, b->q_transposed, (struct matrix){q, 1, p->q_stride}, depth, many));
  multiply_by_scale(p, b->q_panels, pack(p, b->q_panels, (struct matrix){q, p->q_stride, 1}, many, depth));
  pack(p, b->dout_transposed, (struct matrix){dout.at, 1, dout.row_stride}, width, many);
  pack(p, b->dout_panels, dout, many, width);
  for (size i = 0; i < QUERIES; i++) {
    const int is_there = i < many;
    b->lse[i] = is_there ? o->lse[lse_offset(p, b->row, queries.first + i)] : 0;
    b->delta[i] = is_there ? dot((const float *)block_of(dout, i, 0).at.at, (const float *)block_of(out, i, 0).at.at, width) : 0;
  }
}

// The block of queries, packed here unless it is kept.
static const struct kept_queries *queries_of(const struct problem *p, struct row r, const struct operands *o,
                                             struct backward_space *s, struct run queries) {
  const size blocks = (p->queries.length + QUERIES - 1) / QUERIES;
  struct kept_queries *b = &s->kept[(r.group * blocks + queries.first / QUERIES) % s->slots];
  const int is_kept = b->row.batch == r.batch && b->row.head == r.head && b->row.group == r.group &&
                      b->first == queries.first && b->length == queries.length;
  if (!is_kept) {
    b->row = r;
    b->first = queries.first;
    b->length = queries.length;
    pack_block(p, o, s, b, queries);
  }
  return b;
}

// Scores become masked probabilities, slopes (which come as dout.v) become dscore / scale.
INLINE void slope_all(const struct backward_space *s, const struct kept_queries *b, size keys, const int dropping) {
  for (size i = 0; i < b->length; i += LANES) {
    const vec lse = load(b->lse + i), delta = load(b->delta + i);
    for (size t = 0; t < keys; t++) {
      const size at = t * QUERIES + i;
      const vec probability = exp_lanes(load(s->scores + at) - lse), dp = load(s->slopes + at);
      const vec factor = dropping ? load(s->factors + at) : splat(1);
      store(s->scores + at, dropping ? probability * factor : probability);
      store(s->slopes + at, probability * ((dropping ? factor * dp : dp) - delta));
    }
  }
}

static void slope_probabilities(const struct problem *p, struct row r, const struct backward_space *s,
                                const struct kept_queries *b, struct run queries, struct run keys) {
  if (!sees_all(p, r, queries, keys)) {
    struct sight seen;
    see(p, r, &seen, queries, keys);
    hide(&seen, s->scores, queries, keys, -__builtin_inff());
    hide(&seen, s->slopes, queries, keys, 0);
  }
  if (p->dropping) {
    draw_factors(p, r, s->factors, queries, keys);
    slope_all(s, b, keys.length, 1);
  } else
    slope_all(s, b, keys.length, 0);
}

// A block of keys, as its rows are multiplied.
struct key_rows {
  struct matrix k, v;
};

// One block of queries against the block of keys.
static void slope_block(const struct problem *p, struct row r, const struct operands *o, struct backward_space *s,
                        const struct key_rows *rows, struct run queries, struct run keys) {
  const size many = queries.length, depth = p->depth, width = p->width;
  const size shift = queries.position - keys.position, columns = round_up(many, LANES);
  const struct kept_queries *b = queries_of(p, r, o, s, queries);
  multiply_seen(p, (struct panelled){s->scores, QUERIES, rows->k, b->q_transposed, keys.length, columns, depth}, COLUMNS_FROM, shift);
  multiply_seen(p, (struct panelled){s->slopes, QUERIES, rows->v, b->dout_transposed, keys.length, columns, width}, COLUMNS_FROM, shift);
  slope_probabilities(p, r, s, b, queries, keys);
  const struct matrix scores = matrix_of(s->scores, QUERIES, 1), slopes = matrix_of(s->slopes, QUERIES, 1);
  const struct matrix by_query = matrix_of(s->slopes, 1, QUERIES);
  float *dq = s->dq ? s->dq + (queries.first * p->group + r.group) * depth : (float *)o->dq.at + q_offset(p, r, queries.first);
  multiply_seen(p, (struct panelled){s->dv, width, scores, b->dout_panels, keys.length, width, many}, K_FROM, shift);
  multiply_seen(p, (struct panelled){s->dk, depth, slopes, b->q_panels, keys.length, depth, many}, K_FROM, shift);
  multiply_seen(p, (struct panelled){dq, s->dq ? p->group * depth : p->q_stride, by_query, s->k_panels, many, depth, keys.length}, K_TO, shift);
}

// All that has to do with one block of keys: dk and dv of it, and its part of every dq.
static void slope_keys(const struct problem *p, struct row r, const struct operands *o, struct backward_space *s,
                       struct run keys) {
  const size depth = p->depth, width = p->width;
  const struct numbers k = from_number(o->k, k_offset(p, r, keys.first)), v = from_number(o->v, v_offset(p, r, keys.first));
  const struct key_rows rows = {rows_of(k, p->k_stride, keys.length, depth, s->keys), rows_of(v, p->v_stride, keys.length, width, s->values)};
  multiply_by_scale(p, s->k_panels, pack(p, s->k_panels, rows.k, keys.length, depth));
  for (size i = 0; i < keys.length * depth; i++) s->dk[i] = 0;
  for (size i = 0; i < keys.length * width; i++) s->dv[i] = 0;
  for (r.group = 0; r.group < p->group; r.group++)
    EACH_RUN(run, p, p->queries, r.batch) {
      const size first = max_size(0, keys.position - run.position) / QUERIES * QUERIES;  // queries before do not see the block
      const size last = min_size(run.length, keys.position + keys.length - 1 + p->window - run.position);  // nor those after
      for (size query = first; query < last; query += QUERIES) {
        const struct run queries = piece_of(run, query, QUERIES);
        // Later documents do not see the block either.
        if (first_seen_by_any(p, r, queries) < keys.position + keys.length) slope_block(p, r, o, s, &rows, queries, keys);
      }
    }
  for (size t = 0; t < keys.length; t++) {
    narrow(from_number(o->dk, k_offset(p, r, keys.first + t)), s->dk + t * depth, depth);
    narrow(from_number(o->dv, v_offset(p, r, keys.first + t)), s->dv + t * width, width);
  }
}

static void take_query_slots(struct context *c, size *used, struct backward_space *s, const struct problem *p) {
  const size queries = padded(p, QUERIES);
  const size counts[] = {queries * p->depth, queries * p->width, QUERIES * padded(p, p->depth), QUERIES * padded(p, p->width)};
  const size all = counts[0] + counts[1] + counts[2] + counts[3] + 64;
  s->slots = max_size(min_size((c->workspace_bytes / 4 - *used) / all, KEPT), 1);
  for (size i = 0; i < s->slots; i++) {
    struct kept_queries *b = &s->kept[i];
    b->length = 0;
    b->q_transposed = take(c, used, counts[0]);
    b->dout_transposed = take(c, used, counts[1]);
    b->q_panels = take(c, used, counts[2]);
    b->dout_panels = take(c, used, counts[3]);
  }
}

COMMAND(attentionGrad) {
  const struct problem p = problem_of(c, w + ATTENTION_GRAD_PLACES);
  const struct operands o = {numbers_of(c, w[ATTENTION_GRAD_DQ]), numbers_of(c, w[ATTENTION_GRAD_DK]),
                             numbers_of(c, w[ATTENTION_GRAD_DV]), numbers_of(c, w[ATTENTION_GRAD_DOUT]),
                             numbers_of(c, w[ATTENTION_GRAD_Q]),  numbers_of(c, w[ATTENTION_GRAD_K]),
                             numbers_of(c, w[ATTENTION_GRAD_V]),  numbers_of(c, w[ATTENTION_GRAD_OUT]),
                             floats(c, w[ATTENTION_GRAD_LSE])};
  const int rounds = is_narrow(o.dq.dtype);
  const size own = p.queries.length * p.group * p.depth;  // of one kv head
  size used = 0;
  struct backward_space s = {
      .k_panels = take(c, &used, KEYS * padded(&p, p.depth)),
      .dk = take(c, &used, KEYS * p.depth),
      .dv = take(c, &used, KEYS * p.width),
      .scores = take(c, &used, QUERIES * KEYS),
      .slopes = take(c, &used, QUERIES * KEYS),
      .factors = take(c, &used, p.dropping ? QUERIES * KEYS : 0),
      .keys = take(c, &used, is_narrow(o.k.dtype) ? KEYS * p.depth : 0),
      .values = take(c, &used, is_narrow(o.v.dtype) ? KEYS * p.width : 0),
      .dout = take(c, &used, is_narrow(o.dout.dtype) ? QUERIES * p.width : 0),
      .out = take(c, &used, is_narrow(o.out.dtype) ? QUERIES * p.width : 0),
      .dq = rounds ? take(c, &used, own) : 0,
  };
  take_query_slots(c, &used, &s, &p);
  if (c->error) return;
  const size elements = p.batch * p.queries.length * p.q_stride;
  for (size i = 0; !rounds && i < elements; i++) ((float *)o.dq.at)[i] = 0;
  for (struct row r = {}; r.batch < p.batch; r.batch++)
    for (r.head = 0; r.head < p.kv_heads; r.head++) {
      for (size i = 0; rounds && i < own; i++) s.dq[i] = 0;
      EACH_RUN(run, &p, p.keys, r.batch)
      for (size key = 0; key < run.length; key += KEYS) slope_keys(&p, r, &o, &s, piece_of(run, key, KEYS));
      for (size query = 0; rounds && query < p.queries.length; query++)
        narrow(from_number(o.dq, q_offset(&p, r, query)), s.dq + query * p.group * p.depth, p.group * p.depth);
    }
}
