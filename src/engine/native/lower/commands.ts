const matmulWords = [
  ...['out', 'a', 'b', 'bias', 'add', 'm', 'n', 'k', 'transA', 'transB', 'batch', 'strideA', 'strideB', 'strideOut'],
] as const

/** Of attention and its gradient: sizes, positions of queries and keys, and the mask of dropout. */
const attentionWords = [
  ...['batch', 'queries', 'keys', 'kvHeads', 'group', 'headDim', 'valueDim', 'scale', 'window'],
  ...['queryOrigin', 'queryUntil', 'queryGap', 'keyOrigin', 'keyUntil', 'keyGap'],
  ...['positions', 'rate', 'seed', 'name', 'step'],
  ...['batchOrigin', 'headOrigin', 'groupOrigin', 'heads', 'groups'],
] as const

/**
 * What the kernels understand: a rank's step as one list of commands, which C executes from end to end, collectives and
 * waiting included. A command is a run of f64 words `[opcode, number of words that follow, ...words]` in shared memory;
 * the list ends with `end`. These tables are the contract of both sides: `scripts/contracts.mjs` writes
 * kernels/commands.h from them, prototypes and all, and the order of the names is the opcode.
 *
 * Words named after tensors are byte offsets from the start of the one memory that all ranks share. Where its numbers are
 * in 16 bits, a fraction says in what: the code of the dtype, in eighths (kernels/numbers.h). Everything else is f32, ids and
 * labels are i32. Counts and strides are in elements unless a name says bytes.
 */
import { elementTypes, type Space, scalerKinds, spaces } from '../../../base/index.js'
import { type Kind, kinds } from '../../../ir/index.js'

/** The instruction set of the engine: the operands of every command. kernels/commands.h is generated from it. */
export const commands = {
  end: [],
  /** First of a list. `abort`: i32 that becomes nonzero when the run is to stop. Spans: ring of (command, start, end) f64 triples. */
  config: ['abort', 'timeoutMs', 'spin', 'yields', 'spans', 'spanCapacity', 'workspace', 'workspaceBytes'],
  /** Accounting of the memory plan: live and peak bytes by kind in the rank's status block. */
  alloc: ['kind', 'bytes'],
  free: ['kind', 'bytes'],

  /**
   * out[m n] = op(a) op(b) + bias[n] + add[m n]; a is [m k], or [k m] where transA; b is [k n], or [n k] where transB; all
   * dense rows. bias and add are 0 where there is none; add may be out.
   */
  matmul: matmulWords,
  /**
   * The same bits, and more beside them; all 0 where nobody asks. Several products of one batch may share b: it is packed at panels by the first of
   * them (`packs`), for all that follow. sums[n] are those of b's columns, where it is not transposed, or get them added (`adds`).
   */
  matmulWith: [...matmulWords, 'panels', 'packs', 'sums', 'adds'],
  /** out[n] = a[k] b: a product of one row, of numbers in f32. b is [k n], or [n k] where transB, its rows `stride` apart. */
  matvec: ['out', 'a', 'b', 'n', 'k', 'stride', 'transB'],
  /** `repeats` rows of out, `stride` apart, are each row of x: out[(r * repeats + i) * stride + c] = x[r c]. */
  joinPart: ['out', 'x', 'rows', 'repeats', 'columns', 'stride'],
  /** The inverse, summed: out[r c] = sum over i of x[(r * repeats + i) * stride + c]. */
  joinGradPart: ['out', 'x', 'rows', 'repeats', 'columns', 'stride'],
  /** out[r c] = a[r c] + b[c], b repeating every `period` elements (period = n: plain). In place allowed. */
  add: ['out', 'a', 'b', 'n', 'period'],
  mul: ['out', 'a', 'b', 'n', 'period'],
  /** out[r c] = a[r c] * b[r]. In place allowed. */
  mulRows: ['out', 'a', 'b', 'rows', 'columns'],
  scale: ['out', 'x', 'n', 'by'],
  /** out[c] = sum over rows of x[r c]. */
  sumRows: ['out', 'x', 'rows', 'columns'],
  /** out[r] = sum over columns of x[r c]. */
  sumColumns: ['out', 'x', 'rows', 'columns'],
  gelu: ['y', 'x', 'n', 'approximate'],
  geluGrad: ['dx', 'dy', 'x', 'n', 'approximate'],
  swiglu: ['y', 'gate', 'up', 'n'],
  swigluGrad: ['dgate', 'dup', 'dy', 'gate', 'up', 'n'],
  layerNorm: ['y', 'x', 'gain', 'bias', 'rows', 'columns', 'eps'],
  /**
   * dx starts from add (0: from nothing). dgain and dbias are those of the WeightGrads, 0: they are not asked for. dx may
   * lie where dy, x or add does.
   */
  layerNormInputGrad: ['dx', 'dgain', 'dbias', 'dy', 'x', 'gain', 'add', 'rows', 'columns', 'eps'],
  layerNormWeightGrad: ['dgain', 'dbias', 'dy', 'x', 'rows', 'columns', 'eps'],
  rmsNorm: ['y', 'x', 'gain', 'rows', 'columns', 'eps'],
  rmsNormInputGrad: ['dx', 'dgain', 'dy', 'x', 'gain', 'add', 'rows', 'columns', 'eps'],
  rmsNormWeightGrad: ['dgain', 'dy', 'x', 'rows', 'columns', 'eps'],
  /**
   * x [batch seq heads headDim]; position = origin + s, and `gap` more from s = `until` on. Pair i turns by its frequency
   * times the position; what is turned is multiplied by `growth`. places [batch seq], i32, are positions instead of those; 0:
   * there are none.
   */
  rope: [
    ...['y', 'x', 'places', 'batch', 'seq', 'heads', 'headDim', 'inverse', 'growth', 'origin', 'until', 'gap'],
    '...frequencies',
  ],
  /**
   * q [batch seq kvHeads group headDim], out the same with vHeadDim; k [batch seq kvHeads headDim], v with vHeadDim;
   * lse [batch seq kvHeads group]. Scores are multiplied by `scale`. window 0: all. before, beforeLse: the out and lse of other
   * keys, with which these are merged; 0: there are none. places [batch queries], i32: how many keys before it a query may see; 0:
   * all. order [batch positions], i32: the token at each slot, which queryOrigin and keyOrigin count; 0: the token whose place it is.
   */
  attention: ['out', 'lse', 'before', 'beforeLse', 'q', 'k', 'v', 'places', 'order', ...attentionWords],
  /** out and lse of some keys (a) and of others (b) become those of all; rows of `columns`, with an lse each. */
  attentionMerge: ['out', 'lse', 'a', 'aLse', 'b', 'bLse', 'rows', 'columns'],
  attentionGrad: ['dq', 'dk', 'dv', 'dout', 'q', 'k', 'v', 'out', 'lse', 'places', 'order', ...attentionWords],
  /**
   * Mask by counter: element (i0 i1 i2), local sizes n0 n1 n2 (rows of one dense run each), has global index
   * base + i0 * stride0 + i1 * stride1 + i2, where i1 counts `gap` more from `until` on. order [i0 slots], i32: i1 is what it says of
   * slot origin + i1, less origin; 0: there is none. seed and name are 32-bit keys of philox4x32-10, step the third counter word.
   */
  dropout: [
    ...['y', 'x', 'order', 'slots', 'origin', 'n0', 'n1', 'n2', 'base', 'stride0', 'stride1', 'until', 'gap'],
    ...['rate', 'seed', 'name', 'step'],
  ],
  /** Rows of this rank are [origin, origin + rows); other ids give 0. */
  embed: ['out', 'ids', 'table', 'n', 'rows', 'columns', 'origin'],
  /** dtable is overwritten: zero, then added to. */
  embedGrad: ['dtable', 'ids', 'dout', 'n', 'rows', 'columns', 'origin'],
  maxColumns: ['out', 'x', 'rows', 'columns'],
  sumExp: ['out', 'x', 'max', 'rows', 'columns'],
  pick: ['out', 'x', 'labels', 'rows', 'columns', 'origin'],
  tokenLoss: ['loss', 'max', 'sumExp', 'picked', 'labels', 'n'],
  tokenLossGrad: ['dx', 'x', 'max', 'sumExp', 'labels', 'count', 'rows', 'columns', 'origin'],
  countLabels: ['count', 'labels', 'n'],
  squaredError: ['loss', 'x', 'target', 'n'],
  squaredErrorGrad: ['dx', 'x', 'target', 'count', 'n'],
  sigmoid: ['y', 'x', 'n'],
  sigmoidGrad: ['dx', 'dy', 'y', 'n'],
  /** Routing: a row is a token, its columns are the candidates. Softmax over them, or the sigmoid of each. */
  scores: ['out', 'x', 'rows', 'columns', 'sigmoid'],
  scoresGrad: ['dx', 'dy', 'y', 'rows', 'columns', 'sigmoid'],
  /** Choices, counts of rows and routes are i32. bias 0: none. */
  topK: ['choice', 'scores', 'bias', 'rows', 'columns', 'chosen', 'groups', 'chosenGroups'],
  chosen: ['weight', 'scores', 'choice', 'rows', 'columns', 'chosen', 'normalise', 'scale'],
  chosenGrad: ['dscores', 'dweight', 'scores', 'choice', 'rows', 'columns', 'chosen', 'normalise', 'scale'],
  /** `by` is a code of `roomOrders`. order 0: each token lies at its place; else [sequence slot], which of `slots` tokens lies where. */
  assign: ['kept', 'scores', 'choice', 'order', 'slots', 'rows', 'columns', 'chosen', 'room', 'tokens', 'by'],
  /** n choices of all that share `experts`; this rank has `own` of them, from `first` on, and room for so many rows. */
  rowsOf: ['to', 'from', 'counts', 'choice', 'n', 'experts', 'own', 'first', 'room'],
  /** Row r is row from[r] / repeats of x. */
  dispatchRows: ['out', 'x', 'from', 'rows', 'columns', 'repeats'],
  /** out[t c] = sum over `repeats` i of x[to[t i] c]. */
  combineRows: ['out', 'x', 'to', 'tokens', 'columns', 'repeats'],
  /** rows [room k] times w [experts k n] (transW: [experts n k]). */
  expertContract: ['out', 'rows', 'counts', 'w', 'experts', 'room', 'n', 'k', 'transW'],
  /** dw [experts m n] from rows [room m] and drows [room n]. */
  expertWeightGrad: ['dw', 'rows', 'drows', 'counts', 'experts', 'm', 'n'],
  weightedSwiglu: ['y', 'gate', 'up', 'weight', 'rows', 'columns'],
  weightedSwigluGrad: ['dgate', 'dup', 'dweight', 'dy', 'gate', 'up', 'weight', 'rows', 'columns'],
  countChoices: ['counts', 'choice', 'n', 'columns'],
  /** Counts of each of `groups` groups of `rows` tokens. */
  countTop: ['counts', 'scores', 'groups', 'rows', 'columns', 'chosen'],
  balanceLoss: ['loss', 'scores', 'counts', 'groups', 'rows', 'columns', 'by', 'shares'],
  /** scale 0: none. */
  balanceLossGrad: ['dscores', 'scores', 'counts', 'scale', 'groups', 'rows', 'columns', 'by', 'shares'],
  zLoss: ['loss', 'logits', 'rows', 'columns', 'by'],
  /** scale 0: none. */
  zLossGrad: ['dlogits', 'logits', 'scale', 'rows', 'columns', 'by'],
  /** Nothing is done unless normSquared is below `limit`, a square as well; this holds for take and the optimizers too. */
  balance: ['bias', 'counts', 'normSquared', 'n', 'rate', 'mean', 'limit'],
  fill: ['out', 'n', 'value'],
  accumulate: ['out', 'x', 'n'],
  sumSquares: ['out', 'x', 'n', 'times'],
  unscale: ['x', 'scale', 'n'],
  /** Codes are i8. n numbers lie as a line of `parts` parts of `part` each, the last of which may be longer than what is left. */
  pack: ['codes', 'units', 'x', 'n', 'part', 'parts', 'run'],
  unpack: ['out', 'codes', 'units', 'n', 'part', 'parts', 'run', 'addends'],
  /** The same of signs. `whole`: all parts have one unit. Of `room` numbers those beyond the n-th are 0. blend: grad = share * m + rest * grad. */
  packSigns: ['codes', 'units', 'x', 'n', 'part', 'parts', 'whole'],
  unpackSigns: ['out', 'codes', 'units', 'n', 'part', 'parts', 'addends', 'room'],
  blend: ['grad', 'm', 'n', 'share', 'rest'],
  /** What is finite and not below what lies at `limit` becomes the greatest f32. */
  weigh: ['weighed', 'normSquared', 'limit'],
  /** A step is counted. */
  take: ['taken', 'normSquared', 'limit'],
  /** The scale moves; `scaler` is its place among the kinds, and what a kind has no number for is 0. */
  rescale: [
    ...['scale', 'growth', 'hysteresis', 'normSquared', 'scaler'],
    ...['factor', 'backoff', 'interval', 'min', 'full', 'consecutive'],
  ],
  /** clip 0: never; top 0: not kept; taken 0: nothing is corrected. lr, which is multiplied by rate, and taken are read from scalars in memory. */
  adamw: [
    ...['param', 'm', 'v', 'top', 'grad', 'normSquared', 'lr', 'taken', 'n'],
    ...['beta1', 'beta2', 'eps', 'coupled', 'weightDecay', 'clip', 'limit', 'rate'],
  ],
  /** grad is the mean itself. */
  frozenAdam: ['param', 'm', 'v', 'grad', 'normSquared', 'lr', 'n', 'eps', 'weightDecay', 'clip', 'limit', 'rate'],
  /** m 0: no momentum; taken 0: no dampening. */
  sgd: [
    ...['param', 'm', 'grad', 'normSquared', 'lr', 'taken', 'n'],
    ...['momentum', 'nesterov', 'dampening', 'weightDecay', 'clip', 'limit', 'rate'],
  ],
  /** Both are sums over this rank's part. */
  lambSquares: [
    ...['paramSquared', 'stepSquared', 'grad', 'normSquared', 'taken', 'param', 'm', 'v', 'n'],
    ...['beta1', 'beta2', 'eps', 'weightDecay', 'clip'],
  ],
  lamb: [
    ...['param', 'm', 'v', 'grad', 'normSquared', 'lr', 'taken', 'paramSquared', 'stepSquared', 'n'],
    ...['beta1', 'beta2', 'eps', 'always', 'weightDecay', 'clip', 'limit', 'rate'],
  ],
  muonMean: ['direction', 'grad', 'normSquared', 'm', 'n', 'momentum', 'nesterov', 'clip'],
  /** out = x / max(|x|, 1e-7) */
  normalise: ['out', 'x', 'n'],
  /**
   * `n` elements of matrices of `height` rows and `width` columns, `each` of them, from the `first` on; `rowCount` and `columnCount`
   * are those of the whole. All but grad is f32.
   */
  factorSquares: [
    ...['rows', 'columns', 'mean', 'grad', 'normSquared', 'n', 'first', 'each', 'height', 'width'],
    ...['rowCount', 'columnCount', 'clip'],
  ],
  /** Where v is 0 it is a matrix, and rows, columns and mean are kept, which rowMeans, columnMeans and meanSquare go into. */
  adafactorSquares: [
    ...['paramSquared', 'stepSquared', 'grad', 'normSquared', 'taken', 'param', 'v', 'rows', 'columns', 'mean'],
    ...['rowMeans', 'columnMeans', 'meanSquare', 'n', 'first', 'each', 'height', 'width', 'beta2Decay', 'eps', 'clip'],
  ],
  adafactor: [
    ...['paramSquared', 'stepSquared', 'grad', 'normSquared', 'taken', 'param', 'v', 'rows', 'columns', 'mean'],
    ...['rowMeans', 'columnMeans', 'meanSquare', 'n', 'first', 'each', 'height', 'width', 'beta2Decay', 'eps', 'clip'],
    ...['lr', 'elements', 'least', 'most', 'weightDecay', 'limit', 'rate'],
  ],
  /** out -= x */
  deduct: ['out', 'x', 'n'],
  /** state = next, below the limit. */
  become: ['state', 'next', 'normSquared', 'n', 'limit'],
  /**
   * `each` matrices of `rows` rows, whose `columns` columns are made orthonormal one after the other. Where it draws, seed and name are keys of
   * philox4x32-10, 0 and 2 the third and fourth counter word, and elements are counted from `first` on; a draw of 16 bits d becomes (d - 32767.5) / 32768.
   */
  gramSchmidt: ['out', 'x', 'each', 'rows', 'columns', 'draws', 'seed', 'name', 'first'],
  /** The `kept` greatest of n numbers, by absolute value, and their places (i32), in the order of places. */
  greatest: ['values', 'places', 'x', 'n', 'kept'],
  /** n numbers: the sum of `addends` times `kept` values at their places. */
  scatter: ['out', 'values', 'places', 'n', 'kept', 'addends'],
  average: ['ema', 'value', 'normSquared', 'taken', 'n', 'decay', 'limit'],
  muon: [
    ...['param', 'm', 'grad', 'normSquared', 'lr', 'direction', 'n'],
    ...['momentum', 'stretch', 'weightDecay', 'clip', 'limit', 'rate'],
  ],
  /**
   * The parameter that the next command updates is rounded by chance: element l, of those that follow `first` in the rank's block,
   * has global index base + i0 * stride0 + i1 * stride1 + i2 with l = (i0 n1 + i1) n2 + i2, where i1 counts `gap` more from `until` on.
   * seed and name are 32-bit keys of philox4x32-10, step the third counter word, 2 the fourth.
   */
  dither: ['seed', 'name', 'step', 'first', 'n1', 'n2', 'base', 'stride0', 'stride1', 'until', 'gap'],
  lion: ['param', 'm', 'grad', 'normSquared', 'lr', 'n', 'beta1', 'beta2', 'weightDecay', 'clip', 'limit', 'rate'],
  /** rows runs of `columns` elements, from stride to stride. */
  copy: ['out', 'x', 'rows', 'columns', 'strideOut', 'strideX'],

  /**
   * Collectives. `sync` is the group's block: a line of 64 bytes for who sleeps, then one line per member with two i32
   * counters of collectives, arrived and left (see kernels/sync.c). `start` publishes that this member's operand is ready;
   * the wait that follows does the work. Collectives count from 1; the counters are cleared between steps.
   * Operands of all members are listed as offsets at the end of the wait command, in group order: [... x0 x1 ... out0 out1 ...].
   * A result offset below 0 is nobody's.
   */
  start: ['sync', 'me', 'members', 'collective'],
  /**
   * n elements of `dtype` (a code of `elementTypes`) become one number each in member order, as `combine` says (a code of
   * `combines`). In place allowed.
   */
  waitAllReduce: ['sync', 'me', 'members', 'collective', 'n', 'combine', 'dtype', '...x', '...out'],
  /** out is `outer` rows of members * `inner` bytes; member i's part is `outer` rows of `inner` bytes. */
  /** `zigzag`: 0 where parts follow each other, else how many members share what one rank of the zigzag holds. */
  waitAllGather: ['sync', 'me', 'members', 'collective', 'outer', 'innerBytes', 'zigzag', '...x', '...out'],
  /** x is `outer` rows of members * `inner` elements; this member gets the sum of part `me`. */
  waitReduceScatter: [
    ...['sync', 'me', 'members', 'collective', 'outer', 'inner', 'zigzag', 'combine', 'dtype', '...x', '...out'],
  ],
  /**
   * A piece is [outer first middle second inner]. Operands hold all members' pieces side by side along first (cutFirst 1)
   * or second (0), results along the other: piece p of member q's operand goes to place q of member p's result.
   */
  waitAllToAll: [
    ...['sync', 'me', 'members', 'collective', 'outer', 'first', 'middle', 'second', 'innerBytes', 'cutFirst'],
    ...['...x', '...out'],
  ],
  /** Member i gets what member i - by has, 0 <= by < members. */
  waitShift: ['sync', 'me', 'members', 'collective', 'bytes', 'by', '...x', '...out'],
  /**
   * As dispatchRows and combineRows; behind the results the routes of all members are listed, `from` or `to`. x has a row for
   * each token, or for each of its choices (`choices`). A member has `batch` x `seq` of the tokens; `places` are pairs for each
   * part of the batches and each chunk of the sequence: who has it, and where in its own sequence it begins.
   */
  waitAllDispatch: [
    ...['sync', 'me', 'members', 'collective', 'rows', 'columns', 'chosen', 'choices', 'batch', 'seq', 'wholeSeq'],
    ...['chunk', 'placesLength', 'chunks', '...places', '...x', '...out', '...routes', '...none'],
  ],
  /** `room` rows of each member are counted through. */
  waitAllCombine: [
    ...['sync', 'me', 'members', 'collective', 'tokens', 'columns', 'repeats', 'room'],
    ...['...x', '...out', '...routes', '...none'],
  ],
  /**
   * Messages. sync is one line of i32: counters of messages sent, of receives that are ready, taken and copied, then the
   * bell; then two f64 where sender and receiver may say where x and out lie (`Sync`). Whoever waits first once both have
   * started copies, so a sender needs its receiver to be ready, not to wait.
   */
  send: ['sync', 'message'],
  /** x or out below 0: the offset that is in the line. */
  waitRecv: ['sync', 'message', 'out', 'x', 'bytes'],
  waitSend: ['sync', 'message', 'out', 'x', 'bytes'],
  /** Everybody has come: what ranks did before it is seen by all after it. */
  barrier: ['sync', 'me', 'members', 'collective'],
  copyBytes: ['out', 'x', 'bytes'],
  recv: ['sync', 'message'],
  /**
   * Several tensors at one collective, as `how` says (a code of `severalKinds`): parts of a line, or whole tensors. For each pair:
   * elements of a part and of the whole, then the operands of all members and their results, as above. An all-reduce is
   * cut in parts too, which its members sum up for all.
   */
  waitSeveral: ['sync', 'me', 'members', 'collective', 'how', 'combine', 'dtype', 'pairs', '...tensors'],
  /**
   * Codes of `count` tensors, gathered and unpacked. Two pairs a tensor, as above. The first: numbers of a part and of the whole, where each
   * member's numbers go, and where it has the codes of all parts, of which its own are there. The second: units of a part and the
   * numbers that share one, nothing, and where it has the units of all parts.
   */
  waitCodes: ['sync', 'me', 'members', 'collective', 'count', '...tensors'],
  /**
   * A move to (`writes`) or from a file, by its number, in pieces of whole pages: of x and out, the one that is there is a position in
   * it. direct: the file bypasses the system's cache, and pieces go by way of the workspace.
   */
  waitDisk: ['sync', 'me', 'members', 'collective', 'bytes', 'piece', 'file', 'writes', 'direct', '...x', '...out'],
} as const satisfies Record<string, readonly string[]>

/** The name of a command. */
export type CommandName = keyof typeof commands
/** All commands, in the order of their opcodes. */
export const commandNames = Object.keys(commands) as CommandName[]
/** The opcode of each command. */
export const opcodes = Object.fromEntries(commandNames.map((name, i) => [name, i])) as Record<CommandName, number>

/**
 * The words of a rank's status block. `waitingFor` is 1 + the rank it waits for, 0 if it does not wait; `done` is the
 * last finished step; `needed` the number of tokens that exceeded an expert's capacity; `code` the errno of a failed
 * disk operation. At byte `live` follow f64: live bytes by category and space, then their peaks.
 */
export const statusWords = ['command', 'error', 'waitingFor', 'spans', 'done', 'needed', 'code'] as const
const live = 64
/** The number of byte counts in a status block: one per memory category and space. */
export const counts = spaces.length * kinds.length
/** The index of a memory category in the byte counts of a rank. */
export const countOf = (space: Space, kind: Kind): number => spaces.indexOf(space) * kinds.length + kinds.indexOf(kind)
/** The layout of a rank's status block. */
export const Status = {
  ...(Object.fromEntries(statusWords.map((word, i) => [word, i])) as Record<(typeof statusWords)[number], number>), // all of them
  live,
  bytes: live + 2 * 8 * counts,
}

/**
 * The layout of synchronization lines, padded to avoid false sharing. Both ends of a message may write the address of
 * their tensor there.
 */
export const Sync = { lineBytes: 64, messageX: 32, messageOut: 40 } as const

/**
 * The tuning that kernels receive, as i32 words: the variant of the register tile, whether matrix tiles (AMX) may be
 * used, block sizes, up to how many columns the left operand is read unpacked, and the piece size, prefetch distance
 * and non-temporal threshold of collectives.
 */
export const tuningWords = [
  ...['variant', 'tiles', 'blockK', 'blockRows', 'blockColumns', 'unpacked'],
  ...['pieceBytes', 'fetched', 'fetchedAhead', 'streamedBytes', 'codedBytes'],
] as const

/** The meaning of each error that a kernel reports. The order is the code. */
export const errorMeanings = {
  ok: 'done',
  aborted: 'the abort flag was raised while it waited',
  timeout: 'timed out waiting',
  unknown: 'a command that no kernel implements',
  workspace: 'a kernel needs more workspace than was allocated',
  rows: 'experts receive more tokens than their capacity',
  disk: 'an offload file could not be read or written',
} as const
/** The code of an error that a kernel reports. */
export type ExecError = keyof typeof errorMeanings
/** The error codes that kernels report, in the order of their numbers. */
export const errors = Object.keys(errorMeanings) as readonly ExecError[] // its own keys

/** The collectives that take several tensors at once. The order is the code. */
export const severalKinds = ['all-reduce', 'reduce-scatter', 'all-gather'] as const
/** A collective that takes several tensors at once. */
export type SeveralKind = (typeof severalKinds)[number]

/** The reductions of collectives. The order is the code. */
export const combines = ['sum', 'max', 'product', 'min', 'mean'] as const
/** The name of a reduction, such as sum or max. */
export type CombineName = (typeof combines)[number]
/** The number of a reduction in a command list. */
export const combineCode = (name: CombineName): number => combines.indexOf(name)

/** A checksum of these tables. Kernels that were compiled against other tables are rejected. */
export const contract = ((): number => {
  const agreed = [commands, statusWords, counts, Status, Sync, tuningWords, errorMeanings, severalKinds, combines]
  const text = JSON.stringify([...agreed, elementTypes, scalerKinds])
  return [...text].reduce((hash, c) => Math.imul(hash ^ c.charCodeAt(0), 16777619), text.length) >>> 1
})()
