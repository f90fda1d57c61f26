/** A world in memory: files are a record, and what a command printed can be read. */
import { run } from '../src/cli/main.js'

export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
  readonly written: Readonly<Record<string, string>>
}

export async function lockstep(argv: readonly string[], files: Readonly<Record<string, string>> = {}): Promise<Ran> {
  let [out, err] = ['', '']
  const written: Record<string, string> = {}
  const code = await run(argv, {
    out: text => {
      out += text
    },
    err: text => {
      err += text
    },
    read: path => {
      if (!Object.hasOwn(files, path)) throw new Error('no such file')
      return files[path]
    },
    write: (path, text) => {
      written[path] = text
    },
    colors: false,
    env: {},
  })
  return { code, out, err, written }
}
