/**
 * Threads that share memory need two headers. `lockstep studio` and hosts that read `_headers` send them; elsewhere a service worker
 * adds them, from the second load on, so the first visit loads the page once more. Without either, everything but threads works.
 */
import { signal } from '@preact/signals'

/** Whether ranks can be threads here. */
export const threads = signal(globalThis.crossOriginIsolated === true)

export async function isolate(): Promise<void> {
  if (threads.value || !('serviceWorker' in navigator) || !isSecureContext) return
  try {
    await navigator.serviceWorker.register('./sw.js')
    await navigator.serviceWorker.ready
  } catch {
    return
  }
  // Once and no more: a browser that stays unisolated must not load for ever.
  if (sessionStorage.getItem('lockstep.reloaded')) return
  sessionStorage.setItem('lockstep.reloaded', 'yes')
  location.reload()
}
