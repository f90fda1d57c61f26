/**
 * The vocabulary of computation, shared by the model's graph and the program's instructions: a closed union.
 * Tensors have named dims, and an op works by name: `contract` of [batch seq embed] with [embed ffn] into
 * [batch seq ffn] is a matmul because `embed` is missing from the result. Dims missing from the result are summed.
 * What each means in numbers is `engine/reference`; its shape, gradient and sharding rules are `model/ops`.
 *
 * Signatures are written (operands) -> (results). `d` before a name means gradient of.
 */
import type { Blocks } from './blocks.js'
import type { CodeType } from './dtype.js'
import type { Scaler } from './loss-scale.js'
import type { Adafactor, Guard, Lamb, Lines, Optimizer } from './optimizer.js'
import type { RopeScaling } from './rope.js'
import type { ScaleRule } from './scales.js'
import type { Coding, Kept } from './wire.js'

export type Op =
  /** (a, b) -> (out): the sum of products over every dim missing from out. */
  | { readonly kind: 'contract' }
  /** (x) -> (amax): the greatest absolute value of each block, or of all there is. */
  | { readonly kind: 'absMax'; readonly blocks?: Blocks }
  /** (x, amax) -> (codes): x times the scale that belongs to amax (`codeScale`); what is out of range then becomes the greatest there is. */
  | ({ readonly kind: 'quantize'; readonly format: CodeType; readonly blocks?: Blocks } & Scaled)
  /** (a, b, aMax, bMax) -> (out): as contract, of codes, divided by the scales they were made with. Its gradient takes codes for what they stand for. */
  | ({ readonly kind: 'scaledContract' } & Formats & Scaled)
  /** (a, b, ...) -> (out): elementwise sum; a dim an operand lacks is broadcast. */
  | { readonly kind: 'add' }
  /** (a, b) -> (out): elementwise product, broadcast as in add. */
  | { readonly kind: 'mul' }
  /** (x) -> (out): x times a constant. By 1 it is a copy, into another dtype if need be. */
  | { readonly kind: 'scale'; readonly by: number }
  /** (x) -> (out): the sum over dims missing from out. */
  | { readonly kind: 'sumTo' }
  /** (x) -> (y): exact GELU, x/2 (1 + erf(x/sqrt 2)), or its tanh form. */
  | { readonly kind: 'gelu'; readonly approximate: boolean }
  /** (dy, x) -> (dx) */
  | { readonly kind: 'geluGrad'; readonly approximate: boolean }
  /** (gate, up) -> (y): silu(gate) * up. */
  | { readonly kind: 'swiglu' }
  /** (dy, gate, up) -> (dgate, dup) */
  | { readonly kind: 'swigluGrad' }
  /** (x, weight, bias) -> (y): normalized over the dims of weight. */
  | { readonly kind: 'layerNorm'; readonly eps: number }
  /** (dy, x, weight) -> (dx) */
  | { readonly kind: 'layerNormInputGrad'; readonly eps: number }
  /** (dy, x) -> (dweight, dbias) */
  | { readonly kind: 'layerNormWeightGrad'; readonly eps: number }
  /** (x, weight) -> (y): x / rms(x) * weight over the dims of weight. */
  | { readonly kind: 'rmsNorm'; readonly eps: number }
  /** (dy, x, weight) -> (dx) */
  | { readonly kind: 'rmsNormInputGrad'; readonly eps: number }
  /** (dy, x) -> (dweight) */
  | { readonly kind: 'rmsNormWeightGrad'; readonly eps: number }
  /**
   * (a, b) -> (out): side by side along the dim of out that they lack: first the dim that only a has, then the one that only
   * b has. Other dims that one of them lacks are repeated.
   */
  | { readonly kind: 'join' }
  /** (dout) -> (da, db): what went into a join; a dim that one of them lacks is summed. */
  | { readonly kind: 'joinGrad' }
  /**
   * (x, positions) -> (y): element i and i + headDim/2 turned by position * theta^(-2i/headDim), or as `rotationOf` scales it;
   * headDim is named qkRopeHeadDim where it is a part of heads. The inverse turns back; it is the gradient, so what grew grows again.
   * Positions [batch seq] are those within a token's document; without them they are those within the sequence.
   */
  | { readonly kind: 'rope'; readonly theta: number; readonly inverse: boolean; readonly scaling?: RopeScaling }
  /**
   * (q, k, v, positions, order) -> (out, lse): causal attention. q, out [batch seq kvHeads group headDim]; k, v without group; headDim of v and
   * out is named vHeadDim where it is another. lse [batch seq kvHeads group] is the log of the sum of exp(scores). Scores
   * are multiplied by `scale`, or by 1/sqrt(headDim). A window of w sees the last w positions only. Dropout acts on the probabilities, mask by counter.
   * Where there are positions [batch seq], of the queries within their documents, a query at n sees itself and the n before it.
   * Where there is an order [batch slot], the token at a slot of the sequence, query or key, is the one it names.
   */
  | ({ readonly kind: 'attention' } & AttentionOptions)
  /** (dout, q, k, v, out, lse, positions, order) -> (dq, dk, dv): out and lse are those of all keys, even where k and v are some of them. */
  | ({ readonly kind: 'attentionGrad' } & AttentionOptions)
  /**
   * (out, lse, more, moreLse) -> (out, lse): of attention to some keys and to some others, attention to all of them. With
   * lse = log(exp(lse) + exp(moreLse)), each is weighed by exp(its lse - lse). Where no key was seen lse is -infinity.
   */
  | { readonly kind: 'attentionMerge' }
  /**
   * (x, order) -> (y): kept elements divided by 1 - rate, the others 0, by their index in the whole tensor; an order as that of attention.
   * It is its own gradient.
   */
  | { readonly kind: 'dropout'; readonly dropout: Dropout }
  /** (ids, table) -> (out): rows of table; an id outside this rank's rows gives 0, so out is a sum over vocab. */
  | { readonly kind: 'embed' }
  /** (ids, dout) -> (dtable) */
  | { readonly kind: 'embedGrad' }
  /** (x) -> (out): the greatest over dims missing from out. */
  | { readonly kind: 'maxOver' }
  /** (logits, max) -> (out): sum over vocab of exp(logits - max). */
  | { readonly kind: 'sumExp' }
  /** (logits, labels) -> (out): the logit of each label; 0 where another rank owns it or the label is ignored. */
  | { readonly kind: 'pick' }
  /** (max, sumExp, picked, labels) -> (loss): sum over tokens of log(sumExp) + max - picked; ignored labels (< 0) count 0. */
  | { readonly kind: 'tokenLoss' }
  /** (logits, max, sumExp, labels, count) -> (dlogits): (softmax - onehot) / count, 0 where ignored. */
  | { readonly kind: 'tokenLossGrad' }
  /** (labels) -> (count): how many labels are not ignored. */
  | { readonly kind: 'countLabels' }
  /** (x, target) -> (loss): the sum of squared differences. */
  | { readonly kind: 'squaredError' }
  /** (x, target, count) -> (dx): 2 (x - target) / count. */
  | { readonly kind: 'squaredErrorGrad' }
  /** (target) -> (count): how many elements there are. */
  | { readonly kind: 'countElements' }
  /** (x) -> (y): 1 / (1 + exp(-x)). */
  | { readonly kind: 'sigmoid' }
  /** (dy, y) -> (dx) */
  | { readonly kind: 'sigmoidGrad' }
  /** (logits) -> (scores): how much each expert suits a token: softmax over the candidates, or sigmoid of each. */
  | { readonly kind: 'scores'; readonly by: Scoring }
  /** (dscores, scores) -> (dlogits) */
  | { readonly kind: 'scoresGrad'; readonly by: Scoring }
  /**
   * (scores, bias) -> (choice): for each token the candidates of highest score plus bias, if there is one, the best first; of equals
   * the one of lower number. With groups only the candidates of `chosenGroups` groups count: those whose best k / chosenGroups sum highest.
   */
  | { readonly kind: 'topK'; readonly groups?: ChoiceGroups }
  /**
   * (scores, choice) -> (weight): the scores of the chosen, divided by their sum if normalised, times `scale`. What is not
   * kept (a choice of -1) weighs 0.
   */
  | ({ readonly kind: 'chosen' } & Weighing)
  /** (dweight, scores, choice) -> (dscores) */
  | ({ readonly kind: 'chosenGrad' } & Weighing)
  /**
   * (scores, choice, order) -> (kept): the choices for which an expert has room, -1 in place of the others. An expert takes `room`
   * choices of each run of `tokens` tokens of a sequence, in this order: all first choices, then all second ones, ...
   * (`choice`); token by token (`token`); the highest score first (`probability`), to 16 bits. Of equals the earlier token comes first.
   */
  | { readonly kind: 'assign'; readonly room: number; readonly tokens: number; readonly order: RoomOrder }
  /**
   * (choice) -> (to, from, counts): the *routes* of tokens to the rows that experts work on. Rows stand in the order of
   * experts, then of tokens; `counts` [expert] says how many each has. `from` [row] is the choice a row was made for,
   * counted through [batch seq choice], -1 behind the last; `to` [batch seq choice] is the row of each choice, -1 where none
   * was kept. Ranks that share the experts count through all their tokens and all their rows, the first rank's first.
   * Guarded: where there are more rows than room for them, the step stops here.
   */
  | { readonly kind: 'rowsOf'; readonly guarded: boolean }
  /** (x, to, from, counts) -> (rows): the row of every choice is its token's, or its own if x has `choice`; 0 behind the last. */
  | { readonly kind: 'dispatch' }
  /** (rows, to, from, counts) -> (out): every choice gets its row back, summed in their order where out lacks `choice`. */
  | { readonly kind: 'combine' }
  /** (rows, counts, w) -> (out): as contract, each row with the weights of its expert; 0 behind the last row. */
  | { readonly kind: 'expertContract' }
  /** (rows, drows, counts) -> (dw) */
  | { readonly kind: 'expertWeightGrad' }
  /** (rows, counts, w, rowsMax, wMax) -> (out): as expertContract, of codes, divided by the scales they were made with. */
  | ({ readonly kind: 'scaledExpertContract' } & Formats & Scaled)
  /** (rows, drows, counts, rowsMax, drowsMax) -> (dw): as expertWeightGrad, likewise. */
  | ({ readonly kind: 'scaledExpertWeightGrad' } & Formats & Scaled)
  /** (gate, up, weight) -> (y): silu(gate) * up * weight. */
  | { readonly kind: 'weightedSwiglu' }
  /** (dy, gate, up, weight) -> (dgate, dup, dweight) */
  | { readonly kind: 'weightedSwigluGrad' }
  /** (choice) -> (counts): how often each candidate was chosen. */
  | { readonly kind: 'countChoices' }
  /** (scores) -> (counts): how often each candidate is among the `chosen` of highest score, as topK without bias and groups. */
  | { readonly kind: 'countTop'; readonly chosen: number }
  /** (scores, counts) -> (loss): `by` times the sum of counts * scores; shares: scores divided by their sum over candidates. */
  | ({ readonly kind: 'balanceLoss' } & Balancing)
  /** (scores, counts, scale) -> (dscores): times scale, if there is one, before it is rounded. */
  | ({ readonly kind: 'balanceLossGrad' } & Balancing)
  /** (logits) -> (loss): `by` times the sum over tokens of the square of log(sum of exp(logits)). */
  | { readonly kind: 'zLoss'; readonly by: number }
  /** (logits, scale) -> (dlogits): likewise. */
  | { readonly kind: 'zLossGrad'; readonly by: number }
  /** (counts, normSquared) -> (bias): bias += rate * sign(mean - counts), in a step that is taken. Reads what it writes. */
  | ({ readonly kind: 'balance'; readonly rate: number; readonly mean: number } & Guard)
  /** () -> (out): zeros. */
  | { readonly kind: 'zero' }
  /** (value) -> (out): out += value, or the greater of both. Reads what it writes. */
  | { readonly kind: 'accumulate'; readonly combine?: 'max' }
  /** (amax, normSquared) -> (scale, history): what `Tracking` says, in a step that is taken. Reads what it writes. */
  | ({ readonly kind: 'track' } & Tracking & Guard)
  /** (value) -> (out): out -= value. Reads what it writes. */
  | { readonly kind: 'deduct' }
  /**
   * (m) -> (grad): beta1 / ranks * m + (1 - beta1) * grad, of a gradient that so many ranks have addends of: a rank's addend of the mean that Adam is
   * about to keep. Reads what it writes.
   */
  | { readonly kind: 'blend'; readonly beta1: number; readonly ranks: number }
  /**
   * (x) -> (out): x as a matrix (as newtonSchulz sees it), its columns made orthonormal one after the other, as Gram and Schmidt do. A column of
   * which less than `leastLeft` is left beside those before becomes 0; or, where it draws, one of chance by name and index, made orthonormal.
   */
  | { readonly kind: 'gramSchmidt'; readonly inputs: number; readonly draws: boolean }
  /** (next, normSquared) -> (state): next, in a step that is taken. Reads what it writes. */
  | ({ readonly kind: 'become' } & Guard)
  /** (x, ...) -> (out): each operand is one along `addend`. */
  | { readonly kind: 'beside' }
  /**
   * (x) -> (values, places): of every addend the `keptOf` numbers of the greatest absolute value, in the order of their places; of equals those that
   * come first; what is no number counts as infinite. A place is an index into the block that a rank holds: one line, or several where `Kept` says so.
   */
  | ({ readonly kind: 'greatest' } & Kept)
  /**
   * (values, places) -> (out): zeros, but for the values at their places; the sum over `addend`, in its order, unless the result has that dim. Of as
   * many numbers as `greatest` keeps.
   */
  | ({ readonly kind: 'scatter' } & Kept)
  /**
   * (x) -> (out): out += sum of squares, by the ranks at coordinate 0 of `once`; by the others, that sum times 0, which is NaN where a number is not
   * finite. Reads what it writes.
   */
  | { readonly kind: 'sumSquares'; readonly once: readonly string[] }
  /**
   * (grad, normSquared, taken, param, m, v) -> (paramSquared, stepSquared): the squared norms of a parameter and of the direction
   * in which lamb is about to move it. Sums over what is split.
   */
  | ({ readonly kind: 'lambSquares' } & Omit<Lamb, 'always'> & Clip)
  /** (grad, normSquared, m) -> (direction): the mean of gradients that muon is about to keep; with nesterov, one step ahead of it. */
  | ({ readonly kind: 'muonMean'; readonly momentum: number; readonly nesterov: boolean } & Clip)
  /**
   * (x) -> (out, room): x as a matrix, its first dims (so many are inputs; those of each expert) by the others, with all its singular values
   * brought near 1 by so many steps of Newton and Schulz. The second result is room it needs: for one matrix and two squares of its shorter side.
   * `lines`: x is a stack of them, and so is the result.
   */
  | ({
      readonly kind: 'newtonSchulz'
      readonly inputs: number
      readonly steps: number
      readonly lines?: Lines
    } & Products)
  /** (x, ...) -> (stack): what each operand holds, as a line: [matrix line]. Behind the last there are zeros. */
  | { readonly kind: 'stack' }
  /** (stack) -> (x): the lines again as what they were; of as many as there are results. */
  | { readonly kind: 'unstack' }
  /**
   * (x, ...) -> (codes, units): each operand as 8-bit codes, which lie as `Coding` says; of several, side by side along `addend`. A unit is the
   * greatest absolute value of its run / 128, and no number where one of them is infinite or none; a code the whole number nearest to x / unit, ties to
   * even, from -128 to 127; 0 where the unit is 0. Of signs a unit that is not finite is no number.
   */
  | ({ readonly kind: 'pack' } & Coding)
  /** (codes, units) -> (x): code times unit, or the unit with its sign; the sum over `addend`, in its order, where they have one. */
  | ({ readonly kind: 'unpack' } & Coding)
  /**
   * (grad, normSquared) -> (rows, columns, mean): of the squares of a matrix (as newtonSchulz sees it) the means over its columns, over its
   * rows and over both, of so many rows and columns as the whole has. Sums over what is split.
   */
  | ({ readonly kind: 'factorSquares' } & Matrix & Clip)
  /**
   * (grad, normSquared, taken, param, rows, columns, mean, rowMeans, columnMeans, meanSquare) -> (paramSquared, stepSquared):
   * as lambSquares, for adafactor. Of what is no matrix, v takes the place of rows and all that follows.
   */
  | ({ readonly kind: 'adafactorSquares' } & Pick<Adafactor, 'beta2Decay' | 'eps1' | 'inputs'> & Clip)
  /** (value, normSquared, taken) -> (ema): in a step that is taken, decay * ema + (1 - decay) * value; in the first, value. Reads what it writes. */
  | ({ readonly kind: 'average'; readonly decay: number } & Guard)
  /** (scale) -> (x): x / scale. Reads what it writes. */
  | { readonly kind: 'unscale' }
  /** (normSquared, limit) -> (weighed): the square of the norm; of a norm that is finite and not below the limit, a square as well, `tooLarge`. */
  | { readonly kind: 'weigh' }
  /**
   * (normSquared) -> (taken, scale, growth, hysteresis): one more, in a step that is taken; and those that its scaler has, if there
   * is one, as it moves them: in every step, by whether normSquared is finite. Reads what it writes.
   */
  | ({ readonly kind: 'take'; readonly scaler?: Scaler } & Guard)
  /**
   * Reads what it writes, and changes it in a step that is taken. adamw: (grad, normSquared, lr, taken) -> (param, m, v, top), with
   * decoupled weight decay; without corrections there is no taken. sgd: (grad, normSquared, lr, taken) -> (param, m): m = momentum * m + grad + decay * param; param -= lr * m.
   * lamb: (grad, normSquared, lr, taken, paramSquared, stepSquared) -> (param, m, v). muon: (grad, normSquared, lr, direction) -> (param, m).
   * adafactor: (grad, normSquared, lr, taken, paramSquared, stepSquared) -> (param, v), or of a matrix with (..., rowMeans, columnMeans,
   * meanSquare) -> (param, rows, columns, mean).
   * lion: (grad, normSquared, lr) -> (param, m): param -= lr * (sign(beta1 * m + (1 - beta1) * grad) + decay * param), then m is the mean of beta2.
   */
  | (Optimizer & Clip & Guard & Rate & Rounding)

/** So many of its dims are rows; rows and columns of the whole. */
export interface Matrix {
  readonly inputs: number
  readonly rows: number
  readonly columns: number
}

export interface AttentionOptions {
  readonly window?: number
  readonly dropout?: Dropout
  readonly scale?: number
}

export const scorings = ['softmax', 'sigmoid'] as const
export type Scoring = (typeof scorings)[number]

export const roomOrders = ['choice', 'token', 'probability'] as const
export type RoomOrder = (typeof roomOrders)[number]

/** Candidates in so many groups of one size, in their order. */
export interface ChoiceGroups {
  readonly groups: number
  readonly chosenGroups: number
}

export interface Weighing {
  readonly normalise: boolean
  readonly scale: number
}

export interface Balancing {
  readonly by: number
  readonly shares: boolean
}

/** What the two operands of a product are coded in. */
export interface Formats {
  readonly formats: readonly CodeType[]
  /** Of each operand, where it has several scales. */
  readonly blocks?: readonly Blocks[]
}

/** How a number says how codes were scaled: it was greatest, and the scale is that of a rule, or the usual one; or it is the scale itself. */
export interface Scaled {
  readonly by?: 'scale' | ScaleRule | undefined
}

/**
 * How the scale of codes follows what was greatest in the steps before: the chosen of the history brings them into range, less so many
 * powers of two. Where that is 0 or not finite the scale stays.
 */
export interface Tracking {
  readonly format: CodeType
  readonly margin: number
  readonly algo: TrackingAlgo
}

export const trackingAlgos = ['max', 'most_recent'] as const
export type TrackingAlgo = (typeof trackingAlgos)[number]

export interface Dropout {
  readonly rate: number
  /** Names the mask within a block; with seed, step, block and the element's global index it fixes the mask. */
  readonly key: string
}

/** The gradient is scaled by min(1, clip / (norm + 1e-6)); 0 means never. */
export interface Clip {
  readonly clip: number
}

/** What products may round their operands to: they need not be more exact. Whoever has no such units computes in f32. */
export interface Products {
  readonly products: 'f32' | 'bf16'
}

/** What the learning rate of the step is multiplied by; 1 unless it is said. */
export interface Rate {
  readonly rate?: number | undefined
}

/** What is updated is rounded up or down by chance, as often as it is near; to the nearest unless it is said. */
export interface Rounding {
  readonly stochastic?: boolean | undefined
}

export type OpKind = Op['kind']
export type OpOf<K extends OpKind> = Extract<Op, { kind: K }>
/** One answer per op. An op added to the union turns every table that lacks it into a type error. */
export type OpTable<T> = { readonly [K in OpKind]: T }
