/** The hooks of hook.mjs, which run in a thread of their own. */
let mutant

export function initialize(given) {
  mutant = given
}

export async function load(url, context, next) {
  const loaded = await next(url, context)
  if (url.split('?')[0] !== mutant.url) return loaded
  const source = loaded.source.toString()
  return { ...loaded, source: source.slice(0, mutant.start) + mutant.to + source.slice(mutant.end) }
}
