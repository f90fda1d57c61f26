/** Whole numbers on a command line, for commander: 500, 10k, 1M. */
import { InvalidArgumentError } from 'commander'
import { parseCount } from '../../base/index.js'
import { parseRanks, type Ranks } from './ranks.js'

/** A whole number from 0 up; 10k is 10,000. */
export function integer(text: string): number {
  const value = parseCount(text, 1000)
  if (value === undefined) throw new InvalidArgumentError('expected an integer >= 0, such as 500 or 10k.')
  return value
}

export function positive(text: string): number {
  if (integer(text) === 0) throw new InvalidArgumentError('expected an integer >= 1.')
  return integer(text)
}

/** Sequences, batches and devices come in powers of two: 8k is 8192, 1M is 1,048,576. */
export function size(text: string): number {
  const value = parseCount(text, 1024)
  if (!value) throw new InvalidArgumentError('expected an integer >= 1, such as 8192 or 8k (= 8192).')
  return value
}

/** `9464`, or `0.0.0.0:9464`. */
export function port(text: string): string {
  const [, number] = /^(?:[^\s:]+:|\[[\da-fA-F:.]+\]:)?(\d{1,5})$/.exec(text) ?? []
  if (number === undefined || Number(number) > 65535)
    throw new InvalidArgumentError('expected a port, such as 9464 or 0.0.0.0:9464.')
  return text
}

/** Of this machine alone. */
export function portNumber(text: string): number {
  if (text.includes(':'))
    throw new InvalidArgumentError('expected a port, such as 8080: the studio listens on this machine only.')
  return Number(port(text))
}

/** Numbers of ranks: 4,6 or 4..8. */
export function ranksOf(text: string): Ranks {
  const ranks = parseRanks(text)
  if (!ranks) throw new InvalidArgumentError('expected rank counts, such as 4,6 or 4..8.')
  return ranks
}
