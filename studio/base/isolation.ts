/**
 * Threads that share memory need two headers. `lockstep studio` and hosts that read `_headers` send them; elsewhere a service worker
 * adds them, from the second load on, so the first visit loads the page once more. Without either, everything but threads works.
 */
import { effect, signal } from '@preact/signals'

/** Whether ranks can be threads here. */
export const threads = signal(globalThis.crossOriginIsolated === true)

/** Whether something goes on here that loading the page again would end. */
export const busy = signal(false)

/** Once and no more: a browser that stays unisolated must not load for ever. Where nothing may be stored, not even once. */
const reloaded = 'lockstep.reloaded'

export async function isolate(): Promise<void> {
  try {
    if (threads.value) return sessionStorage.removeItem(reloaded)
    if (!('serviceWorker' in navigator) || !isSecureContext) return
    await navigator.serviceWorker.register('./sw.js')
    await navigator.serviceWorker.ready
    if (sessionStorage.getItem(reloaded)) return
    sessionStorage.setItem(reloaded, 'yes')
  } catch {
    return
  }
  await idle()
  location.reload()
}

const idle = (): Promise<void> =>
  new Promise(resolve => {
    effect(() => {
      if (!busy.value) resolve()
    })
  })

/** Asks before a page is left on which something goes on. */
export function guardLeaving(): void {
  addEventListener('beforeunload', event => {
    if (busy.peek()) event.preventDefault()
  })
}
