// Kernels of which one row of a result comes of one row of each operand know f32 alone. Where operands are stored in 16 bits
// they go through such a kernel in steps: some rows are widened, all of them short enough to stay in the first cache, the kernel
// computes them, and the results are rounded. So no kernel is written twice, and memory sees 16 bits.
#include "steps.h"
#include "numbers.h"
#include "random.h"

enum { READ = 1, WRITTEN = 2, WHOLE = 4 };  // WHOLE: all steps see the same
enum { ONE = -1 };
enum { STEP_FLOATS = 6144, MOST_OPERANDS = 8, MOST_WORDS = 32 };

struct operand {
  short word, how;
  short each;  // the word that says how many numbers a row has; ONE: one
};

struct stepping {
  short rows;   // the word that counts them
  short alike;  // the kernel is compiled for every dtype, as long as so many operands, the first, have the same and others are f32
  struct operand operands[MOST_OPERANDS];
};

#define IN(word, each) {word, READ, each}
#define OUT(word, each) {word, WRITTEN, each}
#define INOUT(word, each) {word, READ | WRITTEN, each}
#define ALL(word, each) {word, READ | WHOLE, each}

#define ROWS_OF(name, ...) [CMD_##name] = {name##_ROWS, 0, {__VA_ARGS__}}
#define ELEMENTS_OF(name, ...) [CMD_##name] = {name##_N, 0, {__VA_ARGS__}}
#define ALIKE_ELEMENTS_OF(name, ...) [CMD_##name] = {name##_N, MOST_OPERANDS, {__VA_ARGS__}}
#define ALIKE_ROWS_OF(name, count, ...) [CMD_##name] = {name##_ROWS, count, {__VA_ARGS__}}

static const struct stepping steppings[CMD_COUNT] = {
    ROWS_OF(MUL_ROWS, OUT(MUL_ROWS_OUT, MUL_ROWS_COLUMNS), IN(MUL_ROWS_A, MUL_ROWS_COLUMNS), IN(MUL_ROWS_B, ONE)),
    ROWS_OF(SUM_COLUMNS, OUT(SUM_COLUMNS_OUT, ONE), IN(SUM_COLUMNS_X, SUM_COLUMNS_COLUMNS)),
    ELEMENTS_OF(SCALE, OUT(SCALE_OUT, ONE), IN(SCALE_X, ONE)),
    ALIKE_ELEMENTS_OF(GELU, OUT(GELU_Y, ONE), IN(GELU_X, ONE)),
    ALIKE_ELEMENTS_OF(GELU_GRAD, OUT(GELU_GRAD_DX, ONE), IN(GELU_GRAD_DY, ONE), IN(GELU_GRAD_X, ONE)),
    ALIKE_ELEMENTS_OF(SWIGLU, OUT(SWIGLU_Y, ONE), IN(SWIGLU_GATE, ONE), IN(SWIGLU_UP, ONE)),
    ALIKE_ELEMENTS_OF(SWIGLU_GRAD, OUT(SWIGLU_GRAD_DGATE, ONE), OUT(SWIGLU_GRAD_DUP, ONE), IN(SWIGLU_GRAD_DY, ONE),
                IN(SWIGLU_GRAD_GATE, ONE), IN(SWIGLU_GRAD_UP, ONE)),
    ROWS_OF(ATTENTION_MERGE, OUT(ATTENTION_MERGE_OUT, ATTENTION_MERGE_COLUMNS), OUT(ATTENTION_MERGE_LSE, ONE),
            IN(ATTENTION_MERGE_A, ATTENTION_MERGE_COLUMNS), IN(ATTENTION_MERGE_A_LSE, ONE),
            IN(ATTENTION_MERGE_B, ATTENTION_MERGE_COLUMNS), IN(ATTENTION_MERGE_B_LSE, ONE)),
    ALIKE_ROWS_OF(TOKEN_LOSS_GRAD, 2, OUT(TOKEN_LOSS_GRAD_DX, TOKEN_LOSS_GRAD_COLUMNS),
            IN(TOKEN_LOSS_GRAD_X, TOKEN_LOSS_GRAD_COLUMNS), IN(TOKEN_LOSS_GRAD_MAX, ONE), IN(TOKEN_LOSS_GRAD_SUM_EXP, ONE), IN(TOKEN_LOSS_GRAD_LABELS, ONE)),
    ELEMENTS_OF(SQUARED_ERROR_GRAD, OUT(SQUARED_ERROR_GRAD_DX, ONE), IN(SQUARED_ERROR_GRAD_X, ONE),
                IN(SQUARED_ERROR_GRAD_TARGET, ONE)),
    ELEMENTS_OF(SIGMOID, OUT(SIGMOID_Y, ONE), IN(SIGMOID_X, ONE)),
    ELEMENTS_OF(SIGMOID_GRAD, OUT(SIGMOID_GRAD_DX, ONE), IN(SIGMOID_GRAD_DY, ONE), IN(SIGMOID_GRAD_Y, ONE)),
    ROWS_OF(SCORES, OUT(SCORES_OUT, SCORES_COLUMNS), IN(SCORES_X, SCORES_COLUMNS)),
    ROWS_OF(SCORES_GRAD, OUT(SCORES_GRAD_DX, SCORES_GRAD_COLUMNS), IN(SCORES_GRAD_DY, SCORES_GRAD_COLUMNS),
            IN(SCORES_GRAD_Y, SCORES_GRAD_COLUMNS)),
    ROWS_OF(Z_LOSS_GRAD, OUT(Z_LOSS_GRAD_DLOGITS, Z_LOSS_GRAD_COLUMNS), IN(Z_LOSS_GRAD_LOGITS, Z_LOSS_GRAD_COLUMNS)),
    ROWS_OF(WEIGHTED_SWIGLU, OUT(WEIGHTED_SWIGLU_Y, WEIGHTED_SWIGLU_COLUMNS), IN(WEIGHTED_SWIGLU_GATE, WEIGHTED_SWIGLU_COLUMNS),
            IN(WEIGHTED_SWIGLU_UP, WEIGHTED_SWIGLU_COLUMNS), IN(WEIGHTED_SWIGLU_WEIGHT, ONE)),
    ROWS_OF(WEIGHTED_SWIGLU_GRAD, OUT(WEIGHTED_SWIGLU_GRAD_DGATE, WEIGHTED_SWIGLU_GRAD_COLUMNS),
            OUT(WEIGHTED_SWIGLU_GRAD_DUP, WEIGHTED_SWIGLU_GRAD_COLUMNS), OUT(WEIGHTED_SWIGLU_GRAD_DWEIGHT, ONE),
            IN(WEIGHTED_SWIGLU_GRAD_DY, WEIGHTED_SWIGLU_GRAD_COLUMNS), IN(WEIGHTED_SWIGLU_GRAD_GATE, WEIGHTED_SWIGLU_GRAD_COLUMNS),
            IN(WEIGHTED_SWIGLU_GRAD_UP, WEIGHTED_SWIGLU_GRAD_COLUMNS), IN(WEIGHTED_SWIGLU_GRAD_WEIGHT, ONE)),
    ALIKE_ELEMENTS_OF(ACCUMULATE, INOUT(ACCUMULATE_OUT, ONE), IN(ACCUMULATE_X, ONE)),
    ALIKE_ELEMENTS_OF(DEDUCT, INOUT(DEDUCT_OUT, ONE), IN(DEDUCT_X, ONE)),
    ELEMENTS_OF(UNSCALE, INOUT(UNSCALE_X, ONE)),
    ELEMENTS_OF(ADAMW, INOUT(ADAMW_PARAM, ONE), INOUT(ADAMW_M, ONE), INOUT(ADAMW_V, ONE), INOUT(ADAMW_TOP, ONE), IN(ADAMW_GRAD, ONE)),
    ELEMENTS_OF(FROZEN_ADAM, INOUT(FROZEN_ADAM_PARAM, ONE), INOUT(FROZEN_ADAM_M, ONE), IN(FROZEN_ADAM_V, ONE), IN(FROZEN_ADAM_GRAD, ONE)),
    ELEMENTS_OF(SGD, INOUT(SGD_PARAM, ONE), INOUT(SGD_M, ONE), IN(SGD_GRAD, ONE)),
    ELEMENTS_OF(LAMB, INOUT(LAMB_PARAM, ONE), INOUT(LAMB_M, ONE), INOUT(LAMB_V, ONE), IN(LAMB_GRAD, ONE)),
    ELEMENTS_OF(MUON_MEAN, OUT(MUON_MEAN_DIRECTION, ONE), IN(MUON_MEAN_GRAD, ONE), IN(MUON_MEAN_M, ONE)),
    ELEMENTS_OF(MUON, INOUT(MUON_PARAM, ONE), INOUT(MUON_M, ONE), IN(MUON_GRAD, ONE), IN(MUON_DIRECTION, ONE)),
    ELEMENTS_OF(AVERAGE, INOUT(AVERAGE_EMA, ONE), IN(AVERAGE_VALUE, ONE)),
    ELEMENTS_OF(LION, INOUT(LION_PARAM, ONE), INOUT(LION_M, ONE), IN(LION_GRAD, ONE)),
};

#define EACH_OPERAND(o, s) for (const struct operand *o = (s)->operands; o < (s)->operands + MOST_OPERANDS && o->how; o++)

int needs_steps(int opcode, const double *w) {
  const struct stepping *s = &steppings[opcode];
  const int first = s->operands[0].how ? dtype_of(w[s->operands[0].word]) : DTYPE_F32;
  EACH_OPERAND(o, s) {
    const int dtype = dtype_of(w[o->word]);
    if (o - s->operands < s->alike ? dtype != first : is_narrow(dtype)) return 1;
  }
  return 0;
}

static size each_of(const struct operand *o, const double *w) { return o->each == ONE ? 1 : (size)w[o->each]; }

// Rows at once, a multiple of a vector if one number each.
static size rows_at_once(const struct stepping *s, const double *w) {
  size floats_a_row = 0;
  EACH_OPERAND(o, s)
  if (is_narrow(dtype_of(w[o->word])) && !(o->how & WHOLE)) floats_a_row += each_of(o, w);
  const size rows = STEP_FLOATS / max_size(floats_a_row, 1);
  return rows >= LANES ? rows / LANES * LANES : max_size(rows, 1);
}

// Where a step's rows lie, by operand, for those that are widened: null for the others.
struct space {
  float *at[MOST_OPERANDS];
};

// Takes room for the rows of a step, and widens what all steps see.
static struct space take_space(struct context *c, const struct stepping *s, const double *w, size rows, size *used) {
  struct space space = {};
  EACH_OPERAND(o, s) {
    const struct numbers x = numbers_of(c, w[o->word]);
    if (!is_narrow(x.dtype)) continue;
    const size all = each_of(o, w) * (o->how & WHOLE ? 1 : rows);
    space.at[o - s->operands] = take_room(c, used, all);
    if (o->how & WHOLE && !c->error) widen(space.at[o - s->operands], x, all);
  }
  return space;
}

// The words of one step: its rows where they were widened, or where they lie.
static void begin_step(struct context *c, const struct stepping *s, const double *w, const struct space *space, size first,
                       size count, double *given) {
  given[s->rows] = (double)count;
  EACH_OPERAND(o, s) {
    const struct numbers x = numbers_of(c, w[o->word]);
    const size each = each_of(o, w);
    float *at = space->at[o - s->operands];
    if (w[o->word] == 0) continue;  // there is none
    if (at && o->how & READ && !(o->how & WHOLE)) widen(at, from_number(x, first * each), count * each);
    const char *lies = at ? (char *)at : x.at + (o->how & WHOLE ? 0 : first * each * 4);
    given[o->word] = (double)((intptr_t)lies - (intptr_t)c->base);
  }
}

COMMAND(dither) { c->dither = w; }

enum { DRAWN = 256 };

// Away from 0 where a draw of 16 bits is below what is cut off. The numbers are those from element `first` on of what is updated.
static void narrow_by_chance(const double *w, struct numbers to, const float *x, size first, size n) {
  const struct mask mask = {(uint32_t)(int64_t)w[DITHER_SEED], (uint32_t)(int64_t)w[DITHER_NAME],
                            (uint32_t)(int64_t)w[DITHER_STEP], 2, 0, 0};
  const size n1 = (size)w[DITHER_N1], n2 = (size)w[DITHER_N2];
  uint16_t *out = (uint16_t *)to.at;
  uint32_t draws[DRAWN];
  for (size l = (size)w[DITHER_FIRST] + first, end = l + n; l < end;) {
    const size row = l / n2, column = l % n2, i1 = row % n1, count = min_size(min_size(n2 - column, end - l), DRAWN);
    const double along = (double)(i1 + (i1 < (size)w[DITHER_UNTIL] ? 0 : (size)w[DITHER_GAP]));
    const double index = w[DITHER_BASE] + (double)(row / n1) * w[DITHER_STRIDE0] + along * w[DITHER_STRIDE1] + (double)column;
    mask_draws(draws, mask, (uint64_t)index, count);
    for (size i = 0; i < count; i++) {
      const uint32_t bits = bits_of(x[i]);
      out[i] = (uint16_t)(x[i] != x[i] ? 0xffff : (bits >> 16) + (draws[i] < (bits & 0xffff)));
    }
    l += count;
    x += count;
    out += count;
  }
}

static void end_step(struct context *c, const struct stepping *s, const double *w, const struct space *space, size first,
                     size count) {
  EACH_OPERAND(o, s) {
    const size each = each_of(o, w);
    const float *at = space->at[o - s->operands];
    if (!at || !(o->how & WRITTEN)) continue;
    const struct numbers to = from_number(numbers_of(c, w[o->word]), first * each);
    // Of an update, what is updated comes first.
    if (c->dither && o == s->operands) narrow_by_chance(c->dither, to, at, first, count);
    else narrow(to, at, count * each);
  }
}

void run_in_steps(struct context *c, int opcode, const double *w, kernel *run) {
  const struct stepping *s = &steppings[opcode];
  const size rows = (size)w[s->rows], most = min_size(rows_at_once(s, w), rows);
  double given[MOST_WORDS];
  size used = 0;
  const struct space space = take_space(c, s, w, most, &used);
  if (c->error) return;
  __builtin_memcpy(given, w, (size_t)(w[-1] * sizeof(double)));  // how many there are is said before them
  c->workspace += used;
  c->workspace_bytes -= used;
  for (size first = 0; first < rows && !c->error; first += most) {
    const size count = min_size(most, rows - first);
    begin_step(c, s, w, &space, first, count, given);
    run(c, given);
    end_step(c, s, w, &space, first, count);
  }
  c->workspace -= used;
  c->workspace_bytes += used;
  c->dither = 0;
}
