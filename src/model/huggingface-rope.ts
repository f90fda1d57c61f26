/** `rope_scaling` (until transformers 4) and `rope_parameters` (from 5 on) of a Hugging Face config. */
import { z } from 'zod'
import { type Problem, type RopeScaling, shorten } from '../base/index.js'
import { advised, refused } from './phrases.js'

const positive = z.number().positive().nullish()

const Rope = z.looseObject({
  rope_type: z.string().nullish(),
  type: z.string().nullish(),
  rope_theta: positive,
  factor: positive,
  original_max_position_embeddings: positive,
  low_freq_factor: positive,
  high_freq_factor: positive,
  beta_fast: positive,
  beta_slow: positive,
  attention_factor: positive,
  mscale: z.number().nullish(),
  mscale_all_dim: z.number().nullish(),
  truncate: z.boolean().nullish(),
})
type Rope = z.output<typeof Rope>

/** What a config says of its rotary positions. */
export const ropeFields = {
  rope_theta: positive,
  rope_scaling: Rope.nullish(),
  rope_parameters: Rope.nullish(),
  max_position_embeddings: z.int().min(1).nullish(),
}
const RopeLike = z.looseObject(ropeFields)

export interface RopeImport {
  readonly theta: number
  readonly scaling?: RopeScaling
  readonly problems: readonly Problem[]
}

/** `usual`: the base where none is given. */
export function ropeOf(c: z.output<typeof RopeLike>, usual: number): RopeImport {
  const theta = c.rope_theta ?? c.rope_parameters?.rope_theta ?? usual
  const partial = typeof c.partial_rotary_factor === 'number' && c.partial_rotary_factor !== 1
  const whole = partial ? [advised('partial_rotary_factor', 'model/ignored/rotated')] : []
  const path = c.rope_scaling ? 'rope_scaling' : 'rope_parameters'
  const rope = c[path]
  if (!rope) return { theta, problems: whole }
  const { scaling, problems } = scalingOf(rope, path, c.max_position_embeddings ?? undefined)
  return { theta, ...(scaling && { scaling }), problems: [...whole, ...problems] }
}

type Found = Pick<RopeImport, 'scaling' | 'problems'>

function scalingOf(rope: Rope, path: string, positions: number | undefined): Found {
  const kind = rope.rope_type ?? rope.type ?? 'default'
  if (kind === 'default') return { problems: [] }
  const original = rope.original_max_position_embeddings ?? positions
  const factor = rope.factor ?? (kind === 'yarn' && original && positions ? positions / original : undefined)
  const missing = (of: string): Found => ({ problems: [refused(`${path}.${of}`, 'model/config/missing')] })
  switch (kind) {
    case 'linear':
      return factor ? { scaling: { kind, factor }, problems: [] } : missing('factor')
    case 'llama3':
      if (!factor) return missing('factor')
      if (!original) return missing('original_max_position_embeddings')
      return {
        scaling: { kind, factor, low: rope.low_freq_factor ?? 1, high: rope.high_freq_factor ?? 4, original },
        problems: [],
      }
    case 'yarn':
      if (!factor) return missing('factor')
      if (!original) return missing('original_max_position_embeddings')
      return { scaling: yarnOf(rope, factor, original), problems: untruncated(rope, path) }
    case 'dynamic':
      return { problems: [advised(path, 'model/ignored/dynamic', { positions: original ?? 0 })] }
    default:
      return { problems: [advised(path, 'model/ignored/scaling', { scaling: shorten(kind, 60) })] }
  }
}

function yarnOf(rope: Rope, factor: number, original: number): RopeScaling {
  const scaleAll = rope.mscale_all_dim ?? 0
  const ramp = { fast: rope.beta_fast ?? 32, slow: rope.beta_slow ?? 1 }
  const asked = rope.attention_factor ?? undefined
  // Where one of the two is missing, transformers lets queries and keys grow by 0.1 ln(factor) + 1, whatever the other is.
  const usual = rope.mscale && scaleAll ? rope.mscale : scaleAll ? scaleFor(factor, scaleAll) : 1
  const scale = asked === undefined ? usual : scaleFor(factor, scaleAll, asked)
  return { kind: 'yarn', factor, original, ...ramp, scale, scaleAll }
}

/** The scale with which queries and keys grow by `asked`, or by 0.1 ln(factor) + 1. */
function scaleFor(factor: number, scaleAll: number, asked?: number): number {
  const each = 0.1 * Math.log(factor)
  if (each <= 0) return 1
  return ((asked ?? 1 + each) * (1 + each * scaleAll) - 1) / each
}

const untruncated = ({ truncate }: Rope, path: string): Problem[] =>
  truncate === false ? [advised(`${path}.truncate`, 'model/ignored/ramp')] : []
