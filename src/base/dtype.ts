/**
 * What numbers are stored in: one table. Its order is their code in C (kernels/commands.h), and the names that PyTorch and
 * safetensors have for them are written from it too (emit/runtime/dtypes.py).
 */
export const elementTypes = ['f32', 'f64', 'bf16', 'f16', 'i32', 'i8'] as const
export type ElementType = (typeof elementTypes)[number]

export interface ElementFacts {
  readonly bytes: number
  /** A real number, which has digits to lose; else a whole one. */
  readonly real: boolean
  /** PyTorch's tensors of it: whole numbers are indices there. */
  readonly torch: string
  /** In the header of a safetensors file. */
  readonly safetensors: string
}

export const elementFacts: Readonly<Record<ElementType, ElementFacts>> = {
  f32: { bytes: 4, real: true, torch: 'float32', safetensors: 'F32' },
  f64: { bytes: 8, real: true, torch: 'float64', safetensors: 'F64' },
  bf16: { bytes: 2, real: true, torch: 'bfloat16', safetensors: 'BF16' },
  f16: { bytes: 2, real: true, torch: 'float16', safetensors: 'F16' },
  i32: { bytes: 4, real: false, torch: 'int64', safetensors: 'I64' },
  i8: { bytes: 1, real: false, torch: 'int8', safetensors: 'I8' },
}

/** What the buffers of a program are in. */
export const dtypes = ['f32', 'bf16', 'f16', 'i32', 'i8'] as const satisfies readonly ElementType[]
export type DType = (typeof dtypes)[number]

export const bytesPer = Object.fromEntries(dtypes.map(dtype => [dtype, elementFacts[dtype].bytes])) as Readonly<
  Record<DType, number>
> // every dtype is there

export const realDtypes: readonly DType[] = dtypes.filter(dtype => elementFacts[dtype].real)
