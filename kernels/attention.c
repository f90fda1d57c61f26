// Causal attention by blocks, after Rabe and Staats, Milakov and Gimelshein, and Dao: a block of queries meets one block
// of keys after the other and keeps a running maximum and sum per query, so the seq x seq matrix never exists. Backward
// computes the probabilities again from the log-sum-exp. Every product is the matmul's register tile.
//
// The plain rung: score = scale q.k for the keys a query sees, p = exp(score - lse), out = sum of mask p v;
// dscore = scale p (mask dout.v - dout.out), and dq, dk, dv are products with it. Queries and keys are `depth` wide, values
// and what becomes of them `width`.
#include "functions.h"
#include "matmul.h"
#include "part.h"
#include "random.h"

#define KEYS 64
#define QUERIES 64        // backward
#define MANY_QUERIES 128  // forward, where every block of queries packs the keys again

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

// The words from `places` on are the same in attention and attentionGrad.
static struct problem problem_of(const struct context *c, const double *w) {
  enum { shift = ATTENTION_PLACES };
  const double places = w[ATTENTION_PLACES - shift], order = w[ATTENTION_ORDER - shift];
  struct problem p = {
      .variant = c->tuning.variant,
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

static void multiply_part(const struct problem *p, const struct panelled *x, struct run rows, size columns, struct run k,
                          int accumulate) {
  float *out = x->out + rows.first * x->stride;
  const struct numbers to = {(char *)out, DTYPE_F32};
  const struct product part = {.out = to,
                               .add = accumulate ? to : (struct numbers){},
                               .stride = x->stride,
                               .a = block_of(x->a, rows.first, k.first),
                               .m = rows.length,
                               .n = columns,
                               .k = k.length};
  p->variant->multiply_rows(&part, x->panels + k.first * p->variant->columns, x->k);
}

// What a row of the left operand needs of the others near the diagonal, where row i sees the first i + shift + 1: of columns,
// of k, or, where k are those who see, of k from i - shift on. Rows go by groups, and what is not needed is left as it is.
enum side { COLUMNS_TO, K_TO, K_FROM };

static void multiply_seen(const struct problem *p, struct panelled x, const enum side side, size shift) {
  const size group = round_up(16, p->variant->rows), all = side == COLUMNS_TO ? x.columns : x.k;
  for (size i = 0; i < x.rows;) {
    struct run rows = {.first = i, .length = min_size(group, x.rows - i)};
    const size reach = min_size(round_up(max_size(i + rows.length + shift, 0), 16), all), from = max_size(i - shift, 0);
    const int whole = side == K_FROM ? i + rows.length <= shift : reach == all;
    if (whole) rows.length = side == K_FROM ? min_size(shift, x.rows) - i : x.rows - i;
    const struct run k = side == COLUMNS_TO ? (struct run){.length = x.k}
                         : side == K_TO     ? (struct run){.length = reach}
                                            : (struct run){.first = from, .length = max_size(x.k - from, 0)};
    const size columns = side == COLUMNS_TO ? reach : x.columns;
    if (columns > 0 && k.length > 0) multiply_part(p, &x, rows, columns, k, side != COLUMNS_TO);
    i += rows.length;
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

static void copy_rows(float *to, struct numbers from, size stride, size rows, size width) {
  for (size r = 0; r < rows; r++) widen(to + r * width, from_number(from, r * stride), width);
}

static void copy_scaled(float *to, struct numbers from, size stride, size rows, size depth, float scale) {
  for (size r = 0; r < rows; r++, to += depth) {
    const float *row = wide(from, r * stride, depth, to);
    for (size d = 0; d < depth; d++) to[d] = row[d] * scale;
  }
}

// A vector of a row, from its element t on, with something else where a key is not seen.
INLINE vec seen_or(vec x, size t, struct visible v, float otherwise) {
  ivec keys;
#pragma GCC unroll 16
  for (int lane = 0; lane < LANES; lane++) keys[lane] = lane;
  keys += (int32_t)t;
  return select_lanes((keys >= (int32_t)v.from) & (keys < (int32_t)v.to), x, splat(otherwise));
}

// Hides the scores of keys that are not seen, and returns the largest of the others.
static float hide(float *scores, struct visible v) {
  vec most = splat(-__builtin_inff());
#pragma GCC unroll 4
  for (size t = 0; t < KEYS; t += LANES) {
    const vec x = seen_or(load(scores + t), t, v, -__builtin_inff());
    store(scores + t, x);
    most = greater(x, most);
  }
  return max_lanes(most);
}

// Turns a row of scores into exp(score - max), and returns their sum.
static float soften(float *scores, float max) {
  vec sums = {};
#pragma GCC unroll 4
  for (size t = 0; t < KEYS; t += LANES) {
    const vec e = exp_lanes(load(scores + t) - max);
    store(scores + t, e);
    sums += e;
  }
  return sum_lanes(sums);
}

static void apply_mask(const struct problem *p, struct row r, float *probabilities, size query, size first) {
  float factors[KEYS];
  mask_factors(factors, p->mask, mask_index(p, r, query, first), KEYS);
  for (size t = 0; t < KEYS; t++) probabilities[t] *= factors[t];
}

struct forward_space {
  float *q, *out, *k_panels, *v_panels, *scores;
  float max[MANY_QUERIES], sum[MANY_QUERIES];
};

// The scores of a block become probabilities, of one query after the other; the maxima come first, so that what was
// accumulated before can be corrected for many of them at once.
static void soften_block(const struct problem *p, struct row r, struct forward_space *s, struct run queries, struct run keys,
                         size first) {
  float next[MANY_QUERIES], corrections[MANY_QUERIES];
  int seen[MANY_QUERIES];
  for (size i = first; i < queries.length; i++) {
    float *row = s->scores + (i - first) * KEYS;
    const struct visible v = visible_keys(p, r, piece_of(queries, i, 1), keys);
    seen[i] = v.from < v.to;  // a window, or a document, may begin after this block
    if (!seen[i]) __builtin_memset(row, 0, KEYS * 4);
    const float best = seen[i] ? hide(row, v) : s->max[i];
    next[i] = best > s->max[i] ? best : s->max[i];
  }
  for (size i = first; i < queries.length; i += LANES) {
    const vec before = load_some(s->max + i, queries.length - i), now = load_some(next + i, queries.length - i);
    const vec change = (vec)((ivec)(before - now) & ~(ivec)(before == now));  // 0 where both are -infinity
    store_some(corrections + i, exp_lanes(change), queries.length - i);
  }
  for (size i = first; i < queries.length; i++) {
    if (!seen[i]) continue;
    float *row = s->scores + (i - first) * KEYS;
    s->sum[i] = s->sum[i] * corrections[i] + soften(row, next[i]);
    s->max[i] = next[i];
    if (p->dropping) apply_mask(p, r, row, queries.position + i, keys.position);
    if (corrections[i] != 1)
      for (size d = 0; d < p->width; d++) s->out[i * p->width + d] *= corrections[i];
  }
}

// One block of keys: scores, probabilities, and their product with v added to out.
static void attend_block(const struct problem *p, struct row r, struct forward_space *s, struct numbers k, struct numbers v,
                         struct run queries, struct run keys) {
  const size first = max_size(0, keys.position - queries.position);  // queries before the block do not see it
  const size rest = queries.length - first;
  float *out = s->out + first * p->width;
  pack(p, s->k_panels, (struct matrix){from_number(k, k_offset(p, r, keys.first)), 1, p->k_stride}, p->depth, keys.length);
  pack(p, s->v_panels, (struct matrix){from_number(v, v_offset(p, r, keys.first)), p->v_stride, 1}, keys.length, p->width);
  const size shift = queries.position + first - keys.position;
  const struct matrix q = matrix_of(s->q + first * p->depth, p->depth, 1), scores = matrix_of(s->scores, KEYS, 1);
  multiply_seen(p, (struct panelled){s->scores, KEYS, q, s->k_panels, rest, keys.length, p->depth}, COLUMNS_TO, shift);
  soften_block(p, r, s, queries, keys, first);
  multiply_seen(p, (struct panelled){out, p->width, scores, s->v_panels, rest, p->width, keys.length}, K_TO, shift);
}

// Where attention reads and writes; before: the output of other keys, or null.
struct attended {
  struct numbers q, k, v, before, out;
  const float *before_lse;
  float *lse;
};

// A query begins with nothing, or with what other keys gave it: as if these were one key whose score is their lse.
static void begin(const struct problem *p, struct row r, struct forward_space *s, const struct attended *o, struct run queries) {
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

// The CPU does not see short rows coming that lie far apart.
static void fetch(struct numbers rows, size stride, size count, size width) {
  for (size i = 0; i < count; i++) {
    const struct numbers row = from_number(rows, i * stride), end = from_number(row, width);
    for (const char *at = row.at; at < end.at; at += 64) __builtin_prefetch(at);
  }
}

static void attend(const struct problem *p, struct row r, struct forward_space *s, const struct attended *o,
                   struct run queries) {
  copy_scaled(s->q, from_number(o->q, q_offset(p, r, queries.first)), p->q_stride, queries.length, p->depth, p->scale);
  begin(p, r, s, o, queries);
  const size first = first_seen_by_any(p, r, queries);
  EACH_RUN(run, p, p->keys, r.batch) {
    const size seen = max_size(0, first - run.position) / KEYS * KEYS;
    const size end = min_size(run.length, queries.position + queries.length - run.position);
    for (size key = seen; key < end; key += KEYS) {
      const struct run next = piece_of(run, min_size(key + KEYS, end), min_size(KEYS, max_size(0, end - key - KEYS)));
      fetch(from_number(o->k, k_offset(p, r, next.first)), p->k_stride, next.length, p->depth);
      fetch(from_number(o->v, v_offset(p, r, next.first)), p->v_stride, next.length, p->width);
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

#define EACH_ROW(r, p)                                       \
  for (struct row r = {}; r.batch < (p).batch; r.batch++)    \
    for (r.head = 0; r.head < (p).kv_heads; r.head++)        \
      for (r.group = 0; r.group < (p).group; r.group++)

COMMAND(attention) {
  const struct problem p = problem_of(c, w + ATTENTION_PLACES);
  size used = 0;
  struct forward_space s = {.q = take(c, &used, MANY_QUERIES * p.depth),
                            .out = take(c, &used, MANY_QUERIES * p.width),
                            .k_panels = take(c, &used, padded(&p, KEYS) * p.depth),
                            .v_panels = take(c, &used, KEYS * padded(&p, p.width)),
                            .scores = take(c, &used, MANY_QUERIES * KEYS)};
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
  for (size query = 0; query < run.length; query += MANY_QUERIES)
    attend(&p, r, &s, &o, piece_of(run, query, MANY_QUERIES));
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

struct backward_space {
  float *k_transposed, *v_transposed, *k_panels;  // panels of the block of keys; k_panels scaled
  float *q, *q_panels, *dout_panels;              // of the block of queries; q scaled
  float *dk, *dv;                                 // sums of the block of keys
  float *dq;                                      // of the queries of a kv head, where they are rounded; or null
  float *dout, *out;                              // of the block of queries, where they are widened; or null
  float *scores, *slopes;                         // queries x keys
};

static float dot(const float *a, const float *b, size n) {
  vec sums = {};
  for (size i = 0; i < n; i += LANES) sums = fma_lanes(load_some(a + i, n - i), load_some(b + i, n - i), sums);
  return sum_lanes(sums);
}

// Of one query: scores become masked probabilities, slopes (which come as dout.v) become dscore / scale.
static void slope_row(const struct problem *p, struct row r, float *scores, float *slopes, struct run query, struct run keys,
                      float lse, float delta) {
  const struct visible seen = visible_keys(p, r, query, keys);
  float factors[KEYS];
  if (p->dropping) mask_factors(factors, p->mask, mask_index(p, r, query.position, keys.position), KEYS);
#pragma GCC unroll 4
  for (size t = 0; t < KEYS; t += LANES) {
    const vec probability = exp_lanes(seen_or(load(scores + t), t, seen, -__builtin_inff()) - lse);
    const vec dp = seen_or(load(slopes + t), t, seen, 0);
    if (p->dropping) {
      const vec kept = load(factors + t);
      store(scores + t, probability * kept);
      store(slopes + t, probability * (kept * dp - delta));
    } else {
      store(scores + t, probability);
      store(slopes + t, probability * (dp - delta));
    }
  }
}

// Rows of the outputs of some queries, where they lie or widened.
struct wide_rows {
  const float *at;
  size stride;
};

static struct wide_rows rows_of(const struct problem *p, struct numbers x, struct row r, struct run queries, float *space) {
  const struct numbers first = from_number(x, out_offset(p, r, queries.first));
  if (!is_narrow(x.dtype)) return (struct wide_rows){(const float *)first.at, p->out_stride};
  copy_rows(space, first, p->out_stride, queries.length, p->width);
  return (struct wide_rows){space, p->width};
}

// One block of queries against the packed block of keys.
static void slope_block(const struct problem *p, struct row r, const struct operands *o, struct backward_space *s,
                        struct run queries, struct run keys) {
  const size many = queries.length, depth = p->depth, width = p->width;
  const struct wide_rows dout = rows_of(p, o->dout, r, queries, s->dout), out = rows_of(p, o->out, r, queries, s->out);
  copy_scaled(s->q, from_number(o->q, q_offset(p, r, queries.first)), p->q_stride, many, depth, p->scale);
  pack(p, s->q_panels, matrix_of(s->q, depth, 1), many, depth);
  pack(p, s->dout_panels, matrix_of(dout.at, dout.stride, 1), many, width);
  const size shift = queries.position - keys.position;
  const struct matrix q = matrix_of(s->q, depth, 1), d = matrix_of(dout.at, dout.stride, 1);
  multiply_seen(p, (struct panelled){s->scores, KEYS, q, s->k_transposed, many, keys.length, depth}, COLUMNS_TO, shift);
  multiply_seen(p, (struct panelled){s->slopes, KEYS, d, s->v_transposed, many, keys.length, width}, COLUMNS_TO, shift);
  for (size i = 0; i < many; i++) {
    const struct run query = piece_of(queries, i, 1);
    const float delta = dot(dout.at + i * dout.stride, out.at + i * out.stride, width);
    slope_row(p, r, s->scores + i * KEYS, s->slopes + i * KEYS, query, keys, o->lse[lse_offset(p, r, query.first)], delta);
  }
  const struct matrix by_key = matrix_of(s->scores, 1, KEYS), slopes_by_key = matrix_of(s->slopes, 1, KEYS);
  const struct matrix slopes = matrix_of(s->slopes, KEYS, 1);
  float *dq = s->dq ? s->dq + (queries.first * p->group + r.group) * depth : (float *)o->dq.at + q_offset(p, r, queries.first);
  multiply_seen(p, (struct panelled){s->dv, width, by_key, s->dout_panels, keys.length, width, many}, K_FROM, shift);
  multiply_seen(p, (struct panelled){s->dk, depth, slopes_by_key, s->q_panels, keys.length, depth, many}, K_FROM, shift);
  multiply_seen(p, (struct panelled){dq, s->dq ? p->group * depth : p->q_stride, slopes, s->k_panels, many, depth, keys.length}, K_TO, shift);
}

// All that has to do with one block of keys: dk and dv of it, and its part of every dq.
static void slope_keys(const struct problem *p, struct row r, const struct operands *o, struct backward_space *s,
                       struct run keys) {
  const size depth = p->depth, width = p->width;
  const struct numbers k = from_number(o->k, k_offset(p, r, keys.first)), v = from_number(o->v, v_offset(p, r, keys.first));
  pack(p, s->k_transposed, (struct matrix){k, 1, p->k_stride}, depth, keys.length);
  pack(p, s->v_transposed, (struct matrix){v, 1, p->v_stride}, width, keys.length);
  float *end = pack(p, s->k_panels, (struct matrix){k, p->k_stride, 1}, keys.length, depth);
  for (float *x = s->k_panels; x < end; x++) *x *= p->scale;
  for (size i = 0; i < keys.length * depth; i++) s->dk[i] = 0;
  for (size i = 0; i < keys.length * width; i++) s->dv[i] = 0;
  for (r.group = 0; r.group < p->group; r.group++)
    EACH_RUN(run, p, p->queries, r.batch) {
      const size first = max_size(0, keys.position - run.position) / QUERIES * QUERIES;  // queries before do not see the block
      const size last = min_size(run.length, keys.position + keys.length - 1 + p->window - run.position);  // nor those after
      for (size query = first; query < last; query += QUERIES) {
        const struct run queries = piece_of(run, query, QUERIES);
        // Later documents do not see the block either.
        if (first_seen_by_any(p, r, queries) < keys.position + keys.length) slope_block(p, r, o, s, queries, keys);
      }
    }
  for (size t = 0; t < keys.length; t++) {
    narrow(from_number(o->dk, k_offset(p, r, keys.first + t)), s->dk + t * depth, depth);
    narrow(from_number(o->dv, v_offset(p, r, keys.first + t)), s->dv + t * width, width);
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
  const size keys = padded(&p, KEYS), depth = padded(&p, p.depth);
  size used = 0;
  struct backward_space s = {
      .k_transposed = take(c, &used, keys * p.depth),
      .v_transposed = take(c, &used, keys * p.width),
      .k_panels = take(c, &used, KEYS * depth),
      .q = take(c, &used, QUERIES * p.depth),
      .q_panels = take(c, &used, QUERIES * depth),
      .dout_panels = take(c, &used, QUERIES * padded(&p, p.width)),
      .dk = take(c, &used, KEYS * p.depth),
      .dv = take(c, &used, KEYS * p.width),
      .scores = take(c, &used, QUERIES * KEYS),
      .slopes = take(c, &used, QUERIES * KEYS),
      .dout = is_narrow(o.dout.dtype) ? take(c, &used, QUERIES * p.width) : 0,
      .out = is_narrow(o.out.dtype) ? take(c, &used, QUERIES * p.width) : 0,
      .dq = rounds ? take(c, &used, own) : 0,
  };
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
