/** Names with their values on a command line, for commander: one option after the other. */
import { InvalidArgumentError } from 'commander'

export type Pairs = Readonly<Record<string, string>>

export function pair(text: string, before: Pairs = {}): Pairs {
  const [, name, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  if (name === undefined) throw new InvalidArgumentError('expected name=value.')
  return { ...before, [name]: value }
}
