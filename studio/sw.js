/**
 * For hosts that cannot send headers: adds those that let threads share memory, and keeps the whole build for when there is no
 * network. `lockstep studio` sends headers itself and registers none of this. Before the first line vite.config.ts puts `build`, its name
 * and its files: another build is another worker, which waits until no page of the old one is open, since those load its files yet.
 */
const headers = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
}
const name = `lockstep-${build.name}`

const isolated = response => {
  if (response.status === 0 || response.type === 'opaque') return response
  const all = new Headers(response.headers)
  for (const [name, value] of Object.entries(headers)) all.set(name, value)
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers: all })
}

/** Where nothing can be kept there is no page without a network, but there are threads. */
const keep = () =>
  caches
    .open(name)
    .then(cache => cache.addAll(build.files.map(file => new Request(file, { cache: 'no-cache' }))))
    .catch(() => {})

async function forget() {
  for (const other of await caches.keys())
    if (other.startsWith('lockstep-') && other !== name) await caches.delete(other)
}

/** The network first for the page itself, so that a new build is seen; files carry their hash in their name. */
async function answer(request) {
  const kept = await caches.match(request, { cacheName: name, ignoreSearch: true }).catch(() => undefined)
  if (kept && request.mode !== 'navigate') return isolated(kept)
  try {
    const fresh = await fetch(request)
    return isolated(kept && !fresh.ok ? kept : fresh)
  } catch (error) {
    if (kept) return isolated(kept)
    throw error
  }
}

self.addEventListener('install', event => event.waitUntil(keep()))
self.addEventListener('activate', event => event.waitUntil(forget().then(() => self.clients.claim())))
self.addEventListener('fetch', event => {
  const { request } = event
  if (request.method !== 'GET' || new URL(request.url).origin !== self.location.origin) return
  event.respondWith(answer(request))
})
