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
