/** OmegaConf: `${a.b}`, `${.sibling}` and `${multiply:4, ${.x}}` in values, resolved as far as the file goes. */
import { isMapping, type Mapping } from '../../plan/index.js'
import { numberOf } from '../reading.js'

const most = 8

export function resolved(value: Mapping): Mapping {
  const walk = (inner: unknown, path: readonly string[]): unknown => {
    if (isMapping(inner))
      return Object.fromEntries(Object.entries(inner).map(([key, one]) => [key, walk(one, [...path, key])]))
    if (Array.isArray(inner)) return inner.map(one => walk(one, path))
    return typeof inner === 'string' && inner.includes('${') ? replaced(inner, path, value, 0) : inner
  }
  return walk(value, []) as Mapping // what goes in is one
}

/** Innermost first; what is not known stays as it is written. */
function replaced(text: string, path: readonly string[], whole: Mapping, depth: number): unknown {
  let now: string = text.slice(0, 10_000)
  for (let turn = 0; turn < most; turn++) {
    const found = /\$\{([^${}]*)\}/.exec(now)
    if (!found) break
    const value = depth > most ? undefined : valueFor(found[1] ?? '', path, whole, depth)
    if (value === undefined || typeof value === 'object') return now
    if (found[0] === now) return value
    now = now.replace(found[0], () => String(value))
  }
  return now
}

function valueFor(inner: string, path: readonly string[], whole: Mapping, depth: number): unknown {
  const [, call, args] = /^(\w+):(.*)$/s.exec(inner) ?? []
  if (call !== undefined)
    return called(
      call,
      (args ?? '').split(',').map(one => numberOf(one.trim())),
    )
  const dots = /^\.*/.exec(inner)?.[0].length ?? 0
  const base = dots === 0 ? [] : path.slice(0, path.length - dots)
  const keys = [...base, ...inner.slice(dots).split('.')]
  const found = at(whole, keys) ?? (keys[0] === 'training' ? at(whole, keys.slice(1)) : undefined)
  return typeof found === 'string' && found.includes('${') ? replaced(found, keys, whole, depth + 1) : found
}

function called(name: string, numbers: readonly (number | undefined)[]): number | undefined {
  if (numbers.some(one => one === undefined)) return undefined
  const known = numbers as number[] // none is missing
  const [first = 0, ...rest] = known
  if (name === 'multiply') return known.reduce((a, b) => a * b, 1)
  if (name === 'add' || name === 'sum') return known.reduce((a, b) => a + b, 0)
  if (name === 'divide' || name === 'int_div' || name === 'divide_floor')
    return Math.floor(rest.reduce((a, b) => a / b, first))
  return undefined
}

const at = (value: unknown, keys: readonly string[]): unknown =>
  keys.reduce<unknown>((inner, key) => (isMapping(inner) && Object.hasOwn(inner, key) ? inner[key] : undefined), value)
