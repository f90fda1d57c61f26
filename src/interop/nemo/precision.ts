/** What a precision of Bridge or NeMo 2 is in flags of Megatron: by its name, or by what it sets. */
import { isMapping } from '../../plan/index.js'

export function precisionTerms(mixed: unknown): ReadonlyMap<string, unknown> {
  const words = isMapping(mixed)
    ? Object.entries(mixed)
        .filter(([, on]) => on === true || typeof on === 'string')
        .map(([key, on]) => (on === true ? key : `${key} ${on}`))
        .join(' ')
    : String(mixed ?? '')
  const eight = /fp8 (hybrid|e4m3)|fp8_|_fp8/.test(words)
  return new Map<string, unknown>([
    ['bf16', /bf16|fp8/.test(words) || undefined], // 8 bits are for products beside it
    ['fp16', /fp16|\b16-mixed/.test(words) || undefined],
    ['fp8-format', eight ? 'hybrid' : undefined],
    ['fp8-recipe', recipes.find(([pattern]) => pattern.test(words))?.[1]],
  ])
}

const recipes = [
  [/current|tensorwise|fp8_cs/, 'tensorwise'],
  [/mxfp8/, 'mxfp8'],
  [/blockwise/, 'blockwise'],
] as const
