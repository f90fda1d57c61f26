/** What parameters and their states are at the start of a step, as values. */
import { isMaster, type StateName } from '../../base/index.js'
import { dtypeOfState, type Param } from '../program.js'
import { hashText, hashValues, same, type Value } from './value.js'

/** A value that has lost digits is another: what is updated must not come from it. */
export const rounded = (value: Value) => hashValues(hashText('rounded'), [value])

/** A parameter, given what is updated: that itself, or what its dtype can hold of its master. */
export const heldAs = (param: Param, value: Value) => (param.dtype === dtypeOfState(param) ? value : rounded(value))

export const valueOfParam = (name: string, part = 'value') => hashText(`parameter ${name} ${part}`)

/** What a state is at the start of the step: what the parameter is rounded from, or a value of its own. */
export const startOf = (name: string, state: StateName) => valueOfParam(name, isMaster(state) ? 'value' : state)

export const isStart = (name: string, state: StateName | undefined, value: Value): boolean =>
  state !== undefined && same(value, startOf(name, state))
