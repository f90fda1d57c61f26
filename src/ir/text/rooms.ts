/** Spaces in text: where a role or a frame lies, and what a stream has of a space. */
import { elsewheres } from '../../base/index.js'
import { type Frame, type Kind, kinds, type Room } from '../program.js'
import { atMost, count, oneOf } from './codec.js'

export const kindOf = oneOf<Kind>(...kinds)
export const spaceNamed = oneOf(...elsewheres)

export const showSpace = ({ space }: Pick<Frame, 'space'>): string => (space === undefined ? '' : ` ${space}`)

export const readSpace = (text: string | undefined): Pick<Frame, 'space'> =>
  text === undefined ? {} : { space: spaceNamed.read(text) }

export const showPeak = ({ peak }: Room): string =>
  Object.entries(peak)
    .map(([kind, bytes]) => `${kind}:${bytes}`)
    .join(' ')

export const readPeak = (words: readonly string[]): Partial<Record<Kind, number>> =>
  Object.fromEntries(
    words.map(text => atMost(2, text.split(':'))).map(([kind, n]) => [kindOf.read(kind), count.read(n)]),
  )
