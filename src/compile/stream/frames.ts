/**
 * The names of a stream's frames. A name says which logical thing a frame holds, so two segments that ask for the same
 * thing get the same frame; nobody takes a name apart.
 */
import { type ResultName, type RoleName, showRole } from '../../ir/index.js'

export const frameNames = {
  param: (param: string): string => param,
  /** The whole parameter, for the length of a step or for the call of a block (and those that find it still there). */
  full: (param: string, call?: number): string => (call === undefined ? `full.${param}` : `full.${param}@${call}`),
  /** The rank's part of a parameter that lives elsewhere, for the length of a flight. */
  part: (tag: string, param: string): string => `part.${param}@${tag.replace(' ', '.')}`,
  grad: (param: string): string => `grad.${param}`,
  /** The gradient that one call of a block makes. */
  fresh: (param: string, call: number): string => `fresh.${param}@${call}`,
  /** Of the ranks that a rank plays the addend of one; that of the first becomes the sum. */
  addend: (param: string, rank: number): string => (rank === 0 ? frameNames.grad(param) : `addend.${param}@${rank}`),
  reduced: (param: string): string => `reduced.${param}`,
  /** What a flight sends of a parameter or its gradient, from before its start to after its end. */
  wire: (tag: string, param: string): string => `wire.${param}@${tag.replace(' ', '.')}`,
  arrived: (tag: string, param: string): string => `arrived.${param}@${tag.replace(' ', '.')}`,
  next: (state: string, param: string): string => `next.${state}.${param}`,
  state: (state: string, param: string): string => `${state}.${param}`,
  /** What is dealt out to be made orthogonal, and what comes back. */
  dealt: (param: string): string => `dealt.${param}`,
  direction: (param: string): string => `direction.${param}`,
  result: (result: ResultName): string => result,
  /** A scalar of the step, or of the program. */
  scalar: (name: string): string => name,
  input: (input: string, microbatch: number): string => `${input}@${microbatch}`,
  /** A carry that enters a block, and the gradient of it. */
  carry: (carry: string, block: number, microbatch: number): string => `${carry}@${block}.${microbatch}`,
  /** The carry, back from the host for the backward pass. */
  back: (carry: string, block: number, microbatch: number): string => `back.${carry}@${block}.${microbatch}`,
  gradient: (carry: string, block: number, microbatch: number): string => `d.${carry}@${block}.${microbatch}`,
  /** Codes of the parameters of a block. */
  coded: (block: number): string => `coded@${block}`,
  /** What one phase of a block keeps for another. */
  stash: (role: RoleName, block: number, microbatch: number): string => `${showRole(role)}@${block}.${microbatch}`,
}

/** What plays a role in a segment that happens once a step; undefined: a frame for the call alone. */
export function onceFrame(role: RoleName): string | undefined {
  if (role.is === 'result') return frameNames.result(role.of)
  if (role.is === 'scalar' || role.is === 'named' || role.is === 'input' || role.is === 'away')
    return frameNames.scalar(role.of)
  return role.is === 'scratch' ? undefined : unplayed(role)
}

/** What plays a role in a segment of this parameter. */
export function paramFrame(role: RoleName, param: string): string | undefined {
  switch (role.is) {
    case 'param':
    case 'grad':
    case 'reduced':
    case 'dealt':
    case 'direction':
      return frameNames[role.is](param)
    case 'addend':
      return frameNames.addend(param, role.rank)
    case 'state':
    case 'next':
      return frameNames[role.is](role.of, param)
    case 'away':
      return role.of === 'param' || role.of === 'grad' ? frameNames[role.of](param) : frameNames.state(role.of, param)
    default:
      return onceFrame(role)
  }
}

/** What plays a role in a segment of these parameters, which it knows by their places. */
export function dealtFrame(role: RoleName, params: readonly string[]): string | undefined {
  return (role.is === 'dealt' || role.is === 'direction') && role.of !== undefined
    ? frameNames[role.is](params[Number(role.of)])
    : onceFrame(role)
}

/** What plays a role where ranks agree on what was greatest for these parameters. */
export const agreedFrame = (role: RoleName, params: readonly string[]): string | undefined =>
  role.is === 'grad' && role.of !== undefined ? frameNames.grad(params[Number(role.of)]) : onceFrame(role)

export const unplayed = (role: RoleName): never => {
  throw new Error(`internal: nothing plays ${showRole(role)} here`)
}
