/**
 * T3 and T7, for what values are stored in: what belongs to a token (`x`) has one dtype throughout an instruction, and so have
 * what is updated as a parameter (`p`), its states (`s`) and its gradient (`g`); statistics are f32, ids and labels i32. Only `scale` may give fewer bits than it is
 * given. Codes (`c`) are in the format that the instruction names, and belong to nobody else.
 */
import { type CodeType, isCodeType, realDtypes, type Spoken } from '../../base/index.js'
import type { Compute, Ref } from '../instr.js'
import type { DType } from '../program.js'
import type { Law } from './law.js'
import { clause } from './phrases.js'
import { type Dtypes, signatures } from './signatures.js'

const fixed: Readonly<Record<string, DType>> = { f: 'f32', i: 'i32', b: 'i8' }

/** The formats of codes that an instruction reads, and of those that it makes. */
const formatsOf = (instr: Compute): readonly CodeType[] =>
  instr.kind === 'quantize' ? [instr.format] : 'formats' in instr ? instr.formats : []

/** The first operand or result that is stored otherwise than its instruction needs, in words. */
export function misstored(
  instr: Compute,
  dtypeOf: (ref: Ref) => DType,
): { readonly law: Law; readonly said: Spoken } | undefined {
  const { ins, outs }: Partial<Dtypes> = signatures[instr.kind].dtypes ?? {}
  /** The dtype of the first operand with this letter, or of the first result: what is updated is a result alone. */
  const common = (letter: string): DType | undefined => {
    const has = (letters: string | undefined) => (_: Ref, i: number) => (letters?.[i] ?? 'x') === letter
    const first = instr.ins.find(has(ins)) ?? instr.outs.find(has(outs))
    return first === undefined ? undefined : dtypeOf(first)
  }
  /** All alike: as the parameter that is updated, or in more digits than it has. */
  const stateTypes = (own: DType): readonly DType[] => ([undefined, own].includes(common('p')) ? [own] : ['f32'])
  const allowed = (letter: string, code: number, result: boolean): readonly DType[] => {
    if (letter === 'c') return formatsOf(instr).slice(code, code + 1)
    if (letter in fixed) return [fixed[letter]]
    const own = common(letter)
    if (own === undefined || !realDtypes.includes(own)) return realDtypes
    if (letter === 's') return stateTypes(own)
    return result && letter === 'x' ? [own, 'f32'] : [own]
  }
  const wrong = (refs: readonly Ref[], letters: string | undefined, result: boolean) =>
    refs.flatMap((ref, i) => {
      const before = letters?.slice(0, i).replace(/[^c]/g, '').length ?? 0
      const fits = allowed(letters?.[i] ?? 'x', before, result)
      const law: Law = [dtypeOf(ref), ...fits].some(isCodeType) ? 'T7' : 'T3'
      const said = clause('T/must-be', { ref, dtype: dtypeOf(ref), fits: [...new Set(fits)] })
      return fits.includes(dtypeOf(ref)) ? [] : [{ law, said }]
    })
  return [...wrong(instr.ins, ins, false), ...wrong(instr.outs, outs, true)][0]
}
