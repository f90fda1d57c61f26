/** Opens the studio in a browser. Arguments of a process are public, so the link is in a file that only its owner can read. */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Io } from '../io.js'

/** Returns how to remove the file. Does nothing where there is no screen: then the printed link is used. */
export function openBrowser(url: string, { env }: Pick<Io, 'env'>): () => void {
  const [command, ...words] =
    process.platform === 'darwin' ? ['open'] : process.platform === 'win32' ? ['cmd', '/c', 'start', ''] : ['xdg-open']
  const hasScreen = process.platform !== 'linux' || env.DISPLAY !== undefined || env.WAYLAND_DISPLAY !== undefined
  if (!hasScreen) return () => {}
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-studio-')) // of mode 0700
  const file = join(folder, 'open.html')
  writeFileSync(file, redirect(url), { mode: 0o600, flag: 'wx' })
  const opening = spawn(command, [...words, file], { stdio: 'ignore', detached: true })
  opening.on('error', () => {})
  opening.unref()
  return () => rmSync(folder, { recursive: true, force: true })
}

const redirect = (url: string): string =>
  `<!doctype html><meta charset="utf-8"><title>Lockstep</title><meta http-equiv="refresh" content="0;url=${url}">\n`
