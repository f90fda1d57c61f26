/**
 * The element types of tensors. Their order is their code in C, and their PyTorch and safetensors names are generated
 * from this table.
 */
export const elementTypes = ['f32', 'f64', 'bf16', 'f16', 'i32', 'i8'] as const
/** The element type of a tensor, such as f32 or bf16. */
export type ElementType = (typeof elementTypes)[number]

/**
 * What products may be given in 8 bits: *codes*, which are numbers only together with the scale they were made with. Programs
 * store them; the engine has no kernels for them.
 */
export const codeTypes = ['f8e4m3', 'f8e5m2'] as const
export type CodeType = (typeof codeTypes)[number]

export interface CodeFacts {
  /** The greatest finite number. */
  readonly greatest: number
  /** Bits behind the point, and the exponent of the least normal number. */
  readonly fraction: number
  readonly least: number
  /** What numbers beyond the greatest are rounded to. */
  readonly beyond: number
}

export const codeFacts: Readonly<Record<CodeType, CodeFacts>> = {
  f8e4m3: { greatest: 448, fraction: 3, least: -6, beyond: 448 },
  f8e5m2: { greatest: 57344, fraction: 2, least: -14, beyond: Number.POSITIVE_INFINITY },
}

export interface ElementFacts {
  readonly bytes: number
  /** A real number, which has digits to lose; else a whole one, or a code. */
  readonly real: boolean
  /** PyTorch's tensors of it: whole numbers are indices there. */
  readonly torch: string
  /** In the header of a safetensors file. */
  readonly safetensors: string
}

export const elementFacts: Readonly<Record<ElementType | CodeType, ElementFacts>> = {
  f32: { bytes: 4, real: true, torch: 'float32', safetensors: 'F32' },
  f64: { bytes: 8, real: true, torch: 'float64', safetensors: 'F64' },
  bf16: { bytes: 2, real: true, torch: 'bfloat16', safetensors: 'BF16' },
  f16: { bytes: 2, real: true, torch: 'float16', safetensors: 'F16' },
  i32: { bytes: 4, real: false, torch: 'int64', safetensors: 'I64' },
  i8: { bytes: 1, real: false, torch: 'int8', safetensors: 'I8' },
  f8e4m3: { bytes: 1, real: false, torch: 'float8_e4m3fn', safetensors: 'F8_E4M3' },
  f8e5m2: { bytes: 1, real: false, torch: 'float8_e5m2', safetensors: 'F8_E5M2' },
}

/** What the buffers of a program are in. */
export const dtypes = ['f32', 'bf16', 'f16', 'i32', 'i8', ...codeTypes] as const satisfies readonly (
  | ElementType
  | CodeType
)[]
export type DType = (typeof dtypes)[number]

export const isCodeType = (dtype: DType): dtype is CodeType => dtype in codeFacts

export const bytesPer = Object.fromEntries(dtypes.map(dtype => [dtype, elementFacts[dtype].bytes])) as Readonly<
  Record<DType, number>
> // every dtype is there

export const realDtypes: readonly DType[] = dtypes.filter(dtype => elementFacts[dtype].real)
