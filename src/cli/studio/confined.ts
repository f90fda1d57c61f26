/** Files as a job from a page may read them: those below one folder, wherever links lead, and none beside. */
import { realpathSync } from 'node:fs'
import { dirname, resolve, sep } from 'node:path'
import type { Problem } from '../../base/index.js'
import { formOf, type Job } from '../../plan/index.js'
import { refused as dataRefused } from '../../train/phrases.js'
import { besides } from '../files/beside.js'
import type { Io } from '../io.js'

/** `texts`: what is read under a name instead of a file. */
export function confined(io: Io, folder: string, texts: Readonly<Record<string, string>> = {}): Io {
  const isInside = within(folder)
  const inside = (path: string): string => {
    if (!isInside(path)) throw new Error(outside)
    return path
  }
  return {
    ...io,
    read: path => (Object.hasOwn(texts, path) ? texts[path] : io.read(inside(path))),
    readBytes: (path, begin, end) => io.readBytes(inside(path), begin, end),
    list: path => io.list(inside(path)),
    exists: path => isInside(path) && io.exists(path),
    kindOf: path => (isInside(path) ? io.kindOf(path) : undefined),
    modified: path => (isInside(path) ? io.modified(path) : undefined),
  }
}

const outside = 'it lies outside the folder that the studio was started in'

function within(folder: string): (path: string) => boolean {
  const root = realpathSync(folder)
  return path => {
    const real = realPath(resolve(folder, path))
    return real === root || real.startsWith(root + sep)
  }
}

/** What of the files that a job names lies elsewhere: said before a run is started. */
export function outsideProblems({ data, plan: { schedule } }: Job, path: string, folder: string): Problem[] {
  const isInside = within(folder)
  const named = [
    ...(data && formOf(data) !== 'synthetic' ? [['data.source', data.source]] : []),
    ...(data?.tokenizer.endsWith('.json') ? [['data.tokenizer', data.tokenizer]] : []),
    ...(data?.routing === undefined ? [] : [['data.routing', data.routing]]),
    ...(typeof schedule === 'string' ? [] : [['plan.schedule', schedule.file]]),
  ]
  return named.flatMap(([field, name]) =>
    isInside(besides(path, name)) ? [] : [dataRefused(field, 'data/file/outside', { file: name })],
  )
}

/** Of what is not there, where it would be. */
function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    const above = dirname(path)
    return above === path ? path : resolve(realPath(above), path.slice(above.length).replace(/^[/\\]/, ''))
  }
}
