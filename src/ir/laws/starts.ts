/** I4: initial values depend on a parameter's name, its dims (their order too) and its init, and on nothing a plan changes. */
import type { Param, Program } from '../program.js'
import type { Finding } from './law.js'

export function starts({ params }: Program, serial: Program): Finding[] {
  const right = new Map(serial.params.map(param => [param.name, startOf(param)]))
  const own = new Map(params.map(param => [param.name, startOf(param)]))
  const say = (message: string): Finding => ({ law: 'I4', message })
  return [
    ...[...own].flatMap(([name, start]) => {
      const expected = right.get(name)
      if (expected === undefined) return [say(`the serial program has no parameter ${name}`)]
      return start === expected ? [] : [say(`${name} starts as ${start}, in the serial program as ${expected}`)]
    }),
    ...[...right.keys()].filter(name => !own.has(name)).map(name => say(`parameter ${name} is missing`)),
  ]
}

function startOf({ dims, init }: Param): string {
  const shape = dims.map(({ name, size }) => `${name}:${size}`).join(' ')
  return `[${shape}] ${init.kind}${init.kind === 'normal' ? ` ${init.std}` : ''}`
}
