import { InvalidArgumentError } from 'commander'

/** A whole number from 0 up, for commander. */
export function integer(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('expected a whole number from 0 up.')
  return Number(text)
}

export function positive(text: string): number {
  if (integer(text) === 0) throw new InvalidArgumentError('expected a whole number from 1 up.')
  return integer(text)
}
