/**
 * Where adapters alone are trained, elements a token has on one rank for the sake of gradients of weights: what meets an adapter, what its
 * narrow side makes, and the gradient of what it gives. What would be kept for the matrices that are frozen is not.
 */
import { routedWidths } from '../experts.js'
import type { Placed } from '../setup.js'
import { attendedWidths } from './attended.js'
import type { Widths } from './stash.js'

/** What matrices are multiplied with. */
type Given = 'norm1' | 'queries' | 'keys' | 'results' | 'norm2' | 'inner' | 'rows' | 'hidden'

/** A matrix with an adapter: what it is multiplied with, the width of what it makes, and how many rows it has of a token. */
interface Adapted {
  readonly given: Given
  readonly made: number
  readonly rows: number
}

export interface AdaptedStash {
  /** Of what a layer keeps otherwise, what nobody reads, less what adapters keep. */
  readonly spared: number
  /** Between the two halves of a backward pass; and of that what the first half makes. */
  readonly pending: number
  readonly left: number
}

export function adaptedStash(placed: Placed, w: Widths): AdaptedStash | undefined {
  const { adapters } = placed.shape
  if (!adapters) return undefined
  const widths = givenWidths(placed, w)
  const adapted = adapters.targets.flatMap(target => adaptedBy(placed, w, target))
  const read = new Set(adapted.map(({ given }) => given))
  const total = (names: readonly Given[]) => names.reduce((sum, name) => sum + widths[name], 0)
  const narrow = adapters.rank * adapted.reduce((sum, { rows }) => sum + rows, 0)
  const unread = (Object.keys(widths) as Given[]).filter(name => name !== 'results' && !read.has(name)) // its own keys
  const left = adapted.reduce((sum, { made }) => sum + made, 0) + narrow
  return { spared: total(unread) - narrow, pending: total([...read]) + left + narrow, left }
}

/** Of these matrices, which are multiplied with the same, those with adapters: each adds to the gradient of that. */
export const addends = ({ adapters }: Placed['shape'], targets: readonly Target[]): number =>
  targets.filter(target => adapters?.targets.includes(target)).length

function givenWidths({ shape, split }: Placed, w: Widths): Readonly<Record<Given, number>> {
  const { latent, experts } = shape
  const own = w.residual / w.whole
  const routed = experts && routedWidths(shape, split, experts)
  return {
    ...{ norm1: w.residual, queries: own * (latent?.queries ?? 0), keys: own * (latent?.keyValues ?? 0) },
    ...{ results: attendedWidths(shape, split.tp).results, norm2: w.residual },
    ...{ inner: routed?.shared ?? shape.ffn / split.tp, rows: routed?.given ?? 0, hidden: routed?.hidden ?? 0 },
  }
}

type Target = NonNullable<Placed['shape']['adapters']>['targets'][number]

function adaptedBy(placed: Placed, w: Widths, target: Target): readonly Adapted[] {
  const of = (given: Given, made: number, rows = 1): Adapted => ({ given, made, rows })
  if (target === 'out') return [of('results', w.residual)]
  if (target === 'q' || target === 'k' || target === 'v') return attending(placed, w, target)
  const { shape, split } = placed
  const routed = shape.experts && routedWidths(shape, split, shape.experts)
  const inner = routed?.shared ?? shape.ffn / split.tp
  const [given, made] = target === 'down' ? (['inner', w.residual] as const) : (['norm2', inner] as const)
  const common = inner > 0 ? [of(given, made)] : []
  if (!routed) return common
  const ofExperts = target === 'down' ? of('hidden', routed.given, routed.rows) : of('rows', routed.hidden, routed.rows)
  return [...common, ofExperts]
}

function attending({ shape, split }: Placed, w: Widths, target: 'q' | 'k' | 'v'): readonly Adapted[] {
  const { latent, heads } = shape
  const of = (given: Given, made: number): Adapted => ({ given, made, rows: 1 })
  const { queries, keys, values } = attendedWidths(shape, split.tp)
  if (!latent) return [of('norm1', target === 'q' ? queries : target === 'k' ? keys : values)]
  const [own, each] = [w.residual / w.whole, heads / split.tp]
  if (target === 'v') return [of('keys', values)]
  if (target === 'k')
    return [of('norm1', own * latent.keyValues), of('keys', each * latent.plain), of('norm1', own * latent.turned)]
  const from = latent.queries ? 'queries' : 'norm1'
  const asked = [of(from, each * latent.plain), of(from, each * latent.turned)]
  return latent.queries ? [of('norm1', own * latent.queries), ...asked] : asked
}
