/**
 * What a plan may do beside the usual, where a user allows it: it changes results, or needs more than devices. Every combination
 * is a search of its own, whose plans all do it (allowed.ts).
 */
import type { Split } from '../estimate/index.js'
import type { Fp8Recipe } from '../plan/index.js'
import type { Away } from './aways.js'
import type { ExtraName } from './extra-names.js'
import type { Request } from './request.js'
import type { Group } from './space.js'

/** Scales that are searched one by one; those of MX are for GPUs that multiply them. */
export const searchedRecipes = ['current', 'delayed', 'blocks'] as const satisfies readonly Fp8Recipe[]

export type Extras = Pick<Split, 'wire' | 'fp8'> & Away

interface ExtraFacts {
  readonly words: string
  readonly extras: Extras
  /** Whether it is of use to the plans of a group. */
  readonly isOfUse: (group: Pick<Group, 'dp' | 'cp'>) => boolean
}

export const extraFacts: Readonly<Record<ExtraName, ExtraFacts>> = {
  compress: {
    words: 'bf16 compression of data-parallel gradient reductions and of ZeRO-3 parameter all-gathers',
    extras: { wire: { reduce: 'bf16', gather: 'bf16' } },
    isOfUse: ({ dp, cp }) => dp * cp > 1,
  },
  offload: {
    words:
      'offload of optimizer state, parameter shards (ZeRO-3) and layer activations to the host, or to a disk if the host memory is too small',
    extras: { offload: 'host' },
    isOfUse: () => true,
  },
  fp8: {
    words: `FP8 matmuls in linear layers, with the recipes ${searchedRecipes.join(', ')}`,
    extras: { fp8: 'current' },
    isOfUse: () => true,
  },
}

/** `away`: what lives elsewhere, and `recipe`: what codes are scaled by, where that is not the usual. */
export function extrasOf(names: readonly ExtraName[], { away, recipe }: Pick<Request, 'away' | 'recipe'> = {}): Extras {
  const own: Partial<Record<ExtraName, Extras | undefined>> = { offload: away, fp8: recipe && { fp8: recipe } }
  return Object.assign({}, ...names.map(name => own[name] ?? extraFacts[name].extras))
}

export const areOfUse = (names: readonly ExtraName[], group: Pick<Group, 'dp' | 'cp'>): boolean =>
  names.every(name => extraFacts[name].isOfUse(group))

/** What a plan does beside the usual, in words that fit in a cell. */
export const extraWords = ({ wire, fp8, ...away }: Extras): string[] => [
  ...(wire ? ['compress'] : []),
  ...awayWords(away),
  ...(fp8 ? [fp8 === 'current' ? 'fp8' : `fp8:${fp8}`] : []),
]

/** Of states on the host nothing more is said. */
function awayWords({ offload, lifted, waiting }: Away): string[] {
  if (!offload && !lifted && !waiting) return []
  const parts = Object.entries({ states: offload, parameters: lifted, carries: waiting })
  const words = parts.flatMap(([what, space]) => (space ? [space === 'disk' ? `${what}@disk` : what] : []))
  return [words.join() === 'states' ? 'offload' : `offload:${words.join('+')}`]
}
