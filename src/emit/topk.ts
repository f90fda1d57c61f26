/** Top-k gradient compression as lines of Python: the local gradients stacked, the largest values of each, and back to dense. */
import { addendsIn, elementsOf, type Kept, keptSizes, summedDims } from '../base/index.js'
import type { InstrOf, Ref } from '../ir/index.js'
import { call, type Site, Unwritten } from './expressions.js'

function keptOf(site: Site, x: Ref, how: Kept): number {
  const { lines, kept } = keptSizes(elementsOf(summedDims(site.dims(x))), how)
  if (lines > 1) throw new Unwritten('top-k compression of blocks that are sharded over other ranks')
  return kept
}

const tuple = (sizes: readonly number[]): string => `(${sizes.join(', ')}${sizes.length === 1 ? ',' : ''})`

export const topkRules = {
  beside: ({ ins, outs: [out] }: InstrOf<'beside'>, site: Site): string[] => [
    `${site.result(out)} = torch.stack([${ins.map(site.name).join(', ')}])`,
  ],
  greatest({ ins: [x], outs, ...how }: InstrOf<'greatest'>, site: Site): string[] {
    const options = { k: keptOf(site, x, how), ranks: addendsIn(site.dims(x)) }
    return [`${outs.map(site.result).join(', ')} = ${call('compress_topk', [site.name(x)], options)}`]
  },
  scatter({ ins, outs: [out], ...how }: InstrOf<'scatter'>, site: Site): string[] {
    keptOf(site, out, how)
    const sizes = tuple(site.dims(out).map(({ size }) => size))
    const apart = summedDims(site.dims(out)).length < site.dims(out).length
    return [
      `${site.result(out)} = ${call('decompress_topk', [...ins.map(site.name), sizes], apart ? { per_rank: 'True' } : {})}`,
    ]
  },
}
