/**
 * What a frame is to a segment: a closed union, so that who binds frames or asks what outlives a call looks at a value.
 * The printed name of a role derives from it here and is read back here, and nowhere else.
 */
import { type ScalarName, type StateName, scalarNames, stateNames } from '../base/index.js'
import { type Kind, kinds } from './program.js'

/** The sums a step leaves behind; `terms` are losses beside the model's own, which are not divided by the count. */
export const resultNames = ['loss', 'count', 'normSquared', 'terms'] as const
export type ResultName = (typeof resultNames)[number]

export type RoleName =
  /**
   * A parameter as it is kept or gathered (`full`), its gradient as accumulated, as one call makes it (`fresh`) or
   * `reduced`. `of` is the block's own name of the parameter, or the name it has in a flight; a segment of one parameter
   * has no need of it.
   */
  | { readonly is: 'param' | 'full' | 'grad' | 'fresh' | 'reduced'; readonly of?: string }
  /**
   * What is to be made orthogonal of a parameter, and what was made of it, each in the parts that ranks hold; `of` is its place among those
   * that are dealt out together.
   */
  | { readonly is: 'dealt' | 'direction'; readonly of?: string }
  /** A parameter or a gradient of a flight in the form in which it leaves, or has arrived where that is elsewhere. */
  | { readonly is: 'wire' | 'arrived'; readonly of: string }
  /** The gradient of one of the ranks that a rank plays. */
  | { readonly is: 'addend'; readonly of: string; readonly rank: number }
  /** The carry entering and leaving a block; the gradient arriving from the next block and leaving for the one before. */
  | { readonly is: 'in' | 'out' | 'din' | 'dout'; readonly of: string }
  /** What the forward keeps for the backward: all of it, or what ends with I and what ends with W. */
  | { readonly is: 'keep'; readonly of?: 'I' | 'W' }
  /** Codes of the parameters of a block, which are made once a step. */
  | { readonly is: 'coded' }
  /** What I computes and W needs again. */
  | { readonly is: 'hold' }
  /** A data input of one microbatch. */
  | { readonly is: 'input'; readonly of: string }
  /** What a move makes of the frame of that name, or makes it of: the copy in the other space. */
  | { readonly is: 'away'; readonly of: string }
  /** A frame for one call alone. */
  | { readonly is: 'scratch'; readonly of: Kind }
  /** What one of the states of a parameter becomes, if the step is taken. */
  | { readonly is: 'next'; readonly of: StateName }
  /** One of the optimizer's numbers per parameter. */
  | { readonly is: 'state'; readonly of: StateName }
  | { readonly is: 'result'; readonly of: ResultName }
  /** A number of the program that lives from step to step. */
  | { readonly is: 'scalar'; readonly of: ScalarName }
  /** The frame of that name: scalars of the step (lr), and whatever a program written by hand says. */
  | { readonly is: 'named'; readonly of: string }

/** Roles that print as their own word, and what may stand behind the dot. */
const words: Readonly<
  Record<Exclude<RoleName['is'], 'addend' | 'state' | 'result' | 'scalar' | 'named'>, (of: string) => boolean>
> = {
  param: () => true,
  full: () => true,
  grad: () => true,
  fresh: () => true,
  reduced: () => true,
  dealt: () => true,
  direction: () => true,
  wire: of => of !== '',
  arrived: of => of !== '',
  in: of => of !== '',
  out: of => of !== '',
  din: of => of !== '',
  dout: of => of !== '',
  keep: of => ['', 'I', 'W'].includes(of),
  hold: of => of === '',
  coded: of => of === '',
  input: of => of !== '',
  away: of => of !== '',
  next: of => stateNames.some(state => state === of),
  scratch: of => kinds.some(kind => kind === of),
}

/** `param.attn.q`, `in.x`, `keep.I`, `m`, `loss`. */
export function showRole(name: RoleName): string {
  if (name.is === 'state' || name.is === 'result' || name.is === 'scalar' || name.is === 'named') return name.of
  if (name.is === 'addend') return `addend.${name.rank}.${name.of}`
  return 'of' in name && name.of !== undefined ? `${name.is}.${name.of}` : name.is
}

/** The inverse. */
export function readRole(text: string): RoleName {
  const dot = text.indexOf('.')
  const [is, of] = dot < 0 ? [text, ''] : [text.slice(0, dot), text.slice(dot + 1)]
  if (Object.hasOwn(words, is) && !text.endsWith('.') && words[is as keyof typeof words](of))
    return { is, ...(of === '' ? {} : { of }) } as RoleName // the table just agreed to it
  const addend = /^addend\.(\d+)\.(.+)$/.exec(text)
  if (addend) return { is: 'addend', of: addend[2], rank: Number(addend[1]) }
  const [result, state] = [resultNames.find(name => name === text), stateNames.find(name => name === text)]
  if (result) return { is: 'result', of: result }
  if (state) return { is: 'state', of: state }
  const scalar = scalarNames.find(name => name === text)
  return scalar ? { is: 'scalar', of: scalar } : { is: 'named', of: text }
}
