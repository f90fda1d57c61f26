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

void multiply_seen(const struct problem *p, struct panelled x, const enum side side, size shift) {
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

// Which keys of a block a query sees: [from, to), counted inside the block.
struct visible {
  size from, to;
};
static struct visible visible_keys(const struct problem *p, struct row r, struct run query, struct run keys) {
  const size from = max_size(0, first_seen(p, r, query) - keys.position);
  const size to = min_size(keys.length, query.position + 1 - keys.position);
  return (struct visible){min_size(from, KEYS), max_size(to, 0)};
}

int sees_all(const struct problem *p, struct row r, struct run queries, struct run keys) {
  const struct run last = piece_of(queries, queries.length - 1, 1);
  return !p->places && keys.position + keys.length - 1 <= queries.position && first_seen(p, r, last) <= keys.position;
}

void see(const struct problem *p, struct row r, struct sight *s, struct run queries, struct run keys) {
  for (size i = 0; i < QUERIES; i++) {
    const struct visible v = i < queries.length ? visible_keys(p, r, piece_of(queries, i, 1), keys) : (struct visible){};
    s->from[i] = (int32_t)v.from;
    s->to[i] = (int32_t)v.to;
  }
}

void hide(const struct sight *s, float *numbers, struct run queries, struct run keys, float otherwise) {
  for (size i = 0; i < queries.length; i += LANES) {
    const ivec from = *(const ivec_at *)(s->from + i), to = *(const ivec_at *)(s->to + i);
    for (size t = 0; t < keys.length; t++) {
      const ivec key = (int32_t)t - (ivec){};
      float *at = numbers + t * QUERIES + i;
      store(at, select_lanes((key >= from) & (key < to), load(at), splat(otherwise)));
    }
  }
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
