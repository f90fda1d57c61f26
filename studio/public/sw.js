/**
 * For hosts that cannot send headers: adds the two that let threads share memory, and keeps the whole build for when there is no
 * network. `lockstep studio` sends headers itself and registers none of this.
 */
const headers = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
}
const isolated = response => {
  if (response.status === 0 || response.type === 'opaque') return response
  const all = new Headers(response.headers)
  for (const [name, value] of Object.entries(headers)) all.set(name, value)
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers: all })
}

/** Of a new build nothing of the old one is kept. */
async function keep() {
  const { build, files } = await (await fetch('./build.json', { cache: 'no-store' })).json()
  const cache = await caches.open(`lockstep-${build}`)
  await cache.addAll(files)
  for (const name of await caches.keys())
    if (name.startsWith('lockstep-') && name !== `lockstep-${build}`) await caches.delete(name)
}

/** The network first for the page itself, so that a new build is seen; files carry their hash in their name. */
async function answer(request) {
  const kept = await caches.match(request, { ignoreSearch: true })
  if (kept && request.mode !== 'navigate') return isolated(kept)
  try {
    return isolated(await fetch(request))
  } catch (error) {
    if (kept) return isolated(kept)
    throw error
  }
}

self.addEventListener('install', event => event.waitUntil(keep().then(() => self.skipWaiting())))
self.addEventListener('activate', event => event.waitUntil(self.clients.claim()))
self.addEventListener('fetch', event => {
  const { request } = event
  if (request.method !== 'GET' || new URL(request.url).origin !== self.location.origin) return
  event.respondWith(answer(request))
})
