/**
 * A feed-forward layer that is routed: every token chooses a few experts, each of which is a small feed-forward layer. The
 * tokens of one expert become rows that follow each other; a row's weight is multiplied in between the two products of its
 * expert, so that nobody needs to keep what experts give. Everything about the choice is in f32.
 */
import type { ChoiceGroups, Op } from '../base/index.js'
import { normal } from './builder.js'
import type { MoeConfig } from './config.js'
import type { Value } from './graph.js'
import { type LlamaBlock, type LlamaDim, placedIn } from './transformer.js'

/** What one step is: losses are means over its sequences, its microbatches or its tokens. */
export interface StepShape {
  /** Of one microbatch. */
  readonly batch: number
  readonly seq: number
  readonly microbatches: number
  /** Choices are data, of each routed layer, instead of made: `layers.3.choices`. */
  readonly replays?: boolean
  readonly documents?: DocumentsShape
}

/** A sequence holds several documents: where tokens stand in theirs is data, `positions`. */
export interface DocumentsShape {
  /** Documents begin at multiples of so many tokens. */
  readonly every?: number
  /** Tokens do not lie in the order in which they follow each other: which lies where is data, `order`. */
  readonly ordered?: boolean
}

const small = normal(0.02)
const perToken: readonly LlamaDim[] = ['batch', 'seq', 'candidate']
const perChoice: readonly LlamaDim[] = ['batch', 'seq', 'choice']

/** The sizes of dims that routed layers have. Rows: one for each choice of a microbatch. */
export const expertSizes = ({ experts, topK, ffn, shared = 0 }: MoeConfig, { batch, seq }: StepShape) => ({
  ...{ candidate: experts, expert: experts, choice: topK, row: batch * seq * topK },
  ...{ expertFfn: ffn, sharedFfn: shared },
})

export function routed(b: LlamaBlock, x: Value, c: MoeConfig, step: StepShape): Value {
  const logits = b.wide(
    b.contract(x, b.param('mlp.router', ['embed', 'candidate'], small, { role: 'router' }), perToken, 'logits'),
  )
  const [scores] = b.emit({ kind: 'scores', by: c.scores }, [logits], 'scores')
  const choice = choose(b, scores, c, step)
  addTerms(b, { logits, scores }, c, step)
  const kept = keep(b, scores, choice, c, step)
  const weighing = { normalise: c.normalize, scale: c.scale }
  const weighed = c.capacity?.renormalize ? kept : choice
  const [weight] = b.emit({ kind: 'chosen', ...weighing }, [scores, weighed], 'weight')
  const out = work(b, x, kept, weight)
  return c.shared === undefined ? out : b.add(out, shared(b, x, c))
}

function choose(b: LlamaBlock, scores: Value, c: MoeConfig, step: StepShape): Value {
  const { batch, seq, microbatches, replays } = step
  const { bias: rate, experts, topK, groups = 1, topKGroups = groups } = c
  const limits: { groups?: ChoiceGroups } = groups > topKGroups ? { groups: { groups, chosenGroups: topKGroups } } : {}
  const made = (...bias: Value[]) =>
    replays
      ? b.ownInput('choices', perChoice, 'i32')
      : b.emit({ kind: 'topK', ...limits }, [scores, ...bias], 'choice', perChoice)[0]
  if (rate === undefined) return made()
  const mean = (batch * seq * microbatches * topK) / experts
  const choice = made(b.balanced('mlp.bias', ['candidate'], { rate, mean }))
  b.follow('mlp.bias', b.emit({ kind: 'countChoices' }, [choice], 'load', ['candidate'])[0])
  return choice
}

/** Counts have no gradient: what is balanced is how much probability meets how many choices. */
function addTerms(b: LlamaBlock, of: { logits: Value; scores: Value }, c: MoeConfig, step: StepShape): void {
  const { sequence = 0, microbatch = 0, z = 0 } = c.loss ?? {}
  const { batch, seq, microbatches } = step
  const shares = c.scores === 'sigmoid'
  const balance = (within: readonly LlamaDim[], tokens: number, by: number) => {
    const [counts] = b.emit({ kind: 'countTop', chosen: c.topK }, [of.scores], 'tops', within)
    const even = (by * c.experts) / (c.topK * tokens ** 2)
    b.term(b.emit({ kind: 'balanceLoss', by: even, shares }, [of.scores, counts], 'balance')[0])
  }
  if (sequence > 0) balance(['batch', 'candidate'], seq, sequence / (batch * microbatches))
  if (microbatch > 0) balance(['candidate'], batch * seq, microbatch / microbatches)
  if (z > 0) b.term(b.emit({ kind: 'zLoss', by: z / (batch * seq * microbatches) }, [of.logits], 'z')[0])
}

/** The choices for which there is room: all, where no capacity says otherwise. Who comes first goes by tokens, wherever they lie. */
function keep(b: LlamaBlock, scores: Value, choice: Value, c: MoeConfig, step: StepShape): Value {
  if (!c.capacity) return choice
  const { room, tokens } = roomOf(c, step.seq)
  const { order } = placedIn(b, step)
  const op: Op = { kind: 'assign', room, tokens, order: c.capacity.order }
  return b.emit(op, order ? [scores, choice, order] : [scores, choice], 'kept')[0]
}

/** How many choices of how many tokens an expert takes. */
export function roomOf({ experts, topK, capacity }: MoeConfig, seq: number): { room: number; tokens: number } {
  const { factor, least, group } = capacity ?? { factor: experts, least: 0, group: 'sequence' as const }
  const tokens = group === 'sequence' ? seq : group
  return { room: Math.max(least, Math.ceil(((tokens * topK) / experts) * factor)), tokens }
}

function work(b: LlamaBlock, x: Value, kept: Value, weight: Value): Value {
  const routes = b.emit({ kind: 'rowsOf', guarded: false }, [kept], 'routes', perChoice, ['row'], ['expert'])
  const counts = routes[2]
  const [rows] = b.emit({ kind: 'dispatch' }, [x, ...routes], 'rows', ['row', 'embed'])
  const [weights] = b.emit({ kind: 'dispatch' }, [weight, ...routes], 'weights', ['row'])
  const product = (rows: Value, name: string, [from, to]: readonly [LlamaDim, LlamaDim]) => {
    const w = b.param(`mlp.experts.${name}`, ['expert', from, to], small)
    return b.emit({ kind: 'expertContract' }, [rows, counts, w], name, ['row', to])[0]
  }
  const [gate, up] = ['gate', 'up'].map(name => product(rows, name, ['embed', 'expertFfn']))
  const [inner] = b.emit({ kind: 'weightedSwiglu' }, [gate, up, weights], 'weighted')
  const down = product(inner, 'down', ['expertFfn', 'embed'])
  return b.emit({ kind: 'combine' }, [down, ...routes], 'combined', ['batch', 'seq', 'embed'])[0]
}

/** What every token sees, as a layer that is not routed would. */
function shared(b: LlamaBlock, x: Value, { sharedGate }: MoeConfig): Value {
  const product = (of: Value, name: string, [from, to]: readonly [LlamaDim, LlamaDim]) =>
    b.contract(of, b.param(`mlp.shared.${name}`, [from, to], small), ['batch', 'seq', to], name)
  const [gate, up] = ['gate', 'up'].map(name => product(x, name, ['embed', 'sharedFfn']))
  const down = product(b.swiglu(gate, up), 'down', ['sharedFfn', 'embed'])
  if (!sharedGate) return down
  const open = b.contract(x, b.param('mlp.shared.open', ['embed'], small, { role: 'router' }), ['batch', 'seq'], 'open')
  return b.mul(down, b.emit({ kind: 'sigmoid' }, [open], 'opened')[0])
}
