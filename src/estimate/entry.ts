/** What is worked out once and then looked up. */
interface Lookup<K, V> {
  get(key: K): V | undefined
  set(key: K, value: V): unknown
}

export function entry<K, V>(map: Lookup<K, V>, key: K, make: () => V): V {
  let value = map.get(key)
  if (value === undefined) map.set(key, (value = make()))
  return value
}

type Branch = Map<unknown, unknown>

/**
 * Values by some fields of an object. Whoever makes a value should be given an object of these fields alone: then it cannot
 * depend on a field that is not part of the key.
 */
export class ByFields<K extends string, V> {
  readonly #fields: readonly K[]
  readonly #root: Branch = new Map()

  constructor(fields: readonly K[]) {
    this.#fields = fields
  }

  of(key: { readonly [F in K]?: unknown }, make: () => V): V {
    const last = this.#fields.length - 1
    let at = this.#root
    for (let i = 0; i < last; i++) at = entry(at, key[this.#fields[i]], () => new Map()) as Branch // all but the last
    return entry(at, key[this.#fields[last]], make) as V // only values lie at the last field
  }
}
