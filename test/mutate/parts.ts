/** Slips with parts of a line, views, collectives of several tensors and calls that only start. */
import { type Collective, isCollective, isFlat } from '../../src/ir/index.js'
import type { Mutator } from './draw.js'
import { inBuffer, inOne } from './segments.js'
import { inStep, inSteps } from './streams.js'

const severalPairs = (instr: Parameters<typeof isCollective>[0]) => isCollective(instr) && instr.ins.length > 1

export const inParts: Readonly<Record<string, Mutator>> = {
  'take a view for a part, or a part for a view': inBuffer(({ inside, ...buffer }) => {
    if (!buffer.layout.flat) return undefined
    return inside ? buffer : { ...buffer, inside: true }
  }),
  'mark a part as whole': inBuffer(({ inside: _, ...buffer }) => {
    const { flat, ...layout } = buffer.layout
    return flat && { ...buffer, layout }
  }),
  'mark a whole as a part': inBuffer((buffer, _, { chance }, { mesh }) => {
    const flat = mesh.axes.filter(({ name, size }) => size > 1 && name !== 'pp').map(({ name }) => name)
    if (buffer.layout.flat || buffer.dims.length === 0) return undefined
    return { ...buffer, layout: { ...buffer.layout, flat: chance(0.5) ? flat : flat.slice(0, 1) } }
  }),
  'cut over other axes': inBuffer((buffer, _, { pick }, { mesh }) => {
    const { flat } = buffer.layout
    const others = mesh.axes.filter(({ name, size }) => size > 1 && !flat?.includes(name))
    return flat && others.length > 0
      ? { ...buffer, layout: { ...buffer.layout, flat: [...flat, pick(others).name] } }
      : undefined
  }),
  'cut a line along a dim, or what has dims as a line': inOne(
    instr => instr.kind === 'all-gather' || instr.kind === 'reduce-scatter',
    (instr, { buffers }, { pick }) => {
      if (!isCollective(instr) || (instr.kind !== 'all-gather' && instr.kind !== 'reduce-scatter')) return undefined
      const { dim: _, ...rest } = instr
      return isFlat(instr) ? { ...instr, dim: pick(buffers[instr.ins[0]].dims).name } : rest
    },
  ),
  'swap two results of a collective': inOne(severalPairs, instr => {
    const { outs } = instr as Collective // found as one
    return { ...(instr as Collective), outs: [outs[1], outs[0], ...outs.slice(2)] }
  }),
  'leave a pair out': inOne(severalPairs, (instr, _, { int }) => {
    const collective = instr as Collective // found as one
    const gone = int(collective.ins.length)
    const rest = (refs: readonly string[]) => refs.filter((_, i) => i !== gone)
    return { ...collective, ins: rest(collective.ins), outs: rest(collective.outs) }
  }),
  'start and not say so': inStep(
    step => step.kind === 'call' && step.tag !== undefined,
    step => {
      if (step.kind !== 'call') return undefined
      const { tag: _, ...rest } = step
      return rest
    },
  ),
  'wait for another tag': inStep(
    step => step.kind === 'wait',
    (step, { pick }, { streams }) => {
      const tags = streams.flatMap(({ steps }) =>
        steps.flatMap(other => ('tag' in other && other.tag ? [other.tag] : [])),
      )
      return step.kind === 'wait' ? { ...step, tag: pick(tags) } : undefined
    },
  ),
  'read a result before the wait': inSteps((steps, { pick }) => {
    const waits = steps.flatMap((step, i) => (step.kind === 'wait' && steps[i + 1]?.kind === 'call' ? [i] : []))
    if (waits.length === 0) return undefined
    const at = pick(waits)
    const swapped = steps.with(at, steps[at + 1]).with(at + 1, steps[at])
    return { steps: swapped, at: at + 1, from: at, what: `the wait at ${at} comes after the next call` }
  }),
  'keep a parameter among all parts, or not': (program, { int }) => {
    const at = int(program.params.length)
    const { keptInside, ...param } = program.params[at]
    if (!param.kept.flat) return undefined
    const changed = keptInside ? param : { ...param, keptInside: true as const }
    const params = program.params.with(at, changed)
    return {
      what: `${param.name} is kept ${keptInside ? 'alone' : 'inside'}`,
      at: [{}],
      program: { ...program, params },
    }
  },
  'keep a part whole': (program, { int, pick }) => {
    const at = int(program.params.length)
    const { keptInside: _, ...param } = program.params[at]
    const use = pick(['kept', 'state'] as const)
    const { flat, ...layout } = param[use]
    if (!flat) return undefined
    const params = program.params.with(at, { ...param, [use]: layout })
    return { what: `${param.name} is ${use} whole`, at: [{}], program: { ...program, params } }
  },
}
