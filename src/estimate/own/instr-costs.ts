/**
 * The cost of instructions of compiled blocks at any sizes. The same instruction on tensors with the same layouts costs the same in every
 * block: it is costed once per combination of the sizes it depends on.
 */
import { type Dim, flatAxes, isOwnPrecision, localDims, type Mesh } from '../../base/index.js'
import { type SegmentDraft, unplaced } from '../../compile/index.js'
import { type Buffer, type Collective, type Instr, type Ref, type Segment, traitsOf } from '../../ir/index.js'
import { clusterPrices, type Prices, type SparedIn, sparing } from '../../simulate/index.js'
import { entry } from '../entry.js'
import type { Setup } from '../setup.js'
import { isSized, SizeGroup, type SizeName, type Sizes } from './sizes.js'

/** A segment with the dims of its tensors before sharding. */
export interface SizedSegment {
  readonly segment: Segment
  readonly whole: ReadonlyMap<Ref, readonly Dim[]>
  /** Equal for buffers with the same dtype, dims and layout. */
  readonly alike: ReadonlyMap<Ref, string>
}

/** `times`: the sequence length it was compiled with over that of the plans. */
export function sizedSegment(mesh: Mesh, draft: SegmentDraft, times = 1): SizedSegment {
  const segment = unplaced(mesh, draft)
  const asLong = (dim: Dim): Dim => (ofSequence.includes(dim.name) ? { ...dim, size: dim.size / times } : dim)
  const whole = new Map(
    [...draft.buffers].map(([ref, { tensor }]) => [ref, times === 1 ? tensor.dims : tensor.dims.map(asLong)]),
  )
  const alike = new Map(
    Object.entries(segment.buffers).map(([ref, buffer]) => [ref, writtenOut(buffer, whole.get(ref)!)]),
  )
  return { segment, whole, alike }
}

/** Dims as long as a sequence. */
const ofSequence: readonly string[] = ['seq', 'position', 'slot']

const writtenOut = ({ dtype, layout, inside }: Buffer, dims: readonly Dim[]): string =>
  [
    dtype,
    dims.map(({ name, size }) => (isSized(name) ? name : `${name}${size}`)).join(),
    Object.entries(layout.splits)
      .map(([dim, axes]) => `${dim}/${axes.join('.')}`)
      .join(),
    flatAxes(layout).join(),
    inside ?? '',
    // Without a window all steps of a ring after the first cost the same.
    Math.min(1, layout.turn?.by ?? 0),
  ].join(' ')

/** An instruction, representing all that cost the same. */
export interface PricedInstr {
  readonly instr: Instr
  readonly of: SizedSegment
  /** Its kind and operands: instructions of different steps of a ring differ in the step number only. */
  readonly shape: string
  readonly group: SizeGroup
  readonly seconds: (number | undefined)[]
}

export class InstrCosts {
  readonly #setup: Omit<Setup, 'split'>
  readonly #known = new Map<string, PricedInstr>()
  readonly #groups = new Map<string, SizeGroup>()
  readonly #prices = new WeakMap<Sizes, Prices>()
  readonly #spared = sparing({ axes: [] })

  constructor(setup: Omit<Setup, 'split'>) {
    this.#setup = setup
  }

  of(instr: Instr, of: SizedSegment): PricedInstr {
    const refs = touched(instr)
    const spared = this.#spared(instr, of.segment)
    const { ins: _, outs: __, in: ___, out: ____, on: _____, ...how } = instr as Readonly<Record<string, unknown>>
    const shape = [
      instr.kind,
      ...refs.map(ref => of.alike.get(ref)),
      spared.read.map(ref => refs.indexOf(ref)).join(),
      spared.written.map(ref => refs.indexOf(ref)).join(),
    ].join('|')
    const turns = how.window === undefined ? '' : refs.map(ref => of.segment.buffers[ref].layout.turn?.by).join()
    const key = `${shape} ${JSON.stringify(how)} ${turns}`
    return entry(this.#known, key, () => ({ instr, of, shape, group: this.#group(namesIn(instr, of)), seconds: [] }))
  }

  seconds({ instr, of, group, seconds }: PricedInstr, sizes: Sizes): number {
    const number = sizes.numberIn(group)
    return (seconds[number] ??= this.#price(instr, of, sizes))
  }

  #group(names: readonly SizeName[]): SizeGroup {
    return entry(this.#groups, names.join(), () => new SizeGroup(names))
  }

  #price(instr: Instr, { segment, whole }: SizedSegment, sizes: Sizes): number {
    const { mesh } = sizes
    const { name, phase, roles, instrs } = segment
    const buffers: Record<Ref, Buffer> = {}
    for (const ref of touched(instr)) {
      const { dtype, layout, role, offset } = segment.buffers[ref]
      buffers[ref] = { dtype, dims: localDims(mesh, sizes.dims(whole.get(ref)!), layout), layout, role, offset }
    }
    const sized: Segment = { name, phase, roles, instrs, buffers }
    const prices = entry(this.#prices, sizes, () => pricesAt(this.#setup, sizes, this.#spared))
    return traitsOf(instr).starts ? prices.collective(instr as Collective, sized).seconds : prices.compute(instr, sized)
  }
}

const touched = (instr: Instr): Ref[] => [...new Set([...traitsOf(instr).reads, ...traitsOf(instr).writes])]

function pricesAt(
  { cluster, precision, software }: Omit<Setup, 'split'>,
  { mesh, microbatches }: Sizes,
  spared: SparedIn,
): Prices {
  const { attention } = software
  return clusterPrices({ mesh, microbatches, segments: {} }, cluster, {
    spared,
    ...(isOwnPrecision(precision) ? {} : { multiply: precision }),
    ...(attention !== 'unfused' && { attention }),
  })
}

/** The sizes that an instruction depends on. */
function namesIn(instr: Instr, { segment, whole }: SizedSegment): SizeName[] {
  const names = new Set<SizeName>(instr.kind === 'accumulate' ? ['microbatches'] : [])
  if (traitsOf(instr).starts) names.add('mesh')
  for (const ref of touched(instr)) {
    for (const { name } of whole.get(ref)!) if (isSized(name)) names.add(name)
    const { layout } = segment.buffers[ref]
    for (const axis of [...Object.values(layout.splits).flat(), ...flatAxes(layout)]) names.add(axis)
  }
  return [...names].sort()
}
