/**
 * The segments of a flight. Where a plan compresses, what travels is narrower than what is computed with: it is packed into
 * frames of its own before the flight starts and unpacked when it has ended; sums are sums of what was packed.
 */
import { flatAxes, type Layout, wireOf } from '../base/index.js'
import type { Plan } from '../plan/index.js'
import type { CompiledParam, Sharding } from './compiled.js'
import { gatherCodes, reduceCodes, sendsCodes } from './flight-codes.js'
import { type FlightSegments, FlightWriter, slotOf, summed, whole } from './flight-writer.js'
import { type SegmentDraft, SegmentWriter, type Tensor, type Version } from './segment.js'
import { scatteredTo } from './tail.js'

/** The name each parameter of a flight has in its segment: that of its class, told apart where blocks are alike. */
export function namesIn(params: readonly CompiledParam[]): string[] {
  const times = new Map<string, number>()
  return params.map(({ of }) => {
    const n = times.get(of) ?? 0
    times.set(of, n + 1)
    return n === 0 ? of : `${of}.${n}`
  })
}

/** The same in another dtype. */
const cast = (w: SegmentWriter, from: Version, to: Version) =>
  w.emit({ kind: 'scale', by: 1, ins: [from.ref], outs: [to.ref] })

/** Whether ranks hold parts of it, or one rank plays those that do, so that what is gathered is coded. */
export const travels = (
  { compress }: Pick<Plan, 'compress'>,
  { segments: { kept }, layouts: { played } }: CompiledParam,
): boolean => kept.layout.flat !== undefined || (played !== undefined && compress?.gather === 'int8')

/** Parameters whose parts are of the same ranks travel together. */
export function draftGather(sharding: Sharding, params: readonly CompiledParam[], name: string): FlightSegments {
  const w = new FlightWriter(sharding)
  const { compress } = sharding.plan
  for (const [i, of] of namesIn(params).entries()) {
    const { spec, dtype, layouts, segments } = params[i]
    const { kept, space } = segments
    const { layout, inside } = kept
    const tensor: Tensor = { ...spec, name: of, dtype }
    const slot = slotOf('param', of)
    const full = inside ? slot : slotOf('full', of)
    // Inside the whole a part would be overwritten by what is left of it.
    const wire = inside ? undefined : wireOf(dtype, compress?.gather)
    const isSent = travels(sharding.plan, params[i])
    if (space) w.lifts(tensor, kept, isSent ? slot : full, space)
    if (!isSent) continue
    if (wire === 'int8') {
      gatherCodes(w, tensor, layouts, { run: compress!.run })
      continue
    }
    const sent = wire ? { ...tensor, dtype: wire } : tensor
    const part = wire
      ? w.moves.given(of, sent, layout, slotOf('wire', of))
      : w.moves.held(of, tensor, segments.kept, slot)
    const to = w.moves.given(of, whole(sent), layouts.compute, wire ? slotOf('arrived', of) : full)
    w.moves.makeRoom(to.ref, layout)
    w.travels({ kind: 'all-gather' }, flatAxes(layout), sent, part, to)
    if (!wire) continue
    const packed = w.packs.given(of, { ...sent, name: `${of}.wire` }, layout, slotOf('wire', of))
    cast(w.packs, w.packs.held(of, tensor, segments.kept, slot), packed)
    const arrived = w.unpacks.given(of, { ...sent, name: `${of}.wire` }, layouts.compute, slotOf('arrived', of))
    cast(w.unpacks, arrived, w.unpacks.given(of, whole(tensor), layouts.compute, full))
  }
  return w.drafts(name, 'gather')
}

/** Gradients that are scattered, and those that are summed, each over the same axes, travel together. */
export function draftReduce(
  sharding: Sharding,
  params: readonly CompiledParam[],
  is: 'grad' | 'fresh',
  name: string,
): FlightSegments {
  const w = new FlightWriter(sharding)
  for (const [i, of] of namesIn(params).entries()) {
    const { spec, gradientDtype, layouts, segments } = params[i]
    const { produced, reduction } = segments.gradient!
    if (!('axes' in reduction)) throw new Error(`internal: ${of} does not fly`)
    const tensor: Tensor = { ...spec, name: of, dtype: gradientDtype }
    const scatters = reduction.kind === 'scatter'
    const slot = slotOf(is, of)
    if (sendsCodes(sharding.plan, params[i])) {
      const { run, virtual } = sharding.plan.compress!
      const again = virtual ? virtual.zero === 0 : !scatters
      reduceCodes(w, tensor, { layouts, produced, slot, again, run })
      continue
    }
    const format = sharding.plan.compress?.reduce
    const wire = format === 'int8' ? undefined : wireOf(gradientDtype, format)
    const sent = wire ? { ...tensor, dtype: wire as 'bf16' | 'f16' } : tensor
    const into = scatters ? scatteredTo(layouts.storage, reduction) : { ...produced, partial: {} }
    const from = w.moves.given(of, sent, produced, wire ? slotOf('wire', of) : slot)
    if (scatters) w.moves.makeRoom(from.ref, layouts.storage)
    const to = summed(w.moves, sent, into, wire ? slotOf('wire', of) : slot)
    w.travels(
      scatters ? { kind: 'reduce-scatter' } : { kind: 'all-reduce', combine: 'sum' },
      reduction.axes,
      sent,
      from,
      to,
    )
    if (!wire) continue
    const packed = w.packs.given(of, { ...sent, name: `${of}.wire` }, produced, slotOf('wire', of))
    cast(w.packs, w.packs.given(of, tensor, produced, slot), packed)
    const arrived = summed(w.unpacks, { ...sent, name: `${of}.wire` }, into, slotOf('wire', of))
    cast(w.unpacks, arrived, summed(w.unpacks, tensor, into, slot))
  }
  return w.drafts(name, 'reduce')
}

/** Parts of gradients, summed over the replicas of each rank (HSDP), where they lie. */
export function draftSum(sharding: Sharding, params: readonly CompiledParam[], name: string): FlightSegments {
  const w = new FlightWriter(sharding)
  const format = sharding.plan.compress?.reduce
  for (const [i, of] of namesIn(params).entries()) {
    const { spec, gradientDtype, layouts, segments } = params[i]
    const { reduction } = segments.gradient!
    if (reduction.kind !== 'scatter') throw new Error(`internal: ${of} has no part to sum`)
    const tensor: Tensor = { ...spec, name: of, dtype: gradientDtype }
    const total = { ...tensor, name: `${of}.sum` }
    const inside = !layouts.fresh && ({ inside: true } as const)
    const [own, all] = [scatteredTo(layouts.storage, reduction), layouts.storage]
    const wire = format === 'int8' ? undefined : wireOf(gradientDtype, format)
    const sent = wire ? { ...tensor, dtype: wire as 'bf16' | 'f16' } : tensor
    const slot = wire ? slotOf('wire', of) : slotOf('grad', of)
    const lies = (layout: Layout) => (wire ? { layout } : { layout, ...inside })
    const from = w.moves.held(of, sent, lies(own), slot)
    const to = w.moves.held(of, { ...sent, name: `${of}.sum` }, lies(all), slot)
    w.travels({ kind: 'all-reduce', combine: 'sum' }, reduction.replicas, sent, from, to)
    if (!wire) continue
    const packed = w.packs.given(of, { ...sent, name: `${of}.wire` }, own, slot)
    cast(w.packs, w.packs.held(of, tensor, { layout: own, ...inside }, slotOf('grad', of)), packed)
    const arrived = w.unpacks.given(of, { ...sent, name: `${of}.wire` }, all, slot)
    cast(w.unpacks, arrived, w.unpacks.held(of, total, { layout: all, ...inside }, slotOf('grad', of)))
  }
  return w.drafts(name, 'reduce')
}

/** The rank's own part of what arrived, added to the sums of the step. */
export function draftAdd({ s }: Sharding, params: readonly CompiledParam[], name: string): SegmentDraft {
  const w = new SegmentWriter(s)
  for (const [i, of] of namesIn(params).entries()) {
    const { spec, gradientDtype, layouts, segments } = params[i]
    const { produced, reduction } = segments.gradient!
    const tensor: Tensor = { ...spec, name: of, dtype: gradientDtype }
    const slot = slotOf('fresh', of)
    const lies = scatteredTo(layouts.storage, reduction)
    if (reduction.kind === 'scatter') w.own(of, tensor, lies, slot)
    else w.given(of, tensor, { ...produced, partial: {} }, slot)
    const part = w.demand(of, lies)
    const total = w.given(of, { ...tensor, name: `${of}.total` }, lies, slotOf('grad', of))
    w.emit({ kind: 'accumulate', ins: [part.ref], outs: [total.ref] })
  }
  return w.draft(name, 'add')
}
