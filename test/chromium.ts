/** A Chromium, if there is one: LOCKSTEP_CHROMIUM, or where distributions put it. */
import { existsSync } from 'node:fs'

// The shell has no window and takes a fifth less of a core.
const places = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/opt/google/chrome/chrome',
]

/** What a test that needs a browser says when it is skipped. */
export const noChromium = 'no Chromium (set LOCKSTEP_CHROMIUM, or install chromium)'

/** Where LOCKSTEP_REQUIRE_CHROMIUM is set (CI), a missing browser is a failure and not a skip. */
export function findChromium(): string | undefined {
  const found = [process.env.LOCKSTEP_CHROMIUM, ...places].find(path => path !== undefined && existsSync(path))
  if (found === undefined && process.env.LOCKSTEP_REQUIRE_CHROMIUM) throw new Error(noChromium)
  return found
}
