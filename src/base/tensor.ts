/** What a tensor is made of and starts from, for the model's graph and the program alike. */
export type DType = 'f32' | 'bf16' | 'i32'

export type Init =
  | { readonly kind: 'normal'; readonly std: number }
  | { readonly kind: 'zeros' }
  | { readonly kind: 'ones' }
