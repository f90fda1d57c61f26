/** The documentation is true: every command of every page runs and prints what stands there, in both languages. UPDATE=1 writes it anew. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { later, test } from './families.js'
import {
  blocksOf,
  chinesePages,
  headingsOf,
  linksOf,
  pages,
  proseOf,
  references,
  tableRowsOf,
  textOf,
  withBlocks,
} from './pages.js'
import { runPage } from './run-page.js'
import { missing } from './shown.js'

/** Pages whose commands take a second or so together; the others are left to the rest. */
const quick: readonly string[] = [
  'coming-from',
  'jobs',
  'clusters',
  'interop',
  'guides/cluster',
  'guides/first-job',
  'guides/memory',
].map(name => `docs/${name}.md`)

for (const { english, chinese } of pages) {
  const blocks = blocksOf(textOf(english))
  if (blocks.some(({ language }) => language === 'console'))
    (quick.includes(english) ? test : later)(
      `${english}: every command prints what stands there`,
      { timeout: 300_000 },
      async () => {
        const ran = await runPage(blocks)
        if (process.env.UPDATE) {
          writeFileSync(english, withBlocks(textOf(english), ran.blocks))
          if (existsSync(chinese)) writeFileSync(chinese, withBlocks(textOf(chinese), ran.blocks))
        }
        ok(ran.problems.length === 0, ran.problems.join('\n\n'))
      },
    )

  test(`${english}: commands for other machines have options that there are`, () => {
    for (const { body } of blocks.filter(({ language }) => language === 'sh'))
      for (const line of body.trim().split('\n')) checkWords(line)
  })

  test(`${chinese} is ${english} in Chinese`, () => {
    const ours = textOf(english)
    if (process.env.UPDATE) writeFileSync(chinese, withBlocks(textOf(chinese), blocksOf(ours)))
    const theirs = textOf(chinese)
    deepEqual(blocksOf(theirs), blocksOf(ours), 'blocks of code')
    deepEqual(
      headingsOf(theirs).map(({ level }) => level),
      headingsOf(ours).map(({ level }) => level),
      'headings',
    )
    equal(tableRowsOf(theirs), tableRowsOf(ours), 'rows of tables')
    deepEqual(untranslated(theirs), [], 'paragraphs without a word of Chinese')
  })

  test(`${english}, ${chinese}: links lead somewhere`, () => {
    for (const page of [english, chinese]) deepEqual(brokenLinks(page), [], page)
  })
}

for (const page of references) test(`${page}: links lead somewhere`, () => deepEqual(brokenLinks(page), []))

test('no Chinese page is left of an English one that is gone', () => {
  deepEqual(
    chinesePages().filter(page => !pages.some(({ chinese }) => chinese === page)),
    [],
  )
})

test('every block has a language: console, sh, that of a file, or text', () => {
  for (const { english } of pages)
    deepEqual(
      blocksOf(textOf(english)).filter(({ language }) => language === ''),
      [],
      english,
    )
})

test('docs/index.md leads to every page', () => {
  for (const [index, names] of [
    ['docs/index.md', pages.map(({ english }) => english)],
    ['docs/zh/index.md', pages.map(({ chinese }) => chinese)],
  ] as const) {
    const linked = linksOf(textOf(index)).map(link => join(dirname(index), link.split('#')[0]))
    deepEqual(
      [...names, ...references].filter(name => name !== index && !name.startsWith('README') && !linked.includes(name)),
      [],
    )
  }
})

test('docs/commands.md names every command, in both languages', () => {
  const commands = [...textOf('docs/cli.md').matchAll(/^## `lockstep ([a-z-]+)`$/gm)].map(([, name]) => name)
  ok(commands.length > 30)
  for (const page of ['docs/commands.md', 'docs/zh/commands.md'])
    deepEqual(
      commands.filter(name => !new RegExp(`\`${name}[\` ]`).test(textOf(page))),
      [],
      page,
    )
})

test('docs/cli.md is what the commands say of themselves, in both languages', async () => {
  const { cliPages } = await import(new URL('../../scripts/cli-page.mjs', import.meta.url).href)
  for (const [path, text] of Object.entries(await cliPages()))
    equal(textOf(path), text, `${path}: node scripts/cli-page.mjs writes it`)
})

test('a page that shows too much, too little or another number is found', () => {
  const printed = ['a', 'b 3', 'c']
  const cases: [shown: string[], lost: string | undefined][] = [
    [['a', 'b 3', 'c'], undefined],
    [['a', '...'], undefined],
    [['...', 'c'], undefined],
    [[], undefined],
    [['a', 'c'], 'c'],
    [['...', 'b 4', '...'], 'b 4'],
    [['a', 'b 3'], '(nothing more)'],
    [['...', 'a', 'b 3', 'c'], undefined],
  ]
  for (const [shown, lost] of cases) equal(missing('lockstep check', shown, printed), lost)
  const step = (loss: string, time: string) => [`step 1/9  loss ${loss}  ${time} ms/step`]
  equal(missing('lockstep train', step('5.54', '3.1'), step('5.55', '80')), undefined)
  ok(missing('lockstep train', step('5.54', '3.1'), step('5.84', '80')))
  ok(missing('lockstep simulate', step('5.54', '3.1'), step('5.54', '80')))
})

/** Lines for another machine: the options of lockstep, of launch.sh and of train.py are ones that there are. */
function checkWords(line: string): void {
  const words = line.replace(/#.*/, '').split(/\s+/)
  const own = words.includes('--') ? words.slice(0, words.indexOf('--')) : words
  const options = own.filter(word => /^--[a-z]/.test(word)).map(word => word.split('=')[0])
  // The command, not the folder of a clone.
  const at = words.findIndex((word, i) => word === 'lockstep' && (i === 0 || ['npx', '&&'].includes(words[i - 1])))
  const runtime = /launch\.sh|train\.py/.test(line)
  if ((at < 0 && !runtime) || /^--(help|version)$/.test(words[at + 1])) return
  const file = at < 0 ? 'src/emit/runtime/options.py' : `src/cli/words/${words[at + 1]}.ts`
  const text = [file, 'src/cli/text/checkpoint-options.ts', 'src/cli/text/fault-option.ts']
    .map(name => readFileSync(name, 'utf8'))
    .join('')
  for (const option of options) ok(text.includes(option), `${line}: no option ${option} in ${file}`)
}

function brokenLinks(page: string): string[] {
  return linksOf(textOf(page)).filter(link => {
    if (/^https?:/.test(link)) return false
    const [path, anchor] = link.split('#')
    const target = path === '' ? page : join(dirname(page), path)
    if (!existsSync(target)) return true
    return (
      anchor !== undefined && !headingsOf(textOf(target)).some(heading => heading.anchor === decodeURIComponent(anchor))
    )
  })
}

/** Paragraphs, headings and lists of a Chinese page that are still in another language. */
function untranslated(text: string): string[] {
  const paragraphs = proseOf(text)
    .split(/\n\s*\n/)
    .map(paragraph => paragraph.trim())
  return paragraphs.filter(paragraph => {
    const words = paragraph.replace(/`[^`]*`|\[[^\]]*\]\([^)]*\)/g, '')
    return (
      /[a-z]{3,} [a-z]{2,} [a-z]{2,}/.test(words) && !/\p{Script=Han}/u.test(words) && !/^\||^<|^ {4}/.test(paragraph)
    )
  })
}
