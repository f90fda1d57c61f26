/**
 * What a plan may do beside the usual, where a user allows it: it changes results, or needs more than devices. Every combination
 * is a search of its own, whose plans all do it (allowed.ts).
 */
import type { Split } from '../estimate/index.js'
import type { Away } from './aways.js'
import type { ExtraName } from './extra-names.js'
import type { Group } from './space.js'

export type Extras = Pick<Split, 'wire' | 'fp8'> & Away

interface ExtraFacts {
  readonly words: string
  readonly extras: Extras
  /** Whether it is of use to the plans of a group. */
  readonly isOfUse: (group: Pick<Group, 'dp' | 'cp'>) => boolean
}

export const extraFacts: Readonly<Record<ExtraName, ExtraFacts>> = {
  compress: {
    words: 'gradients are summed over data ranks, and ZeRO-3 gathers parameters, in bf16',
    extras: { wire: { reduce: 'bf16', gather: 'bf16' } },
    isOfUse: ({ dp, cp }) => dp * cp > 1,
  },
  offload: {
    words:
      'states of the optimizer, parts of parameters (ZeRO-3), what layers hand to each other live on the host, or on a disk where it has no room',
    extras: { offload: 'host' },
    isOfUse: () => true,
  },
  fp8: {
    words: 'products of linear layers read 8-bit codes',
    extras: { fp8: 'current' },
    isOfUse: () => true,
  },
}

/** `away`: what lives elsewhere, where that is not the usual. */
export const extrasOf = (names: readonly ExtraName[], away?: Away): Extras =>
  Object.assign({}, ...names.map(name => (name === 'offload' && away) || extraFacts[name].extras))

export const areOfUse = (names: readonly ExtraName[], group: Pick<Group, 'dp' | 'cp'>): boolean =>
  names.every(name => extraFacts[name].isOfUse(group))

/** What a plan does beside the usual, in words that fit in a cell. */
export const extraWords = ({ wire, fp8, ...away }: Extras): string[] => [
  ...(wire ? ['compress'] : []),
  ...awayWords(away),
  ...(fp8 ? ['fp8'] : []),
]

/** Of states on the host nothing more is said. */
function awayWords({ offload, lifted, waiting }: Away): string[] {
  if (!offload && !lifted && !waiting) return []
  const parts = Object.entries({ states: offload, parameters: lifted, carries: waiting })
  const words = parts.flatMap(([what, space]) => (space ? [space === 'disk' ? `${what}@disk` : what] : []))
  return [words.join() === 'states' ? 'offload' : `offload:${words.join('+')}`]
}
