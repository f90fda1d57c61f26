// The gradient of attention (attention.h): a block of keys meets all blocks of queries that see it. dk and dv of the block are
// complete then; each dq is a sum over blocks.
#include "attention.h"

struct operands {
  struct numbers dq, dk, dv, dout, q, k, v, out;
  const float *lse;
};

// A block of queries as the blocks of keys meet it, kept for all of them: of which row it is, its first query, and how many there are.
struct kept_queries {
  struct row row;
  size first, length;
  float *q_transposed, *dout_transposed, *q_panels, *dout_panels;
  float lse[QUERIES], delta[QUERIES];  // delta: scale dout.out
};

// Scores and slopes lie by key, as in the forward pass.
struct backward_space {
  float *k_panels;          // of the block of keys
  float *dk, *dv;           // sums of the block of keys, where they are rounded
  float *dq;                // of the queries of a kv head, where they are rounded
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

static void pack_block(const struct problem *p, const struct operands *o, struct backward_space *s, struct kept_queries *b,
                       struct run queries) {
  const size many = queries.length, depth = p->depth, width = p->width;
  const struct numbers q = from_number(o->q, q_offset(p, b->row, queries.first));
  const size at = out_offset(p, b->row, queries.first);
  const struct matrix dout = rows_of(from_number(o->dout, at), p->out_stride, many, width, s->dout);
  const struct matrix out = rows_of(from_number(o->out, at), p->out_stride, many, width, s->out);
  pack(p, b->q_transposed, (struct matrix){q, 1, p->q_stride}, depth, many);
  pack(p, b->q_panels, (struct matrix){q, p->q_stride, 1}, many, depth);
  pack(p, b->dout_transposed, (struct matrix){dout.at, 1, dout.row_stride}, width, many);
  pack(p, b->dout_panels, dout, many, width);
  for (size i = 0; i < QUERIES; i++) {
    const int is_there = i < many;
    b->lse[i] = is_there ? o->lse[lse_offset(p, b->row, queries.first + i)] : 0;
    b->delta[i] = is_there ? p->scale * dot((const float *)block_of(dout, i, 0).at.at, (const float *)block_of(out, i, 0).at.at, width) : 0;
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

// Scores become masked probabilities, slopes (which come as dout.v) become dscore: of a vector of queries from i on, for the keys
// that one of them sees.
INLINE void slope_seen(const struct problem *p, const struct backward_space *s, const struct kept_queries *b, size i,
                       struct visible keys, const int dropping) {
  const vec scale = splat(p->scale), lse = load(b->lse + i), delta = load(b->delta + i);
  for (size t = keys.from; t < keys.to; t++) {
    const size at = t * QUERIES + i;
    const vec probability = exp_lanes(fma_lanes(load(s->scores + at), scale, -lse)), dp = load(s->slopes + at);
    const vec factor = dropping ? load(s->factors + at) : splat(1);
    store(s->scores + at, dropping ? probability * factor : probability);
    store(s->slopes + at, probability * fma_lanes(dropping ? factor * dp : dp, scale, -delta));
  }
}

static void slope_probabilities(const struct problem *p, struct row r, const struct backward_space *s,
                                const struct kept_queries *b, struct run queries, struct run keys) {
  if (p->dropping) draw_factors(p, r, s->factors, queries, keys);
  for (size i = 0; i < queries.length; i += LANES) {
    const struct sight seen = sight_of(p, r, piece_of(queries, i, LANES), keys);
    if (p->dropping)
      slope_seen(p, s, b, i, seen.any, 1);
    else
      slope_seen(p, s, b, i, seen.any, 0);
    hide(&seen, s->scores + i, 0);
    hide(&seen, s->slopes + i, 0);
    clear_unseen(&seen, s->scores + i, keys.length);
    clear_unseen(&seen, s->slopes + i, keys.length);
  }
}

// Sums as they are taken: where the result lies or, if that is rounded, in space.
struct sums {
  float *at;
  size stride;
};
static struct sums sums_of(struct numbers result, size stride, float *space, size width) {
  return is_narrow(result.dtype) ? (struct sums){space, width} : (struct sums){(float *)result.at, stride};
}

static void clear(struct sums x, size rows, size width) {
  for (size i = 0; i < rows; i++) __builtin_memset(x.at + i * x.stride, 0, (size_t)width * 4);
}

// The sums of a kv head's queries lie side by side in space.
static struct sums dq_of(const struct problem *p, struct row r, const struct operands *o, const struct backward_space *s,
                         struct run queries) {
  const size together = p->group * p->depth, at = queries.first * together + r.group * p->depth;
  return sums_of(from_number(o->dq, q_offset(p, r, queries.first)), p->q_stride, s->dq + at, together);
}

// A block of keys as its rows are multiplied, and its sums, which are nothing until a block of queries has met it.
struct key_block {
  struct matrix k, v;
  struct sums dk, dv;
  int is_met;
};

// One block of queries against the block of keys. dq begins with the first of these.
static void slope_block(const struct problem *p, struct row r, const struct operands *o, struct backward_space *s,
                        const struct key_block *block, struct run queries, struct run keys) {
  const size many = queries.length, depth = p->depth, width = p->width;
  const size shift = queries.position - keys.position, columns = round_up(many, LANES);
  const struct kept_queries *b = queries_of(p, r, o, s, queries);
  multiply_seen(p, (struct panelled){s->scores, QUERIES, block->k, b->q_transposed, keys.length, columns, depth}, COLUMNS_FROM, shift);
  multiply_seen(p, (struct panelled){s->slopes, QUERIES, block->v, b->dout_transposed, keys.length, columns, width}, COLUMNS_FROM, shift);
  slope_probabilities(p, r, s, b, queries, keys);
  const struct matrix scores = matrix_of(s->scores, QUERIES, 1), slopes = matrix_of(s->slopes, QUERIES, 1);
  const struct matrix by_query = matrix_of(s->slopes, 1, QUERIES);
  const struct sums dk = block->dk, dv = block->dv, dq = dq_of(p, r, o, s, queries);
  const int is_met = block->is_met;
  multiply_seen(p, (struct panelled){dv.at, dv.stride, scores, b->dout_panels, keys.length, width, many, is_met}, K_FROM, shift);
  multiply_seen(p, (struct panelled){dk.at, dk.stride, slopes, b->q_panels, keys.length, depth, many, is_met}, K_FROM, shift);
  multiply_seen(p, (struct panelled){dq.at, dq.stride, by_query, s->k_panels, many, depth, keys.length, keys.first > 0}, K_TO, shift);
}

// Whether queries may see the block: neither those before it do, nor those after it, nor later documents.
static int may_see(const struct problem *p, struct row r, struct run queries, struct run keys) {
  const size end = keys.position + keys.length;
  return queries.position + queries.length > keys.position && queries.position < end - 1 + p->window &&
         first_seen_by_any(p, r, queries) < end;
}

// All that has to do with one block of keys: dk and dv of it, and its part of every dq.
static void slope_keys(const struct problem *p, struct row r, const struct operands *o, struct backward_space *s,
                       struct run keys) {
  const size depth = p->depth, width = p->width, k_at = k_offset(p, r, keys.first), v_at = v_offset(p, r, keys.first);
  const struct numbers dk = from_number(o->dk, k_at), dv = from_number(o->dv, v_at);
  struct key_block block = {.k = rows_of(from_number(o->k, k_at), p->k_stride, keys.length, depth, s->keys),
                            .v = rows_of(from_number(o->v, v_at), p->v_stride, keys.length, width, s->values),
                            .dk = sums_of(dk, p->k_stride, s->dk, depth),
                            .dv = sums_of(dv, p->v_stride, s->dv, width)};
  pack(p, s->k_panels, block.k, keys.length, depth);
  for (r.group = 0; r.group < p->group; r.group++)
    EACH_RUN(run, p, p->queries, r.batch)
    for (size query = 0; query < run.length; query += QUERIES) {
      const struct run queries = piece_of(run, query, QUERIES);
      if (may_see(p, r, queries, keys)) {
        slope_block(p, r, o, s, &block, queries, keys);
        block.is_met = 1;
      } else if (keys.first == 0)
        clear(dq_of(p, r, o, s, queries), queries.length, depth);
    }
  if (!block.is_met) {
    clear(block.dk, keys.length, depth);
    clear(block.dv, keys.length, width);
  }
  for (size t = 0; t < keys.length && is_narrow(dk.dtype); t++) narrow(from_number(dk, t * p->k_stride), s->dk + t * depth, depth);
  for (size t = 0; t < keys.length && is_narrow(dv.dtype); t++) narrow(from_number(dv, t * p->v_stride), s->dv + t * width, width);
}

static void take_query_slots(struct context *c, size *used, struct backward_space *s, const struct problem *p) {
  const size queries = padded(p, QUERIES);
  const size counts[] = {queries * p->depth, queries * p->width, QUERIES * padded(p, p->depth), QUERIES * padded(p, p->width)};
  const size all = counts[0] + counts[1] + counts[2] + counts[3] + 64;
  s->slots = max_size(min_size((c->workspace_bytes - *used) / 4 / all, KEPT), 1);
  for (size i = 0; i < s->slots; i++) {
    struct kept_queries *b = &s->kept[i];
    b->length = 0;
    b->q_transposed = take_room(c, used, counts[0]);
    b->dout_transposed = take_room(c, used, counts[1]);
    b->q_panels = take_room(c, used, counts[2]);
    b->dout_panels = take_room(c, used, counts[3]);
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
      .k_panels = take_room(c, &used, KEYS * padded(&p, p.depth)),
      .dk = take_room(c, &used, is_narrow(o.dk.dtype) ? KEYS * p.depth : 0),
      .dv = take_room(c, &used, is_narrow(o.dv.dtype) ? KEYS * p.width : 0),
      .scores = take_room(c, &used, QUERIES * KEYS),
      .slopes = take_room(c, &used, QUERIES * KEYS),
      .factors = take_room(c, &used, p.dropping ? QUERIES * KEYS : 0),
      .keys = take_room(c, &used, is_narrow(o.k.dtype) ? KEYS * p.depth : 0),
      .values = take_room(c, &used, is_narrow(o.v.dtype) ? KEYS * p.width : 0),
      .dout = take_room(c, &used, is_narrow(o.dout.dtype) ? QUERIES * p.width : 0),
      .out = take_room(c, &used, is_narrow(o.out.dtype) ? QUERIES * p.width : 0),
      .dq = take_room(c, &used, rounds ? own : 0),
  };
  take_query_slots(c, &used, &s, &p);
  if (c->error) return;
  for (struct row r = {}; r.batch < p.batch; r.batch++)
    for (r.head = 0; r.head < p.kv_heads; r.head++) {
      EACH_RUN(run, &p, p.keys, r.batch)
      for (size key = 0; key < run.length; key += KEYS) slope_keys(&p, r, &o, &s, piece_of(run, key, KEYS));
      for (size query = 0; rounds && query < p.queries.length; query++)
        narrow(from_number(o.dq, q_offset(&p, r, query)), s.dq + query * p.group * p.depth, p.group * p.depth);
    }
}
