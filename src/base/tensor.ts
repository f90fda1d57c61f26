/** What a parameter starts from, for the model's graph and the program alike. */
export type Init =
  | { readonly kind: 'normal'; readonly std: number }
  /** Evenly between -bound and bound. */
  | { readonly kind: 'uniform'; readonly bound: number }
  | { readonly kind: 'zeros' }
  | { readonly kind: 'ones' }

/** The number that belongs to the kind, where there is one. */
export const initNumber = (init: Init): number | undefined =>
  init.kind === 'normal' ? init.std : init.kind === 'uniform' ? init.bound : undefined
