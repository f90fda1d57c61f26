/** The data inputs of a program, over the whole global batch. */
import type { Dim } from '../base/index.js'
import type { DType, Program } from '../ir/index.js'
import { acrossMicrobatches } from './tensor.js'

export interface InputShape {
  readonly name: string
  readonly dtype: DType
  readonly dims: readonly Dim[]
  /** Of positions: documents start at multiples of this number of tokens. */
  readonly every?: number
}

/** The shapes of a program's inputs over the global batch. */
export const inputsOf = ({ inputs, microbatches }: Program): InputShape[] =>
  inputs.map(({ name, dtype, dims, every }) => ({
    ...{ name, dtype, dims: acrossMicrobatches(dims, microbatches) },
    ...(every !== undefined && { every }),
  }))

export function wholeInput(program: Program, name: string): readonly Dim[] {
  const input = inputsOf(program).find(input => input.name === name)
  if (!input) throw new Error(`there is no input ${name}`)
  return input.dims
}
