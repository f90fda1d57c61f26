/** How FLOP/s are counted, in one line: what commands say beside them (flops.ts counts). */
export const flopsDefinition = '6 x parameters + 12 x layers x heads x headDim x seq for each token'

/** The same, of a run that trains adapters alone. */
export const adapterFlopsDefinition = flopsDefinition.replace(
  '6 x parameters',
  '4 x frozen parameters + 6 x those of adapters',
)
