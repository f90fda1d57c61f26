/** Where a parameter and its states lie, whoever runs the program. */
import type { StateName } from '../base/index.js'
import { type DType, dtypeOfState, type Holding, keptAs, type Param, type ParamFrames } from '../ir/index.js'

/** A tensor that ranks keep for a parameter: the parameter itself, or one of its states. */
export interface Kept {
  readonly holding: Holding
  readonly dtype: DType
  readonly frameOf: (frames: ParamFrames) => number | undefined
}

export const parameterOf = (param: Param): Kept => ({
  ...{ holding: keptAs(param), dtype: param.dtype },
  frameOf: frames => frames.param,
})

export const stateOf = (param: Param, state: StateName): Kept => ({
  ...{ holding: { layout: param.state }, dtype: dtypeOfState(param) },
  frameOf: ({ states }) => states[state],
})
