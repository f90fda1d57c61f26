/** The pages of docs/ are true: their files are read, their commands run. */
import { equal, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { lockstep } from './memory-io.js'

/** Fenced blocks of a page: files by the name in their first line, and lines of commands. */
function blocksOf(page: string) {
  const text = readFileSync(`docs/${page}`, 'utf8')
  const blocks = [...text.matchAll(/```(\w*)\n([\s\S]*?)```/g)].map(([, language, body]) => ({ language, body }))
  const files = blocks.flatMap(({ language, body }) => {
    const [, name] = /^# (\S+)\n/.exec(body) ?? []
    return language === 'yaml' && name ? [[name, body] as const] : []
  })
  const commands = blocks.filter(({ language }) => language === '').flatMap(({ body }) => body.trim().split('\n'))
  return { files: Object.fromEntries(files), commands }
}

for (const page of ['jobs.md', 'clusters.md'])
  test(`docs/${page}: every command of it runs on its files`, async () => {
    const { files, commands } = blocksOf(page)
    ok(commands.length > 1)
    const known: Record<string, string> = { ...files }
    for (const line of commands) {
      const [words, to] = line.split(' > ')
      const { code, out, err } = await lockstep(words.split(' ').slice(1), known)
      equal(code, 0, `${line}: ${out}${err}`)
      if (to !== undefined) known[to] = out
    }
  })
