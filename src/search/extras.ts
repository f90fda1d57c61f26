/**
 * What a plan may do beside the usual, where a user allows it: it changes results, or needs more than devices. Every combination
 * is a search of its own, whose plans all do it (allowed.ts).
 */
import type { Split } from '../estimate/index.js'
import type { Fp8Recipe } from '../plan/index.js'
import type { ExtraName } from './extra-names.js'
import type { Group } from './space.js'

/** Scales that are searched one by one; those of MX are for GPUs that multiply them. */
export const searchedRecipes = ['current', 'delayed', 'blocks'] as const satisfies readonly Fp8Recipe[]

export type Extras = Pick<Split, 'wire' | 'offload' | 'fp8'>

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
    words: 'optimizer state lives on the host, which updates parameters',
    extras: { offload: 'host' },
    isOfUse: () => true,
  },
  fp8: {
    words: `products of linear layers read 8-bit codes, with each of the recipes ${searchedRecipes.join(', ')}`,
    extras: { fp8: 'current' },
    isOfUse: () => true,
  },
}

export const extrasOf = (names: readonly ExtraName[], recipe?: Fp8Recipe): Extras => {
  const extras: Extras = Object.assign({}, ...names.map(name => extraFacts[name].extras))
  return extras.fp8 && recipe ? { ...extras, fp8: recipe } : extras
}

export const areOfUse = (names: readonly ExtraName[], group: Pick<Group, 'dp' | 'cp'>): boolean =>
  names.every(name => extraFacts[name].isOfUse(group))

/** What a plan does beside the usual, in words that fit in a cell. */
export const extraWords = ({ wire, offload, fp8 }: Extras): string[] => [
  ...(wire ? ['compress'] : []),
  ...(offload ? ['offload'] : []),
  ...(fp8 ? [fp8 === 'current' ? 'fp8' : `fp8:${fp8}`] : []),
]
