/** A function that finds each of its results once. */
export function once<Key, T>(find: (key: Key) => T): (key: Key) => T {
  const known = new Map<Key, T>()
  return key => {
    let found = known.get(key)
    if (found === undefined) known.set(key, (found = find(key)))
    return found
  }
}
