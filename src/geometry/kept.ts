/** Where a parameter and its states lie, whoever runs the program. */
import { type Dim, type StateName, stateFacts, stateNames } from '../base/index.js'
import { type DType, type Holding, keptAs, type Param, type ParamFrames, stateTensor } from '../ir/index.js'

/** A tensor that ranks keep for a parameter: the parameter itself, or one of its states. */
export interface Kept {
  readonly holding: Holding
  readonly dtype: DType
  /** Whole. */
  readonly dims: readonly Dim[]
  readonly frameOf: (frames: ParamFrames) => number | undefined
}

export const parameterOf = (param: Param): Kept => ({
  ...{ holding: keptAs(param), dtype: param.dtype, dims: param.dims },
  frameOf: frames => frames.param,
})

export function stateOf(param: Param, state: StateName): Kept {
  const { dtype, dims, layout } = stateTensor(param, state)
  return { holding: { layout }, dtype, dims, frameOf: ({ states }) => states[state] }
}

/** All that starts as the parameter does. */
export const startingAs = (param: Param): Kept[] => [
  parameterOf(param),
  ...stateNames.flatMap(state => (stateFacts[state].startsFrom === 'parameter' ? [stateOf(param, state)] : [])),
]
