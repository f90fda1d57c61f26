/**
 * I4: initial values depend on a parameter's name, its dims (their order too) and its init, and on nothing a plan changes; so
 * do those of scalars, and the dims of states that are tensors of their own.
 */
import { type Dim, initNumber, scalarNames, stateEntries, summedDims } from '../../base/index.js'
import type { Param, Program } from '../program.js'
import type { Finding } from './law.js'
import { clause, type Told, told } from './phrases.js'

export function starts({ params, scalars }: Program, serial: Program): Finding[] {
  const right = new Map(serial.params.map(param => [param.name, startOf(param)]))
  const own = new Map(params.map(param => [param.name, startOf(param)]))
  const say = (said: Told): Finding => ({ law: 'I4', ...said })
  const as = (start: number | undefined) => (start === undefined ? clause('.missing') : clause('.starts', { start }))
  return [
    ...scalarNames.flatMap(name => {
      const [is, expected] = [scalars?.[name]?.start, serial.scalars?.[name]?.start]
      return is === expected ? [] : [say(told('I/start-scalar', { name, start: as(is), expected: as(expected) }))]
    }),
    ...[...own].flatMap(([name, start]) => {
      const expected = right.get(name)
      if (expected === undefined) return [say(told('I/no-parameter', { name }))]
      return start === expected ? [] : [say(told('I/start', { name, start, expected }))]
    }),
    ...[...right.keys()].filter(name => !own.has(name)).map(name => say(told('I/parameter', { name }))),
  ]
}

function startOf({ dims, init, frozen, apart = {} }: Param): string {
  const number = initNumber(init)
  const shape = shapeOf(dims)
  // A state that lies otherwise than the gradient may be listed, and has the dims that others are not listed with. How many addends there are of it, a plan says.
  const own = stateEntries(apart).map(([state, tensor]) => [state, shapeOf(summedDims(tensor.dims))])
  const states = own.flatMap(([state, of]) => (of === shape ? [] : [`, ${state} [${of}]`]))
  return `[${shape}] ${init.kind}${number === undefined ? '' : ` ${number}`}${frozen ? ' frozen' : ''}${states.join('')}`
}

const shapeOf = (dims: readonly Dim[]): string => dims.map(({ name, size }) => `${name}:${size}`).join(' ')
