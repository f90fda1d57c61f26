/** What other systems answer to the same question: files made by their own generators (test/fixtures/README.md). */
import { readdirSync, readFileSync } from 'node:fs'

const root = process.env.LOCKSTEP_FIXTURES ?? 'test/fixtures'

export const fixturePath = (path: string): string => `${root}/${path}`

export const readFixture = (path: string): string => readFileSync(`${root}/${path}`, 'utf8')

export const fixtureNames = (folder: string, pattern: RegExp): string[] => {
  const names = readdirSync(`${root}/${folder}`).filter(name => pattern.test(name))
  if (names.length === 0) throw new Error(`${root}/${folder} has no file like ${pattern.source}`)
  return names.sort()
}
