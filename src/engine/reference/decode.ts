/** A decoder on the plain kernels, in f64: what every other engine is compared with. */
import { elementsOf } from '../../base/index.js'
import type { Place, Shape } from '../../geometry/index.js'
import type { Ref } from '../../ir/index.js'
import {
  type DecodeEngine,
  type DecodePass,
  type DecodeRoom,
  type DecodeValue,
  regionsOf,
  tokensIn,
} from '../decode.js'
import type { Moment } from './kernel.js'
import { prepare } from './kernels.js'

/** Nothing is drawn. */
const moment: Moment = { seed: 0, step: 0, block: '', microbatch: 0, at: {} }

export function referenceDecoder(room: DecodeRoom): DecodeEngine {
  let end = 0
  const take = (elements: number): number => {
    end += elements
    return end - elements
  }
  const { weights, caches, inputs, scratch } = regionsOf(room, take)
  const cells = new Float64Array(end)
  const at = ({ place }: DecodeValue): number => {
    if (place.kind === 'scratch') return scratch + place.first
    if (place.kind === 'input') return inputs[place.name]
    return (place.kind === 'weight' ? weights : caches).get(place.name) ?? 0
  }
  const prepared = new WeakMap<DecodePass, ReturnType<typeof prepareAll>>()
  return {
    description: 'the reference, in f64',
    weight: name => cells.subarray(weights.get(name), (weights.get(name) ?? 0) + elementsOf(room.weights[name])),
    async run(pass, ids, past) {
      cells.set(ids, inputs.tokens)
      for (let i = 0; i < ids.length; i++) cells[inputs.positions + i] = past + i
      const steps = prepared.get(pass) ?? prepareAll(pass)
      prepared.set(pass, steps)
      const placeOf = (ref: Ref): Place => ({ at: at(pass.values[ref]), parts: partsOf(pass.values[ref], past) })
      for (const step of steps)
        if ('kernel' in step) step.kernel(cells, step.ins.map(placeOf), step.outs.map(placeOf), moment)
        else keep(cells, pass.values[step.in], [at(pass.values[step.in]), at(pass.values[step.cache])], past)
      const logits = pass.values[pass.logits]
      return cells.slice(at(logits), at(logits) + elementsOf(logits.dims))
    },
    async stop() {},
  }
}

const shapeOf = ({ dims }: DecodeValue): Shape => ({ dims, whole: dims })

const prepareAll = ({ ops, values }: DecodePass) =>
  ops.map(op => {
    if (op.kind === 'keep') return op
    const shapes = (refs: readonly Ref[]) => refs.map(ref => shapeOf(values[ref]))
    return { kernel: prepare(op, shapes(op.ins), shapes(op.outs)), ins: op.ins, outs: op.outs }
  })

/** Tokens of a pass stand behind those before it; a cache begins with the first of all. */
const partsOf = ({ dims, place }: DecodeValue, past: number): Place['parts'] =>
  dims.map(({ name, size }) => ({ origin: name === 'seq' && place.kind !== 'cache' ? past : 0, until: size, gap: 0 }))

function keep(cells: Float64Array, { dims }: DecodeValue, [from, cache]: readonly number[], past: number): void {
  const elements = elementsOf(dims)
  cells.copyWithin(cache + (past * elements) / tokensIn(dims), from, from + elements)
}
