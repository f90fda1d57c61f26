// Codes of all ranks, unpacked straight from where each has its own. A rank's share is its own result, into which nothing may be written
// before it has come to wait: memory that is not yet its own may lie there. So a share goes one of two ways, as whoever begins it
// says. A rank that waits has its codes unpacked, by itself and by others that have nothing left to do. To one that is late the others bring
// the codes of all, so that nobody waits for it, and it unpacks them there when it comes.
#include "bytes.h"
#include "codes.h"
#include "sync.h"

enum { UNPACKED, BROUGHT };

struct tensor {
  size part, n, units, run;
  const double *out, *codes, *unit;
};

static struct tensor tensor_of(const double *w, size index) {
  const size members = (size)w[WAIT_CODES_MEMBERS], pair = 2 + 2 * members;
  const double *t = w + WAIT_CODES_COUNT + 1 + index * 2 * pair, *u = t + pair;
  return (struct tensor){(size)t[0], (size)t[1], (size)u[0], (size)u[1], t + 2, t + 2 + members, u + 2 + members};
}

// Of what `rank` has: the codes and the units of a member's part.
static signed char *codes_at(const struct context *c, const struct tensor *t, size rank, size member) {
  return (signed char *)address(c, t->codes[rank]) + member * t->part;
}
static float *units_at(const struct context *c, const struct tensor *t, size rank, size member) {
  return floats(c, t->unit[rank]) + member * t->units;
}

// Numbers `from` to `to` of a member's part, to the result of `share`, from what `rank` has of them.
static void unpack_from(const struct context *c, const struct tensor *t, size share, size rank, size member, size from, size to) {
  const size first = member * t->part, end = min_size(to, t->n - first);
  if (from < end)
    decode_part(numbers_of(c, t->out[share]), first + from, codes_at(c, t, rank, member), units_at(c, t, rank, member), t->run,
                from, end, t->n * 4 >= c->tuning.moving.coded);
}

// The same as codes, to where `share` has those of all.
static void bring(const struct context *c, const struct tensor *t, size share, size member, size from, size to) {
  const size first_unit = (from + t->run - 1) / t->run, end_unit = (to + t->run - 1) / t->run;
  if (member == share) return;
  copy_bytes((char *)codes_at(c, t, share, member) + from, (char *)codes_at(c, t, member, member) + from, to - from, 0);
  copy_bytes((char *)(units_at(c, t, share, member) + first_unit), (char *)(units_at(c, t, member, member) + first_unit),
             (end_unit - first_unit) * 4, 0);
}

// Of a share: the numbers of all tensors one behind the other, each beginning with the member's own part, so that not all read from one.
static void work_on(struct context *c, const double *w, size share, int way, size low, size high) {
  const size members = (size)w[WAIT_CODES_MEMBERS];
  for (size i = 0, before = 0; i < (size)w[WAIT_CODES_COUNT] && before < high; i++) {
    const struct tensor t = tensor_of(w, i);
    const size own = members * t.part, end = min_size(own, high - before);
    for (size at = max_size(0, low - before), n; at < end; at += n) {
      const size member = (share + at / t.part) % members, from = at % t.part;
      n = min_size(t.part - from, end - at);
      if (way == UNPACKED) unpack_from(c, &t, share, member, member, from, from + n);
      else bring(c, &t, share, member, from, from + n);
    }
    before += own;
  }
}

static void unpack_brought(struct context *c, const double *w, size me) {
  for (size i = 0; i < (size)w[WAIT_CODES_COUNT]; i++) {
    const struct tensor t = tensor_of(w, i);
    for (size member = 0; member < (size)w[WAIT_CODES_MEMBERS]; member++) unpack_from(c, &t, me, me, member, 0, t.part);
  }
}

static void take_pieces(struct context *c, const double *w, const struct collective *m, int share, int way) {
  const size piece = c->tuning.moving.piece / 4;
  size whole = 0;
  for (size i = 0; i < (size)w[WAIT_CODES_COUNT]; i++) whole += m->members * tensor_of(w, i).part;
  const size pieces = max_size(1, (whole + piece - 1) / piece);
  for (size taken; (taken = lockstep_take(c, m, share, pieces)) >= 0; lockstep_finish(c, m, share, pieces))
    work_on(c, w, (size)share, way, taken * piece, min_size(whole, (taken + 1) * piece));
}

// Who is done waits for a rank that is late as long as its own share took: such a rank may have come, and have no core.
COMMAND(waitCodes) {
  const struct collective m = collective_of(w);
  if (!lockstep_meet(c, &m, ARRIVED)) return;
  const double start = lockstep_now();
  const int mine = lockstep_choose(c, &m, m.me, UNPACKED);
  take_pieces(c, w, &m, m.me, mine);
  const double until = 2 * lockstep_now() - start;
  int span = 1;
  while (span < m.members) span *= 2;
  for (int i = 1; i < span; i++) {
    const int share = m.me ^ i;
    if (share >= m.members) continue;
    lockstep_await_choice(c, &m, share, until - lockstep_now());
    take_pieces(c, w, &m, share, lockstep_choose(c, &m, share, BROUGHT));
  }
  if (!c->error && lockstep_meet(c, &m, DONE) && mine == BROUGHT) unpack_brought(c, w, (size)m.me);
}
