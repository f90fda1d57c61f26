// Attention forward (attention.h): a block of queries meets one block of keys after the other, and keeps maxima, sums and
// results in f32 until the last of them.
#include "attention.h"

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

static void drop(const struct problem *p, struct row r, float *probabilities, struct run queries, struct run keys) {
  float factors[KEYS * QUERIES] = {};
  draw_factors(p, r, factors, queries, keys);
  for (size i = 0; i < keys.length * QUERIES; i++) probabilities[i] *= factors[i];
}

// The scores of a block become probabilities, and what was accumulated before is corrected for the new maxima. A maximum
// stays as long as no score is much greater: exponentials of what is a little over it are as good, and most blocks correct nothing.
static void soften_block(const struct problem *p, struct row r, struct forward_space *s, struct run queries, struct run keys) {
  enum { MUCH = 8 };
  float corrections[QUERIES];
  for (size i = 0; i < queries.length; i += LANES) {
    const struct sight seen = sight_of(p, r, piece_of(queries, i, LANES), keys);
    float *scores = s->scores + i, *first = scores + seen.any.from * QUERIES;
    const size many = seen.any.to - seen.any.from;
    hide(&seen, scores, -__builtin_inff());
    const vec before = load(s->max + i), most = greatest(first, many), now = select_lanes(most > before + MUCH, most, before);
    const vec base = select_lanes(now == -__builtin_inff(), splat(0), now);  // no key was seen so far
    const vec correction = exp_lanes(before - base);
    store(s->sum + i, load(s->sum + i) * correction + soften(first, many, base, s->ahead, i));
    store(s->max + i, now);
    store(corrections + i, correction);
    clear_unseen(&seen, scores, keys.length);
  }
  if (p->dropping) drop(p, r, s->scores, queries, keys);
  for (size i = 0; i < queries.length; i++)
    if (corrections[i] != 1)
      for (size d = 0; d < p->width; d++) s->out[i * p->width + d] *= corrections[i];
}

static struct kept *slot_of(struct forward_space *s, struct run keys) { return &s->kept[keys.first / KEYS % s->slots]; }

static int is_kept(const struct kept *slot, struct row r, struct run keys) {
  return slot->batch == r.batch && slot->head == r.head && slot->first == keys.first && slot->length == keys.length;
}

// The panels of the values of a block of keys, packed here unless they are kept.
static const float *values_of(const struct problem *p, struct row r, struct forward_space *s, struct numbers v, struct run keys) {
  struct kept *slot = slot_of(s, keys);
  if (!is_kept(slot, r, keys)) {
    pack(p, slot->panels, (struct matrix){from_number(v, v_offset(p, r, keys.first)), p->v_stride, 1}, keys.length, p->width);
    *slot = (struct kept){r.batch, r.head, keys.first, keys.length, slot->panels};
  }
  return slot->panels;
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
  multiply_seen(p, (struct panelled){s->out, p->width, by_query, values, queries.length, p->width, keys.length, 1}, K_TO, shift);
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

// What comes next is fetched unless queries before have met it.
static void look_ahead(const struct problem *p, struct row r, struct forward_space *s, const struct attended *o, struct run next) {
  const size count = is_kept(slot_of(s, next), r, next) ? 0 : next.length;
  s->ahead[0] = (struct ahead){from_number(o->k, k_offset(p, r, next.first)), p->k_stride, count, p->depth};
  s->ahead[1] = (struct ahead){from_number(o->v, v_offset(p, r, next.first)), p->v_stride, count, p->width};
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
      look_ahead(p, r, s, o, next);
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

// As many slots as there is room for; one at least.
static void take_slots(struct context *c, size *used, struct forward_space *s, size count) {
  const size room = (c->workspace_bytes - *used) / 4 / round_up(count, 16);
  s->slots = max_size(min_size(room, KEPT), 1);
  for (size i = 0; i < s->slots; i++) s->kept[i] = (struct kept){.length = 0, .panels = take_room(c, used, count)};
}

#define EACH_ROW(r, p)                                       \
  for (struct row r = {}; r.batch < (p).batch; r.batch++)    \
    for (r.head = 0; r.head < (p).kv_heads; r.head++)        \
      for (r.group = 0; r.group < (p).group; r.group++)

COMMAND(attention) {
  const struct problem p = problem_of(c, w + ATTENTION_PLACES);
  size used = 0;
  struct forward_space s = {.q_panels = take_room(c, &used, padded(&p, QUERIES) * p.depth),
                            .out = take_room(c, &used, QUERIES * p.width),
                            .scores = take_room(c, &used, QUERIES * KEYS),
                            .keys = take_room(c, &used, KEYS * p.depth)};
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
