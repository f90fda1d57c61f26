/** How FLOP/s are counted, in one line: what commands say beside them (flops.ts counts). */
export const flopsDefinition = '6 x parameters + 12 x layers x heads x headDim x seq for each token'

/** The same, of a run that trains adapters alone. */
export const adapterFlopsDefinition = flopsDefinition.replace(
  '6 x parameters',
  '4 x frozen parameters + 6 x those of adapters',
)

interface Counted {
  /** Only adapters are trained. */
  readonly adapters: boolean
  /** A token sees a window, or its own document. */
  readonly limited: boolean
}

/** The one of a run. */
export function flopsDefinitionOf({ adapters, limited }: Counted): string {
  const definition = adapters ? adapterFlopsDefinition : flopsDefinition
  return limited ? definition.replace('x seq for', 'x twice the tokens seen for') : definition
}
