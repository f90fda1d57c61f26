/** Which choices of experts have room, beside Megatron-LM, DeepSpeed and Switch Transformers in f64 (test/fixtures/README.md). */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import type { Dim } from '../src/base/index.js'
import { ModelConfig, roomOf } from '../src/model/index.js'
import { read, tensor } from './experts-fixtures.js'
import { close, type FixtureTensor } from './fixtures.js'
import { apply } from './op-cases.js'
import type { Tensor } from './tiny.js'

type Order = 'probability' | 'token' | 'choice'
type Route = readonly [token: number, expert: number, weight: number]

/** What Megatron keeps of tokens that share the room. */
interface Kept {
  readonly policy: 'probs'
  readonly pad_to_capacity: boolean
  readonly capacity_factor: number
  readonly topk: number
  readonly capacity: number
  readonly kept: readonly Route[]
  readonly dropped: number
}

interface Gate {
  readonly gate: 'top2gating' | 'topkgating'
  readonly settings: {
    readonly k?: number
    readonly capacity_factor: number
    readonly drop_policy?: 'probs' | 'position'
  }
  readonly l_aux: number
  readonly capacity: number
  readonly counts_before_dropping: readonly number[]
  readonly routes: readonly (readonly [token: number, expert: number, slot: number, weight: number])[]
}

interface Dropping {
  readonly logits: FixtureTensor
  readonly per_sequence: readonly {
    readonly sequence: number
    readonly megatron_probs: Kept
    readonly position_kept: readonly (readonly [token: number, expert: number])[]
    readonly deepspeed: readonly Gate[]
  }[]
  readonly per_microbatch: readonly Kept[]
  readonly per_half_sequence: readonly (readonly Kept[])[]
  readonly hf_switch_router: {
    readonly x: FixtureTensor
    readonly router: FixtureTensor
    readonly logits: FixtureTensor
    readonly expert_capacity_per_sequence: number
    readonly kept_onehot: FixtureTensor
    readonly prob: FixtureTensor
  }
}

const dropping = read<Dropping>('dropping')
const all = tensor(dropping.logits, 'batch seq expert', 'batch seq candidate')
const [batch, seq, candidate] = all.dims

/** Scores of some of the tokens, one after the other. */
function scoresOf(logits: Tensor, first: number, tokens: number): Tensor {
  const [{ size }] = logits.dims.slice(-1)
  const dims: Dim[] = [{ name: 'seq', size: tokens }, logits.dims.at(-1)!]
  const values = Array.from(logits.values).slice(first * size, (first + tokens) * size)
  return apply({ kind: 'scores', by: 'softmax' }, [{ dims, values }], dims)[0]
}

/** The choices of each token, and those for which there is room (-1 for the others), with weights. */
function kept(scores: Tensor, topk: number, room: number, order: Order, normalise: boolean) {
  const [tokens] = scores.dims
  const perChoice = [tokens, { name: 'choice', size: topk }]
  const [choice] = apply({ kind: 'topK' }, [scores], perChoice)
  const [left] = apply({ kind: 'assign', room, tokens: tokens.size, order }, [scores, choice], perChoice)
  const [weight] = apply({ kind: 'chosen', normalise, scale: 1 }, [scores, left], perChoice)
  return { choice, left, weight, topk }
}

/** Token, expert and weight of what is kept, in the order of tokens and experts. */
const routesOf = ({ left, weight, topk }: ReturnType<typeof kept>): number[][] =>
  Array.from(left.values)
    .flatMap((expert, i) => (expert < 0 ? [] : [[Math.floor(i / topk), expert, weight.values[i]]]))
    .sort((a, b) => a[0] - b[0] || a[1] - b[1])

function sameRoutes(ours: readonly number[][], theirs: readonly Route[]): void {
  deepEqual(
    ours.map(([token, expert]) => [token, expert]),
    theirs.map(([token, expert]) => [token, expert]),
  )
  close(
    ours.map(([, , weight]) => weight),
    theirs.map(([, , weight]) => weight),
    'weights',
  )
}

/** The room our models give an expert. */
function roomFor(tokens: number, topK: number, factor: number): number {
  const sizes = { family: 'llama', layers: 1, embed: 4, heads: 2, ffn: 4, vocab: 4 } as const
  const moe = { experts: candidate.size, topK, ffn: 4, capacity: { factor } }
  const config = ModelConfig.parse({ ...sizes, moe })
  if (config.family !== 'llama' || !config.moe) throw new Error('a model with experts')
  return roomOf(config.moe, tokens).room
}

/** Tokens that share the room: sequences, microbatches, halves of sequences. */
const shared: readonly (readonly [what: string, tokens: number, readonly Kept[]])[] = [
  ['sequence', seq.size, dropping.per_sequence.map(({ megatron_probs }) => megatron_probs)],
  ['microbatch', batch.size * seq.size, dropping.per_microbatch],
  ['half of a sequence', seq.size / 2, dropping.per_half_sequence.flat()],
]
for (const [what, tokens, parts] of shared)
  test(`experts keep the likeliest tokens of each ${what} that Megatron keeps`, () => {
    const count = (batch.size * seq.size) / tokens
    for (const [i, theirs] of parts.entries()) {
      const { topk, capacity, capacity_factor, policy, pad_to_capacity, dropped } = theirs
      equal(policy, 'probs')
      const part = i % count // a microbatch again, padded
      equal(capacity, roomFor(tokens, topk, capacity_factor))
      const ours = routesOf(kept(scoresOf(all, part * tokens, tokens), topk, capacity, 'probability', false))
      // What fills an expert up has no weight.
      sameRoutes(
        ours,
        theirs.kept.filter(([, , weight]) => !pad_to_capacity || weight > 0),
      )
      if (pad_to_capacity) equal(theirs.kept.length, capacity * candidate.size)
      equal(tokens * topk - ours.length, dropped)
    }
  })

for (const [index, { sequence, megatron_probs, position_kept, deepspeed }] of dropping.per_sequence.entries()) {
  const scores = scoresOf(all, index * seq.size, seq.size)

  test(`sequence ${sequence}: experts keep the first tokens for which there is room`, () => {
    equal(sequence, index)
    const ours = routesOf(kept(scores, megatron_probs.topk, megatron_probs.capacity, 'token', false))
    deepEqual(
      ours.map(([token, expert]) => [token, expert]),
      position_kept,
    )
  })

  for (const { gate, settings, capacity, counts_before_dropping, l_aux, routes } of deepspeed) {
    const policy = gate === 'top2gating' ? 'choice' : settings.drop_policy!
    test(`sequence ${sequence}: ${gate} of DeepSpeed by ${policy}`, () => {
      const order = ({ choice: 'choice', probs: 'probability', position: 'token' } as const)[policy]
      const topk = settings.k ?? 2
      equal(capacity, roomFor(seq.size, topk, settings.capacity_factor))
      const ours = kept(scores, topk, capacity, order, true)
      sameRoutes(
        routesOf(ours),
        routes.map(([token, expert, , weight]) => [token, expert, weight]),
      )
      const counts = apply({ kind: 'countChoices' }, [ours.choice], [candidate])[0]
      deepEqual(Array.from(counts.values), counts_before_dropping)
      deepEqual(
        slotsOf(ours, order).sort((a, b) => a[0] - b[0] || a[1] - b[1]),
        routes.map(([token, expert, slot]) => [token, expert, slot]),
      )
      // Top-2 balances first choices only.
      const balanced = gate === 'top2gating' ? 1 : topk
      const [tops] = apply({ kind: 'countTop', chosen: balanced }, [scores], [candidate])
      const by = candidate.size / (balanced * seq.size ** 2)
      close(apply({ kind: 'balanceLoss', by, shares: false }, [scores, tops], [])[0].values, [l_aux], 'balance')
    })
  }
}

/** Rows of what is kept within its expert: first choices before second ones, or token after token. */
function slotsOf({ choice, left, topk }: ReturnType<typeof kept>, order: Order): number[][] {
  const token = (at: number) => Math.floor(at / topk)
  const places = Array.from(left.values, (_, at) => at)
  if (order === 'choice') places.sort((a, b) => (a % topk) - (b % topk) || token(a) - token(b))
  const taken = new Map<number, number>()
  return places.flatMap(at => {
    // Top-2 counts first choices that were dropped, too.
    const expert = order === 'choice' ? choice.values[at] : left.values[at]
    const slot = taken.get(expert) ?? 0
    taken.set(expert, slot + 1)
    return left.values[at] < 0 ? [] : [[token(at), expert, slot]]
  })
}

test('experts keep the first tokens of each sequence that the router of Switch Transformers keeps', () => {
  const { hf_switch_router: theirs } = dropping
  const x = tensor(theirs.x, 'batch seq embed')
  const router = tensor(theirs.router, 'expert embed', 'candidate embed')
  const perToken = [x.dims[0], x.dims[1], router.dims[0]]
  const [logits] = apply({ kind: 'contract' }, [x, router], perToken)
  close(logits.values, tensor(theirs.logits, 'batch seq expert').values, 'logits')
  const [sequences, tokens] = x.dims.map(({ size }) => size)
  const parts = Array.from({ length: sequences }, (_, part) =>
    kept(scoresOf(logits, part * tokens, tokens), 1, theirs.expert_capacity_per_sequence, 'token', false),
  )
  deepEqual(
    parts.flatMap(({ left }) =>
      Array.from(left.values).flatMap(expert =>
        Array.from({ length: router.dims[0].size }, (_, e) => Number(e === expert)),
      ),
    ),
    tensor(theirs.kept_onehot, 'batch seq expert').values,
  )
  const heaviest = Array.from({ length: sequences }, (_, part) =>
    kept(scoresOf(logits, part * tokens, tokens), 1, tokens, 'token', false),
  )
  close(
    heaviest.flatMap(({ weight }) => Array.from(weight.values)),
    tensor(theirs.prob, 'batch seq').values,
    'probability',
  )
})
