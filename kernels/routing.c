// How tokens choose experts: scores of all candidates, the best of them, their weights, room, and the losses that keep the load
// even. A row is a token; its candidates follow each other. A choice of -1 was not kept; one below that comes of a NaN.
#include "functions.h"
#include "numbers.h"

enum { NOT_KEPT = -1, LOST = -2 };

// Takes room for `bytes` in the workspace, behind what is taken, or sets the error.
static void *take(struct context *c, size *used, size bytes) {
  void *at = c->workspace + *used;
  *used += round_up(bytes, 64);
  if (*used > c->workspace_bytes) c->error = LOCKSTEP_WORKSPACE;
  return at;
}

COMMAND(sigmoid) {
  float *y = floats(c, w[SIGMOID_Y]);
  const float *x = floats(c, w[SIGMOID_X]);
  const size n = (size)w[SIGMOID_N];
  for (size i = 0; i < n; i += LANES) store_some(y + i, sigmoid(load_some(x + i, n - i)), n - i);
}

COMMAND(sigmoidGrad) {
  float *dx = floats(c, w[SIGMOID_GRAD_DX]);
  const float *dy = floats(c, w[SIGMOID_GRAD_DY]), *y = floats(c, w[SIGMOID_GRAD_Y]);
  for (size i = 0; i < (size)w[SIGMOID_GRAD_N]; i++) dx[i] = dy[i] * y[i] * (1 - y[i]);
}

// exp(x - max) of a row, and the sum; the logarithm of the sum of exp(x) is max + log of it. A NaN spoils all of it.
static double soften(float *out, const float *x, size columns, float *max) {
  float most = x[0];
  for (size i = 1; i < columns; i++) most = x[i] > most || x[i] != x[i] ? x[i] : most;
  double sum = 0;
  for (size i = 0; i < columns; i += LANES) store_some(out + i, exp_lanes(load_some(x + i, columns - i) - most), columns - i);
  for (size i = 0; i < columns; i++) sum += (double)out[i];
  *max = most;
  return sum;
}

COMMAND(scores) {
  float *out = floats(c, w[SCORES_OUT]);
  const float *x = floats(c, w[SCORES_X]);
  const size rows = (size)w[SCORES_ROWS], columns = (size)w[SCORES_COLUMNS];
  if (w[SCORES_SIGMOID]) {
    for (size i = 0; i < rows * columns; i += LANES)
      store_some(out + i, sigmoid(load_some(x + i, rows * columns - i)), rows * columns - i);
    return;
  }
  for (size r = 0; r < rows; r++, out += columns, x += columns) {
    float max;
    const double sum = soften(out, x, columns, &max);
    for (size i = 0; i < columns; i++) out[i] = (float)((double)out[i] / sum);
  }
}

COMMAND(scoresGrad) {
  float *dx = floats(c, w[SCORES_GRAD_DX]);
  const float *dy = floats(c, w[SCORES_GRAD_DY]), *y = floats(c, w[SCORES_GRAD_Y]);
  const size rows = (size)w[SCORES_GRAD_ROWS], columns = (size)w[SCORES_GRAD_COLUMNS];
  const int apart = w[SCORES_GRAD_SIGMOID] != 0;
  for (size r = 0; r < rows; r++, dx += columns, dy += columns, y += columns) {
    double mean = 0;
    for (size i = 0; !apart && i < columns; i++) mean += (double)y[i] * (double)dy[i];
    for (size i = 0; i < columns; i++)
      dx[i] = apart ? dy[i] * y[i] * (1 - y[i]) : (float)((double)y[i] * ((double)dy[i] - mean));
  }
}

// The numbers of the `count` highest, the highest first, of equals the first; what was picked becomes -inf. All LOST where
// there is a NaN.
static void pick_highest(int *out, double *values, size n, size count) {
  int spoilt = 0;
  for (size i = 0; i < n; i++) spoilt |= values[i] != values[i];
  for (size k = 0; k < count; k++) {
    size best = 0;
    for (size i = 1; i < n; i++)
      if (values[i] > values[best]) best = i;
    out[k] = spoilt ? LOST : (int)best;
    values[best] = -__builtin_inf();
  }
}

// Candidates of groups that may not be chosen from become -inf. A group counts by the sum of its best `each`.
static void close_groups(double *values, double *rated, double *own, int *picked, size groups, size size_of, size open,
                         size each) {
  for (size g = 0; g < groups; g++) {
    for (size i = 0; i < size_of; i++) own[i] = values[g * size_of + i];
    pick_highest(picked, own, size_of, each);
    rated[g] = 0;
    for (size i = 0; i < each; i++) rated[g] += picked[i] < 0 ? __builtin_nan("") : values[g * size_of + picked[i]];
  }
  pick_highest(picked, rated, groups, open);
  if (picked[0] == LOST) {
    values[0] = __builtin_nan("");
    return;
  }
  for (size g = 0; g < groups; g++) rated[g] = 0;
  for (size i = 0; i < open; i++) rated[picked[i]] = 1;
  for (size g = 0; g < groups; g++)
    for (size i = 0; rated[g] == 0 && i < size_of; i++) values[g * size_of + i] = -__builtin_inf();
}

COMMAND(topK) {
  int *choice = ints(c, w[TOP_K_CHOICE]);
  const float *scores = floats(c, w[TOP_K_SCORES]), *bias = w[TOP_K_BIAS] ? floats(c, w[TOP_K_BIAS]) : 0;
  const size rows = (size)w[TOP_K_ROWS], columns = (size)w[TOP_K_COLUMNS], chosen = (size)w[TOP_K_CHOSEN];
  const size groups = (size)w[TOP_K_GROUPS], open = (size)w[TOP_K_CHOSEN_GROUPS];
  size used = 0;
  double *values = take(c, &used, 8 * columns), *rated = take(c, &used, 8 * columns), *own = take(c, &used, 8 * columns);
  int *picked = take(c, &used, 4 * columns);
  if (c->error) return;
  for (size r = 0; r < rows; r++, scores += columns, choice += chosen) {
    for (size i = 0; i < columns; i++) values[i] = (double)scores[i] + (bias ? (double)bias[i] : 0);
    if (groups > open) close_groups(values, rated, own, picked, groups, columns / groups, open, chosen / open);
    pick_highest(choice, values, columns, chosen);
  }
}

INLINE double picked_score(const float *scores, int candidate) {
  return candidate == NOT_KEPT ? 0 : candidate < 0 ? __builtin_nan("") : (double)scores[candidate];
}

// Keeps a sum of nothing from dividing.
static const double TINY = 1e-20;

COMMAND(chosen) {
  float *weight = floats(c, w[CHOSEN_WEIGHT]);
  const float *scores = floats(c, w[CHOSEN_SCORES]);
  const int *choice = ints(c, w[CHOSEN_CHOICE]);
  const size rows = (size)w[CHOSEN_ROWS], columns = (size)w[CHOSEN_COLUMNS], chosen = (size)w[CHOSEN_CHOSEN];
  for (size r = 0; r < rows; r++, scores += columns, choice += chosen, weight += chosen) {
    double total = w[CHOSEN_NORMALISE] ? TINY : 1;
    for (size k = 0; w[CHOSEN_NORMALISE] && k < chosen; k++) total += picked_score(scores, choice[k]);
    for (size k = 0; k < chosen; k++) weight[k] = (float)(picked_score(scores, choice[k]) / total * w[CHOSEN_SCALE]);
  }
}

COMMAND(chosenGrad) {
  float *dscores = floats(c, w[CHOSEN_GRAD_DSCORES]);
  const float *dweight = floats(c, w[CHOSEN_GRAD_DWEIGHT]), *scores = floats(c, w[CHOSEN_GRAD_SCORES]);
  const int *choice = ints(c, w[CHOSEN_GRAD_CHOICE]), normalise = w[CHOSEN_GRAD_NORMALISE] != 0;
  const size rows = (size)w[CHOSEN_GRAD_ROWS], columns = (size)w[CHOSEN_GRAD_COLUMNS];
  const size chosen = (size)w[CHOSEN_GRAD_CHOSEN];
  const double scale = w[CHOSEN_GRAD_SCALE];
  for (size r = 0; r < rows; r++, scores += columns, choice += chosen, dweight += chosen, dscores += columns) {
    double total = normalise ? TINY : 1, shared = 0;
    for (size k = 0; normalise && k < chosen; k++) total += picked_score(scores, choice[k]);
    for (size k = 0; normalise && k < chosen; k++)
      shared += picked_score(scores, choice[k]) / total * scale * (double)dweight[k];
    for (size i = 0; i < columns; i++) dscores[i] = 0;
    for (size k = 0; k < chosen; k++) {
      const double slope = (scale * (double)dweight[k] - shared) / total;
      if (choice[k] < NOT_KEPT) dscores[0] = __builtin_nanf("");
      if (choice[k] >= 0) dscores[choice[k]] += (float)slope;
    }
  }
}

// A run of tokens as they follow each other: the slot of each, by which their scores and choices lie.
struct run {
  const int *slots;
  const float *scores;
  const int *choice;
  size tokens, columns, chosen;
};

// A score, which is not negative, to 16 bits, halves up: as a number that orders as scores do.
INLINE unsigned rounded(float score) {
  enum { DROPPED = 8 };
  return (bits_of(score) + (1u << (DROPPED - 1))) >> DROPPED;
}

// How many choices of the same expert come before this token's, by the scores of both.
static size better(struct run r, size token, int expert) {
  const unsigned own = rounded(r.scores[(size)r.slots[token] * r.columns + (size)expert]);
  size before = 0;
  for (size t = 0; t < r.tokens; t++)
    for (size k = 0; k < r.chosen; k++)
      if (r.choice[(size)r.slots[t] * r.chosen + k] == expert) {
        const unsigned other = rounded(r.scores[(size)r.slots[t] * r.columns + (size)expert]);
        before += other > own || (other == own && t < token);
      }
  return before;
}

// The choices of a run for which an expert has room.
static void keep_run(int *kept, struct run r, size *taken, size room, int by) {
  const int by_choice = by == 0, by_score = by == 2;
  for (size i = 0; i < r.columns; i++) taken[i] = 0;
  for (size i = 0; i < r.tokens * r.chosen; i++) {
    const size token = by_choice ? i % r.tokens : i / r.chosen;
    const size at = (size)r.slots[token] * r.chosen + (by_choice ? i / r.tokens : i % r.chosen);
    const int expert = r.choice[at];
    const size before = expert < 0 ? 0 : by_score ? better(r, token, expert) : taken[expert]++;
    kept[at] = before < room ? expert : NOT_KEPT;
  }
}

// The slot of each token, from the token at each slot; 0 where what is there is no token.
static int find_slots(int *slots, const int *order, size all) {
  int sound = 1;
  for (size i = 0; i < all; i++) slots[i] = (int)i;
  for (size i = 0; order && i < all; i++)
    if (order[i] >= 0 && order[i] < all) slots[order[i]] = (int)i;
    else sound = 0;
  return sound;
}

COMMAND(assign) {
  int *kept = ints(c, w[ASSIGN_KEPT]);
  const int *order = w[ASSIGN_ORDER] > 0 ? ints(c, w[ASSIGN_ORDER]) : 0;
  const size rows = (size)w[ASSIGN_ROWS], all = (size)w[ASSIGN_SLOTS];
  struct run r = {.scores = floats(c, w[ASSIGN_SCORES]),
                  .choice = ints(c, w[ASSIGN_CHOICE]),
                  .tokens = (size)w[ASSIGN_TOKENS],
                  .columns = (size)w[ASSIGN_COLUMNS],
                  .chosen = (size)w[ASSIGN_CHOSEN]};
  size used = 0;
  size *taken = take(c, &used, (size)sizeof(size) * r.columns);
  int *slots = take(c, &used, 4 * all);
  if (c->error) return;
  for (size first = 0; first < rows; first += all) {
    const int sound = find_slots(slots, order ? order + first : 0, all);
    for (size i = 0; !sound && i < all * r.chosen; i++) kept[i] = LOST;
    for (size token = 0; sound && token < all; token += r.tokens) {
      r.slots = slots + token;
      keep_run(kept, r, taken, (size)w[ASSIGN_ROOM], (int)w[ASSIGN_BY]);
    }
    kept += all * r.chosen, r.choice += all * r.chosen, r.scores += all * r.columns;
  }
}

COMMAND(countChoices) {
  float *counts = floats(c, w[COUNT_CHOICES_COUNTS]);
  const int *choice = ints(c, w[COUNT_CHOICES_CHOICE]);
  const size columns = (size)w[COUNT_CHOICES_COLUMNS];
  for (size i = 0; i < columns; i++) counts[i] = 0;
  for (size i = 0; i < (size)w[COUNT_CHOICES_N]; i++)
    if (choice[i] >= 0) counts[choice[i]] += 1;
}

COMMAND(countTop) {
  float *counts = floats(c, w[COUNT_TOP_COUNTS]);
  const float *scores = floats(c, w[COUNT_TOP_SCORES]);
  const size groups = (size)w[COUNT_TOP_GROUPS], rows = (size)w[COUNT_TOP_ROWS], columns = (size)w[COUNT_TOP_COLUMNS];
  const size chosen = (size)w[COUNT_TOP_CHOSEN];
  size used = 0;
  double *values = take(c, &used, 8 * columns);
  int *picked = take(c, &used, 4 * columns);
  if (c->error) return;
  for (size g = 0; g < groups; g++, counts += columns) {
    for (size i = 0; i < columns; i++) counts[i] = 0;
    for (size r = 0; r < rows; r++, scores += columns) {
      for (size i = 0; i < columns; i++) values[i] = (double)scores[i];
      pick_highest(picked, values, columns, chosen);
      for (size k = 0; k < chosen; k++)
        if (picked[k] >= 0) counts[picked[k]] += 1;
    }
  }
}

INLINE double total_of(const float *scores, size columns, int shares) {
  double total = shares ? 0 : 1;
  for (size i = 0; shares && i < columns; i++) total += (double)scores[i];
  return total;
}

// What counts make of a token's scores: the sum of scores * counts, divided by the total.
INLINE double burden(const float *scores, const float *counts, size columns, double total) {
  double sum = 0;
  for (size i = 0; i < columns; i++) sum += (double)scores[i] * (double)counts[i];
  return sum / total;
}

COMMAND(balanceLoss) {
  const float *scores = floats(c, w[BALANCE_LOSS_SCORES]), *counts = floats(c, w[BALANCE_LOSS_COUNTS]);
  const size groups = (size)w[BALANCE_LOSS_GROUPS], rows = (size)w[BALANCE_LOSS_ROWS];
  const size columns = (size)w[BALANCE_LOSS_COLUMNS];
  double sum = 0;
  for (size g = 0; g < groups; g++, counts += columns)
    for (size r = 0; r < rows; r++, scores += columns)
      sum += burden(scores, counts, columns, total_of(scores, columns, w[BALANCE_LOSS_SHARES] != 0));
  *floats(c, w[BALANCE_LOSS_LOSS]) = (float)(w[BALANCE_LOSS_BY] * sum);
}

static double scale_at(const struct context *c, double scale) { return scale == 0 ? 1 : (double)*floats(c, scale); }

COMMAND(balanceLossGrad) {
  float *dscores = floats(c, w[BALANCE_LOSS_GRAD_DSCORES]);
  const float *scores = floats(c, w[BALANCE_LOSS_GRAD_SCORES]), *counts = floats(c, w[BALANCE_LOSS_GRAD_COUNTS]);
  const size groups = (size)w[BALANCE_LOSS_GRAD_GROUPS], rows = (size)w[BALANCE_LOSS_GRAD_ROWS];
  const size columns = (size)w[BALANCE_LOSS_GRAD_COLUMNS];
  const int shares = w[BALANCE_LOSS_GRAD_SHARES] != 0;
  const double by = w[BALANCE_LOSS_GRAD_BY] * scale_at(c, w[BALANCE_LOSS_GRAD_SCALE]);
  for (size g = 0; g < groups; g++, counts += columns)
    for (size r = 0; r < rows; r++, scores += columns, dscores += columns) {
      const double total = total_of(scores, columns, shares), mean = shares ? burden(scores, counts, columns, total) : 0;
      for (size i = 0; i < columns; i++)
        dscores[i] = (float)(by * ((double)counts[i] - mean) / total);
    }
}

COMMAND(zLoss) {
  const float *logits = floats(c, w[Z_LOSS_LOGITS]);
  const size rows = (size)w[Z_LOSS_ROWS], columns = (size)w[Z_LOSS_COLUMNS];
  size used = 0;
  float *powers = take(c, &used, 4 * columns);
  if (c->error) return;
  double sum = 0;
  for (size r = 0; r < rows; r++, logits += columns) {
    float max;
    const double total = soften(powers, logits, columns, &max), log = (double)max + log_f64(total);
    sum += log * log;
  }
  *floats(c, w[Z_LOSS_LOSS]) = (float)(w[Z_LOSS_BY] * sum);
}

COMMAND(zLossGrad) {
  float *dlogits = floats(c, w[Z_LOSS_GRAD_DLOGITS]);
  const float *logits = floats(c, w[Z_LOSS_GRAD_LOGITS]);
  const size rows = (size)w[Z_LOSS_GRAD_ROWS], columns = (size)w[Z_LOSS_GRAD_COLUMNS];
  const double by = w[Z_LOSS_GRAD_BY] * scale_at(c, w[Z_LOSS_GRAD_SCALE]);
  for (size r = 0; r < rows; r++, logits += columns, dlogits += columns) {
    float max;
    const double sum = soften(dlogits, logits, columns, &max), slope = 2 * by * ((double)max + log_f64(sum));
    for (size i = 0; i < columns; i++) dlogits[i] = (float)(slope * (double)dlogits[i] / sum);
  }
}

COMMAND(balance) {
  if (!((double)*floats(c, w[BALANCE_NORM_SQUARED]) < w[BALANCE_LIMIT])) return;
  float *bias = floats(c, w[BALANCE_BIAS]);
  const float *counts = floats(c, w[BALANCE_COUNTS]);
  for (size i = 0; i < (size)w[BALANCE_N]; i++) {
    const double missing = w[BALANCE_MEAN] - (double)counts[i];
    bias[i] = (float)((double)bias[i] + w[BALANCE_RATE] * (missing > 0 ? 1 : missing < 0 ? -1 : missing));
  }
}
