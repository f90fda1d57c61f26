/** The built pages, from one folder and from nowhere else. */
import { readFileSync, realpathSync, statSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { extname, join, sep } from 'node:path'
import { answer, Refused } from './answer.js'

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.wasm': 'application/wasm',
  '.txt': 'text/plain; charset=utf-8',
}

/** Names with a hash of what they hold never change. */
const isHashed = (path: string): boolean => /^assets\/.*[-.][\w-]{8,}\.\w+$/.test(path)

export function answerStatic(response: ServerResponse, root: string, path: string): void {
  const name = nameOf(path)
  const file = fileBelow(root, name)
  const type = types[extname(name)]
  if (file === undefined || type === undefined) throw new Refused(404, `there is no ${path} here`)
  if (isHashed(name)) response.setHeader('Cache-Control', 'private, max-age=31536000, immutable')
  const body = readFileSync(file)
  answer(response, { type, body: name === 'index.html' ? marked(body.toString('utf8')) : body })
}

/** Says to the page that there is a server, which it must not find out by asking: elsewhere that would fail. */
const marked = (page: string): string => page.replace(/<head>|<title>/, mark => `<meta name="lockstep-server">${mark}`)

/** As written in the address, decoded once: what is still encoded after that is part of a name. */
function nameOf(path: string): string {
  try {
    return decodeURIComponent(path).slice(1) || 'index.html'
  } catch {
    throw new Refused(400, 'the address is not well formed')
  }
}

/** A file that lies below the folder, wherever links lead. */
export function fileBelow(folder: string, name: string): string | undefined {
  if (/[\0\\]/.test(name) || name.split('/').some(part => part === '..' || part.startsWith('.'))) return undefined
  try {
    const [root, file] = [realpathSync(folder), realpathSync(join(folder, name))]
    return file.startsWith(root + sep) && statSync(file).isFile() ? file : undefined
  } catch {
    return undefined
  }
}
