/** From rotary positions and attention to the commands that do them. */
import { elementsOf, ropeDims, rotationOf } from '../../../base/index.js'
import { sizeIn } from '../../../geometry/index.js'
import type { Compute, InstrOf, Ref } from '../../../ir/index.js'
import { isPrefix, refuse, same, showDims } from './shapes.js'
import { alike, along, dims, mask, originAlong, type Site, size } from './site.js'

/** Where tokens stand in their documents: in the order of the tokens. 0: a sequence is one document. */
function placesOf(s: Site, positions: Ref | undefined, tokens: Ref): number {
  if (positions === undefined) return 0
  if (!isPrefix(dims(s, positions), dims(s, tokens)))
    refuse(`positions ${showDims(dims(s, positions))} are not those of ${showDims(dims(s, tokens))}`)
  return s.at(positions)
}

/** Which token lies at each slot of its sequence. 0: every token lies at its place. */
export function orderIn(s: Site, order: Ref | undefined, q: Ref): number {
  if (order === undefined) return 0
  const all = [
    dims(s, q).find(({ name }) => name === 'batch')!,
    { name: 'slot', size: sizeIn(s.shape(q).whole, 'seq') ?? 1 },
  ]
  if (!same(dims(s, order), all)) refuse(`the order ${showDims(dims(s, order))} is not of ${showDims(all)}`)
  return s.at(order)
}

const headDims = ['batch', 'seq', 'kvHeads', 'group', 'headDim', 'vHeadDim']

function heads(s: Site, instr: Compute & { kind: 'attention' | 'attentionGrad' }, [q, k, v]: readonly Ref[]) {
  const order = (ref: Ref, names: readonly string[]) =>
    same(
      dims(s, ref),
      names.flatMap(name => dims(s, ref).find(dim => dim.name === name) ?? []),
    )
  const of = (ref: Ref, name: string) => sizeIn(dims(s, ref), name) ?? 1
  const whole = (name: string) => sizeIn(s.shape(q).whole, name) ?? 1
  if (![q, k, v].every(ref => order(ref, headDims)))
    refuse(`attention wants [${headDims.join(' ')}], not ${showDims(dims(s, q))}`)
  const [query, key] = [along(s, q, 'seq'), along(s, k, 'seq')]
  const headDim = of(q, 'headDim')
  return {
    ...{ batch: of(q, 'batch'), queries: of(q, 'seq'), keys: of(k, 'seq'), positions: whole('seq') },
    ...{ queryOrigin: query.origin, queryUntil: query.until, queryGap: query.gap },
    ...{ keyOrigin: key.origin, keyUntil: key.until, keyGap: key.gap },
    ...{ kvHeads: of(q, 'kvHeads'), group: of(q, 'group') },
    ...{ headDim, valueDim: sizeIn(dims(s, v), 'vHeadDim') ?? headDim, scale: instr.scale ?? 1 / Math.sqrt(headDim) },
    ...{ window: instr.window ?? 0, rate: instr.dropout?.rate ?? 0 },
    ...mask(s, instr.dropout?.key ?? ''),
    ...{ batchOrigin: originAlong(s, q, 'batch'), headOrigin: originAlong(s, q, 'kvHeads') },
    ...{ groupOrigin: originAlong(s, q, 'group'), heads: whole('kvHeads'), groups: whole('group') },
  }
}

type AttentionKind = 'rope' | 'attention' | 'attentionMerge' | 'attentionGrad'

export const attentionRules: { readonly [K in AttentionKind]: (instr: InstrOf<K>, s: Site) => void } = {
  rope(instr, s) {
    const all = dims(s, instr.ins[0])
    const [batch, seq] = ['batch', 'seq'].map(name => all.find(dim => dim.name === name)!)
    const headDim = all.find(({ name }) => ropeDims.includes(name))!
    const middle = all.filter(dim => ![batch, seq, headDim].includes(dim))
    if (!batch || !seq || !headDim || !same(all, [batch, seq, ...middle, headDim]))
      refuse(`rotary positions want [batch seq .. headDim], not ${showDims(all)}`)
    const [x, positions] = instr.ins
    const [y] = instr.outs
    alike(s, [y, x])
    s.list.write('rope', {
      ...{ y: s.at(y), x: s.at(x), places: placesOf(s, positions, x) },
      ...{ batch: batch.size, seq: seq.size, heads: elementsOf(middle), headDim: headDim.size },
      ...{ inverse: Number(instr.inverse), ...along(s, x, 'seq') },
      ...s.once(instr, () => rotationOf(headDim.size, instr.theta, instr.scaling)),
    })
  },
  attention(instr, s) {
    const [q, k, v, positions, order] = instr.ins
    const [out, lse] = instr.outs
    const merge = s.merged(instr)
    const places = merge
      ? {
          out: s.at(merge.outs[0]),
          lse: s.at(merge.outs[1]),
          before: s.at(merge.ins[0]),
          beforeLse: s.at(merge.ins[1]),
        }
      : { out: s.at(out), lse: s.at(lse), before: 0, beforeLse: 0 }
    s.list.writeTimed('attention', {
      ...{ ...places, q: s.at(q), k: s.at(k), v: s.at(v) },
      ...{ places: placesOf(s, positions, q), order: orderIn(s, order, q) },
      ...heads(s, instr, [q, k, v]),
    })
  },
  attentionMerge({ ins, outs: [out, lse] }, s) {
    alike(s, [out, ins[0], ins[2]])
    const rows = alike(s, [lse, ins[1], ins[3]])
    if (!isPrefix(dims(s, lse), dims(s, out)))
      refuse(`outputs ${showDims(dims(s, out))} do not have the dims of ${showDims(dims(s, lse))} first`)
    const [a, aLse, b, bLse] = ins.map(ref => s.at(ref))
    const places = { out: s.at(out), lse: s.at(lse), a, aLse, b, bLse }
    s.list.write('attentionMerge', { ...places, rows, columns: size(s, out) / rows })
  },
  attentionGrad(instr, s) {
    const [dout, q, k, v, out, lse, positions, order] = instr.ins
    const [dq, dk, dv] = instr.outs
    const at = { dq: s.at(dq), dk: s.at(dk), dv: s.at(dv), dout: s.at(dout), q: s.at(q), k: s.at(k), v: s.at(v) }
    s.list.writeTimed('attentionGrad', {
      ...{ ...at, out: s.at(out), lse: s.at(lse) },
      ...{ places: placesOf(s, positions, q), order: orderIn(s, order, q) },
      ...heads(s, instr, [q, k, v]),
    })
  },
}
