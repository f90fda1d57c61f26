/** What a precision of Bridge or NeMo 2 is in flags of Megatron: by its name, or by what it sets. */
import { isMapping } from '../../plan/index.js'
import { type Reading, unknownValue } from '../reading.js'

/** Flags of the precision at a path. A name, or a recipe of 8 bits, that is not known is reported as not carried. */
export function precisionTerms(r: Reading, path: string): ReadonlyMap<string, unknown> {
  const words = wordsOf(r.raw(path))
  const eight = /fp8 (hybrid|e4m3)|fp8_|_fp8|mxfp8/.test(words)
  nameUnknown(r, path, words)
  return new Map<string, unknown>([
    ['bf16', /bf16|fp8/.test(words) || undefined], // 8 bits are for products beside it
    ['fp16', /fp16|\b16-mixed/.test(words) || undefined],
    ['fp8-format', eight ? 'hybrid' : undefined],
    ['fp8-recipe', recipes.find(([pattern]) => pattern.test(words))?.[1]],
  ])
}

/** Settings that are on, and words they are set to; a name alone is one of them. */
function wordsOf(mixed: unknown): string {
  if (!isMapping(mixed)) return String(mixed ?? '')
  return Object.entries(mixed)
    .filter(([, on]) => on === true || typeof on === 'string')
    .map(([key, on]) => (on === true ? key : `${key} ${on}`))
    .join(' ')
}

const recipes = [
  [/current|tensorwise|fp8_cs/, 'tensorwise'],
  [/mxfp8/, 'mxfp8'],
  [/blockwise|subchannel/, 'blockwise'],
] as const

const known = /bf16|fp16|fp32|fp8|\b(16|32)(-|\b)/

function nameUnknown(r: Reading, path: string, words: string): void {
  const { fp8, fp8_recipe: recipe } = { fp8: undefined, fp8_recipe: undefined, ...settingsAt(r, path) }
  if (words !== '' && !known.test(words))
    r.drop(path, unknownValue(words, { bf16_mixed: 0, fp16_mixed: 0, bf16_with_fp8_mixed: 0 }, 'f32'))
  if (typeof fp8 === 'string' && !['hybrid', 'e4m3'].includes(fp8))
    r.drop(`${path}.fp8`, unknownValue(fp8, { hybrid: 0, e4m3: 0 }, 'matmuls stay in 16 bits'))
  if (typeof recipe === 'string' && !/^(delayed|tensorwise|mxfp8|blockwise)$/.test(recipe))
    r.drop(`${path}.fp8_recipe`, unknownValue(recipe, { delayed: 0, tensorwise: 0, mxfp8: 0, blockwise: 0 }, 'delayed'))
}

const settingsAt = (r: Reading, path: string): Readonly<Record<string, unknown>> => {
  const value = r.raw(path)
  return isMapping(value) ? value : {}
}

/** Functions of Bridge and NeMo 2 that return a precision, by the names they have there. */
export const isPrecision = (name: string): boolean => /(^|\.)(\w+_)?(bf16|fp16)_(\w+_)?mixed(_precision)?$/.test(name)
