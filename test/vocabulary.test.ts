/** One vocabulary: the words of the studio are those of docs/zh/glossary.md, and words that were given up stand nowhere. */
import { equal, ok } from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { glossary } from '../studio/text/glossary.js'

const rowsOf = (path: string): string[][] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter(line => /^\| [^-|]/.test(line))
    .map(line => line.split('|').map(cell => cell.trim()))

/** English names of a row, and its Chinese. */
const rows = rowsOf('docs/zh/glossary.md').map(([, en, zh]) => ({ names: en.split(', '), words: zh.split('、') }))

test('terms that docs and studio both have are the same words', () => {
  const shared = Object.entries(glossary).flatMap(([name, term]) => {
    const of = (names: readonly string[]) =>
      names.some(one => [name, term.en, `${term.en}s`].includes(one) || `${one}s` === term.en)
    const row = rows.find(({ names }) => of(names))
    return row ? [{ term, row }] : []
  })
  ok(shared.length >= 18, `only ${shared.length} are in both`)
  for (const { term, row } of shared) ok(row.words.includes(term.zh), `${term.en}: ${term.zh}, but ${row.words}`)
})

/** Words that something else has now: what they are, and what is said instead. */
const givenUp: readonly (readonly [RegExp, string])[] = [
  [/激活(?![值函])/, '激活值'],
  [/微批(?!次)|小批次/, '微批次'],
  [/管道并行|流水并行/, '流水线并行'],
  [/(?<!流水线)阶段 ?[\d$]|阶段数/, 'stage'],
  [/检查站|存档点/, '检查点'],
  [/显卡内存/, '显存'],
  [/内核/, 'kernel'],
  [/全局批次/, '全局 batch'],
  [/重算激活/, '重计算'],
]

const sources = readdirSync('studio', { recursive: true, encoding: 'utf8' })
  .filter(file => /\.tsx?$/.test(file))
  .map(file => join('studio', file))
const pages = readdirSync('docs/zh', { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.md'))
  .map(file => join('docs/zh', file))

test('words that were given up stand nowhere', () => {
  const found = [...sources, ...pages].flatMap(file =>
    readFileSync(file, 'utf8')
      .split('\n')
      .flatMap((line, n) =>
        givenUp.flatMap(([word, instead]) => (word.test(line) ? [`${file}:${n + 1} ${instead}: ${line.trim()}`] : [])),
      ),
  )
  equal(found.join('\n'), '')
})
