// What attention and its gradient share (attention.h): words become a problem, products leave out what no query sees, and the
// queries of a block say which keys of another they see, by place, window and document.
#include "attention.h"

// Blocks of keys and queries are packed whole: another variant is taken than the chosen one where that would fill panels up.
static const struct variant *variant_for(const struct variant *chosen) {
  const struct variant *widest = 0;
  for (int i = 0; variant_at(i); i++) {
    const struct variant *other = variant_at(i);
    if (KEYS % other->columns == 0 && (!widest || other->columns > widest->columns)) widest = other;
  }
  return KEYS % chosen->columns == 0 || !widest ? chosen : widest;
}

struct problem problem_of(const struct context *c, const double *w) {
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

// Rows, columns and k that are multiplied.
struct cut {
  struct run rows, columns, k;
};

// From columns on that begin a panel, or within one.
static void multiply_columns(const struct problem *p, const struct panelled *x, struct cut cut, size within) {
  float *out = x->out + cut.rows.first * x->stride + cut.columns.first;
  const struct numbers to = {(char *)out, DTYPE_F32};
  const struct product part = {.out = to,
                               .add = x->adds ? to : (struct numbers){},
                               .stride = x->stride,
                               .a = block_of(x->a, cut.rows.first, cut.k.first),
                               .m = cut.rows.length,
                               .n = cut.columns.length,
                               .k = cut.k.length};
  const float *panel = x->panels + (cut.columns.first - within) * x->k;
  p->variant->multiply_rows(&part, panel + cut.k.first * p->variant->columns + within, x->k);
}

// Columns may begin within a panel, at a whole vector of it: what is left of that panel goes first.
static void multiply_cut(const struct problem *p, const struct panelled *x, struct cut cut) {
  const size width = p->variant->columns, within = cut.columns.first > 0 ? cut.columns.first % width : 0;  // divisions take long
  if (within > 0) {
    struct cut rest = cut;
    rest.columns.length = min_size(width - within, cut.columns.length);
    multiply_columns(p, x, rest, within);
    cut.columns = piece_of(cut.columns, rest.columns.length, cut.columns.length);
  }
  if (cut.columns.length > 0) multiply_columns(p, x, cut, 0);
}

// What some rows need, of `all`. Columns begin at a whole vector.
static struct run needed_by(struct run rows, const enum side side, size all, size shift) {
  if (side == K_TO) return (struct run){.length = min_size(max_size(rows.first + rows.length + shift, 0), all)};
  const size own = max_size(rows.first - shift, 0), from = min_size(side == COLUMNS_FROM ? own / 16 * 16 : own, all);
  return (struct run){.first = from, .length = all - from};
}

// Rows of a tile go together, and those after them that need the same.
void multiply_seen(const struct problem *p, struct panelled x, const enum side side, size shift) {
  const size tile = p->variant->rows, all = side == COLUMNS_FROM ? x.columns : x.k;
  const struct run every = {.length = x.rows}, columns = {.length = x.columns}, k = {.length = x.k};
  for (size i = 0, end; i < x.rows; i = end) {
    const struct run needed = needed_by(piece_of(every, i, tile), side, all, shift);
    for (end = min_size(i + tile, x.rows); end < x.rows; end = min_size(end + tile, x.rows)) {
      const struct run next = needed_by(piece_of(every, end, tile), side, all, shift);
      if (next.first != needed.first || next.length != needed.length) break;
    }
    const struct run rows = piece_of(every, i, end - i);
    const struct cut cut = {rows, side == COLUMNS_FROM ? needed : columns, side == COLUMNS_FROM ? k : needed};
    multiply_cut(p, &x, cut);
  }
}

// The mask's index is row-major over (batch, kvHeads, group, query, key) of the whole scores; query and key are positions.
static uint64_t mask_index(const struct problem *p, struct row r, size query, size key) {
  const uint64_t batch = (uint64_t)(p->batch_origin + r.batch), head = (uint64_t)(p->head_origin + r.head);
  const uint64_t row = (batch * (uint64_t)p->heads + head) * (uint64_t)p->groups + (uint64_t)(p->group_origin + r.group);
  return (row * (uint64_t)p->positions + (uint64_t)query) * (uint64_t)p->positions + (uint64_t)key;
}

struct run run_from(const struct problem *p, struct part part, size batch, size first) {
  if (first >= part.length) return (struct run){first, 0, 0};
  const size end = first < part.until ? min_size(part.until, part.length) : part.length;
  const size slot = part.origin + first + (first < part.until ? 0 : part.gap);
  if (!p->order) return (struct run){first, slot, end - first};
  const int32_t *token = p->order + batch * p->positions + slot;
  size length = 1;
  while (first + length < end && token[length] == token[0] + length) length++;
  return (struct run){first, token[0], length};
}

// The first position that a query sees: of its window, and of its document.
static size first_seen(const struct problem *p, struct row r, struct run query) {
  const size place = p->places ? p->places[r.batch * p->queries.length + query.first] : p->positions;
  return query.position - min_size(p->window - 1, place);
}

size first_seen_by_any(const struct problem *p, struct row r, struct run queries) {
  size first = first_seen(p, r, queries);
  for (size i = 1; i < queries.length && p->places; i++) first = min_size(first, first_seen(p, r, piece_of(queries, i, 1)));
  return first;
}

// Which keys of a block a query sees.
static struct visible visible_keys(const struct problem *p, struct row r, struct run query, struct run keys) {
  const size from = max_size(0, first_seen(p, r, query) - keys.position);
  const size to = min_size(keys.length, query.position + 1 - keys.position);
  return (struct visible){min_size(from, KEYS), max_size(to, 0)};
}

static int sees_all(const struct problem *p, struct row r, struct run queries, struct run keys) {
  const struct run last = piece_of(queries, queries.length - 1, 1);
  return !p->places && keys.position + keys.length - 1 <= queries.position && first_seen(p, r, last) <= keys.position;
}

struct sight sight_of(const struct problem *p, struct row r, struct run queries, struct run keys) {
  if (sees_all(p, r, queries, keys)) return (struct sight){.any = {0, keys.length}, .all = {0, keys.length}};
  struct sight s = {.any = {keys.length, 0}, .all = {0, keys.length}};
  for (size i = 0; i < min_size(queries.length, LANES); i++) {
    const struct visible v = visible_keys(p, r, piece_of(queries, i, 1), keys);
    s.any = (struct visible){min_size(s.any.from, v.from), max_size(s.any.to, v.to)};
    s.all = (struct visible){max_size(s.all.from, v.from), min_size(s.all.to, v.to)};
    s.from[i] = (int32_t)v.from;
    s.to[i] = (int32_t)v.to;
  }
  if (s.any.from >= s.any.to) s.any = (struct visible){};
  if (s.all.from >= s.all.to) s.all = (struct visible){s.any.to, s.any.to};
  return s;
}

static void hide_some(const struct sight *s, float *numbers, size first, size end, float otherwise) {
  const ivec from = *(const ivec_at *)s->from, to = *(const ivec_at *)s->to;
  for (size t = first; t < end; t++) {
    const ivec key = (int32_t)t - (ivec){};
    float *at = numbers + t * QUERIES;
    store(at, select_lanes((key >= from) & (key < to), load(at), splat(otherwise)));
  }
}

void hide(const struct sight *s, float *numbers, float otherwise) {
  hide_some(s, numbers, s->any.from, s->all.from, otherwise);
  hide_some(s, numbers, s->all.to, s->any.to, otherwise);
}

void clear_unseen(const struct sight *s, float *numbers, size keys) {
  for (size t = 0; t < s->any.from; t++) store(numbers + t * QUERIES, splat(0));
  for (size t = s->any.to; t < keys; t++) store(numbers + t * QUERIES, splat(0));
}

void draw_factors(const struct problem *p, struct row r, float *factors, struct run queries, struct run keys) {
  for (size i = 0; i < queries.length; i++) {
    float of_query[KEYS];
    mask_factors(of_query, p->mask, mask_index(p, r, queries.position + i, keys.position), KEYS);
    for (size t = 0; t < keys.length; t++) factors[t * QUERIES + i] = of_query[t];
  }
}

struct matrix rows_of(struct numbers first, size stride, size rows, size width, float *space) {
  if (!is_narrow(first.dtype)) return (struct matrix){first, stride, 1};
  for (size r = 0; r < rows; r++) widen(space + r * width, from_number(first, r * stride), width);
  return matrix_of(space, width, 1);
}
