/** What other systems answer to the same question: files made by their own generators (test/fixtures/README.md). */
import { existsSync, readdirSync, readFileSync } from 'node:fs'

const root = process.env.LOCKSTEP_FIXTURES ?? 'test/fixtures'

/** Of the repository's own set it is known what it has; of others only what form they have. */
export const isOwnSet = process.env.LOCKSTEP_FIXTURES === undefined

/** The path of a file or a folder, of which the set must have one. */
export function fixturePath(path: string): string {
  if (!existsSync(root)) throw new Error(`there is no folder ${root}, which LOCKSTEP_FIXTURES names`)
  if (!existsSync(`${root}/${path}`)) throw new Error(`the fixtures in ${root} have no ${path}`)
  return `${root}/${path}`
}

/** One of this repository, whatever set is tested: where a test is about one model. */
export const ownFixture = (path: string): string => `test/fixtures/${path}`

export const readFixture = (path: string): string => readFileSync(fixturePath(path), 'utf8')

export const fixtureNames = (folder: string, pattern: RegExp): string[] =>
  namesIn(folder, name => pattern.test(name), pattern.source)

/** Folders of a folder, one for each case. */
export const fixtureFolders = (folder: string): string[] =>
  namesIn(folder, name => existsSync(`${root}/${folder}/${name}/expected.json`), '*/expected.json')

function namesIn(folder: string, holds: (name: string) => boolean, pattern: string): string[] {
  const names = readdirSync(fixturePath(folder)).filter(holds)
  if (names.length === 0) throw new Error(`the fixtures in ${root}/${folder} have no ${pattern}`)
  return names.sort()
}
