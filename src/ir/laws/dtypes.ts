/**
 * T3, for what values are stored in: what belongs to a token (`x`) has one dtype throughout an instruction, and so has
 * what belongs to a parameter (`p`) and its gradient (`g`); statistics are f32, ids and labels i32. Only `scale` may give fewer bits than it is
 * given.
 */
import { realDtypes } from '../../base/index.js'
import type { Compute, Ref } from '../instr.js'
import type { DType } from '../program.js'
import { type Dtypes, signatures } from './signatures.js'

const fixed: Readonly<Record<string, DType>> = { f: 'f32', i: 'i32', c: 'i8' }

/** The first operand or result that is stored otherwise than its instruction needs, in words. */
export function misstored(instr: Compute, dtypeOf: (ref: Ref) => DType): string | undefined {
  const { ins, outs }: Partial<Dtypes> = signatures[instr.kind].dtypes ?? {}
  /** The dtype of the first operand with this letter, or of the first result: what is updated is a result alone. */
  const common = (letter: string): DType | undefined => {
    const has = (letters: string | undefined) => (_: Ref, i: number) => (letters?.[i] ?? 'x') === letter
    const first = instr.ins.find(has(ins)) ?? instr.outs.find(has(outs))
    return first === undefined ? undefined : dtypeOf(first)
  }
  const allowed = (letter: string, result: boolean): readonly DType[] => {
    if (letter in fixed) return [fixed[letter]]
    const own = common(letter)
    if (own === undefined || !realDtypes.includes(own)) return realDtypes
    return result && letter === 'x' ? [own, 'f32'] : [own]
  }
  const wrong = (refs: readonly Ref[], letters: string | undefined, result: boolean) =>
    refs.flatMap((ref, i) => {
      const fits = allowed(letters?.[i] ?? 'x', result)
      return fits.includes(dtypeOf(ref))
        ? []
        : [`%${ref} is ${dtypeOf(ref)}, must be ${[...new Set(fits)].join(' or ')}`]
    })
  return [...wrong(instr.ins, ins, false), ...wrong(instr.outs, outs, true)][0]
}
