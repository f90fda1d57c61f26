/** What a parameter starts from, for the model's graph and the program alike. */
export type Init =
  | { readonly kind: 'normal'; readonly std: number }
  | { readonly kind: 'zeros' }
  | { readonly kind: 'ones' }
