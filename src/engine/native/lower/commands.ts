/**
 * What the kernels understand: a rank's step as one list of commands, which C executes from end to end, collectives and
 * waiting included. A command is a run of f64 words `[opcode, number of words that follow, ...words]` in shared memory;
 * the list ends with `end`. This table is the contract of both sides: `scripts/contracts.mjs` writes
 * kernels/commands.h from it, and the order of the names is the opcode.
 *
 * Words named after tensors are byte offsets from the start of the one memory that all ranks share. Counts and strides
 * are in elements of 4 bytes unless a name says bytes. Everything is f32, ids and labels are i32.
 */
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
  matmul: [
    'out',
    'a',
    'b',
    'bias',
    'add',
    'm',
    'n',
    'k',
    'transA',
    'transB',
    'batch',
    'strideA',
    'strideB',
    'strideOut',
  ],
  /** out[r c] = a[r c] + b[c], b repeating every `period` elements (period = n: plain). In place allowed. */
  add: ['out', 'a', 'b', 'n', 'period'],
  mul: ['out', 'a', 'b', 'n', 'period'],
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
  layerNormInputGrad: ['dx', 'dy', 'x', 'gain', 'rows', 'columns', 'eps'],
  layerNormWeightGrad: ['dgain', 'dbias', 'dy', 'x', 'rows', 'columns', 'eps'],
  rmsNorm: ['y', 'x', 'gain', 'rows', 'columns', 'eps'],
  rmsNormInputGrad: ['dx', 'dy', 'x', 'gain', 'rows', 'columns', 'eps'],
  rmsNormWeightGrad: ['dgain', 'dy', 'x', 'rows', 'columns', 'eps'],
  /** x [batch seq heads headDim]; position = origin + s. */
  rope: ['y', 'x', 'batch', 'seq', 'heads', 'headDim', 'theta', 'inverse', 'origin'],
  /** q, out [batch seq kvHeads group headDim]; k, v [batch seq kvHeads headDim]; lse [batch seq kvHeads group]. window 0: all. */
  attention: [
    'out',
    'lse',
    'q',
    'k',
    'v',
    'batch',
    'seq',
    'kvHeads',
    'group',
    'headDim',
    'window',
    'rate',
    'seed',
    'name',
    'step',
    'batchOrigin',
    'headOrigin',
    'groupOrigin',
    'heads',
    'groups',
  ],
  attentionGrad: [
    'dq',
    'dk',
    'dv',
    'dout',
    'q',
    'k',
    'v',
    'out',
    'lse',
    'batch',
    'seq',
    'kvHeads',
    'group',
    'headDim',
    'window',
    'rate',
    'seed',
    'name',
    'step',
    'batchOrigin',
    'headOrigin',
    'groupOrigin',
    'heads',
    'groups',
  ],
  /**
   * Mask by counter: element (i0 i1 i2), local sizes n0 n1 n2 (rows of one dense run each), has global index
   * base + i0 * stride0 + i1 * stride1 + i2. seed and name are 32-bit keys of philox4x32-10, step the third counter word.
   */
  dropout: ['y', 'x', 'n0', 'n1', 'n2', 'base', 'stride0', 'stride1', 'rate', 'seed', 'name', 'step'],
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
  fill: ['out', 'n', 'value'],
  accumulate: ['out', 'x', 'n'],
  sumSquares: ['out', 'x', 'n'],
  /** clip 0: never. lr and step are read from scalars in memory. */
  adamw: ['param', 'm', 'v', 'grad', 'normSquared', 'lr', 'step', 'n', 'beta1', 'beta2', 'eps', 'weightDecay', 'clip'],
  /** m 0: no momentum. */
  sgd: ['param', 'm', 'grad', 'normSquared', 'lr', 'n', 'momentum', 'weightDecay', 'clip'],
  /** rows runs of `columns` elements, from stride to stride. */
  copy: ['out', 'x', 'rows', 'columns', 'strideOut', 'strideX'],

  /**
   * Collectives. `sync` is the group's block: a line of 64 bytes for who sleeps, then one line per member with two i32
   * counters of meetings, arrived and left (see kernels/sync.c). `start` publishes that this member's operand is ready;
   * the wait that follows does the work. Meetings count from 1; the counters are cleared between steps.
   * Operands of all members are listed as offsets at the end of the wait command, in group order: [... x0 x1 ... out0 out1 ...].
   * A result offset below 0 is nobody's.
   */
  start: ['sync', 'me', 'members', 'meeting'],
  /**
   * Sum (combine 0), max (1), product (2), min (3) or mean (4) of n elements in member order; dtype 0 f32, 1 f64, 2 bf16,
   * 3 f16, 4 i32. In place allowed.
   */
  waitAllReduce: ['sync', 'me', 'members', 'meeting', 'n', 'combine', 'dtype', '...x', '...out'],
  /** out is `outer` rows of members * `inner` bytes; member i's part is `outer` rows of `inner` bytes. */
  waitAllGather: ['sync', 'me', 'members', 'meeting', 'outer', 'innerBytes', '...x', '...out'],
  /** x is `outer` rows of members * `inner` elements; this member gets the sum of part `me`. */
  waitReduceScatter: ['sync', 'me', 'members', 'meeting', 'outer', 'inner', 'combine', 'dtype', '...x', '...out'],
  /**
   * A piece is [outer first middle second inner]. Operands hold all members' pieces side by side along first (cutFirst 1)
   * or second (0), results along the other: piece p of member q's operand goes to place q of member p's result.
   */
  waitAllToAll: [
    'sync',
    'me',
    'members',
    'meeting',
    'outer',
    'first',
    'middle',
    'second',
    'innerBytes',
    'cutFirst',
    '...x',
    '...out',
  ],
  /**
   * Messages. sync is one line of i32: counters of messages sent, of receives that are ready, taken and copied, then the
   * bell; at byte 32 two f64 where sender and receiver may say where x and out lie. Whoever waits first once both have
   * started copies, so a sender needs its receiver to be ready, not to wait.
   */
  send: ['sync', 'meeting'],
  /** x or out below 0: the offset that is in the line. */
  waitRecv: ['sync', 'meeting', 'out', 'x', 'bytes'],
  waitSend: ['sync', 'meeting', 'out', 'x', 'bytes'],
  /** Everybody has come: what ranks did before it is seen by all after it. */
  barrier: ['sync', 'me', 'members', 'meeting'],
  copyBytes: ['out', 'x', 'bytes'],
  recv: ['sync', 'meeting'],
  /**
   * Several tensors at one meeting: `how` 0 all-reduce, 1 reduce-scatter, 2 all-gather of parts of a line. For each pair:
   * elements of a part and of the whole, then the operands of all members and their results, as above. An all-reduce is
   * cut in parts too, which its members sum up for all.
   */
  waitSeveral: ['sync', 'me', 'members', 'meeting', 'how', 'combine', 'dtype', 'pairs', '...tensors'],
} as const satisfies Record<string, readonly string[]>

export type CommandName = keyof typeof commands
export const commandNames = Object.keys(commands) as CommandName[]
export const opcodes = Object.fromEntries(commandNames.map((name, i) => [name, i])) as Record<CommandName, number>

/**
 * A rank's status block, i32 words: where it is, and what it holds. `waitingFor` is 1 + the member (of a group) it misses,
 * 0 when it does not wait; `done` is written by the rank's thread: the step it has finished. At byte 64 f64 follow:
 * live bytes of the six kinds, then their peaks.
 */
export const Status = {
  command: 0,
  error: 1,
  waitingFor: 2,
  spans: 3,
  done: 4,
  live: 64,
  bytes: 64 + 6 * 8 * 2,
} as const

/** What exec returns, as in kernels.h. */
export const errors = ['ok', 'aborted', 'timeout', 'unknown', 'workspace'] as const
