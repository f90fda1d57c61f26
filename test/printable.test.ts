/** Names and cells of others are shown, never obeyed: by no terminal, and no SVG is broken by them. */
import { equal, match, ok } from 'node:assert/strict'
import { printable } from '../src/base/index.js'
import { colorsOf, onTerminal } from '../src/cli/text/colors.js'
import { escapeXml } from '../src/report/svg.js'
import { family, test } from './families.js'
import { lockstep } from './memory-io.js'

const hostile = [
  '\x1b[2J\x1b[31mred',
  'title\x1b]0;gone\x07',
  '\x9b31mC1',
  'back\b\b\bspace',
  'new\nerror: line',
  'return\rover',
  'nul\0',
  'del\x7f',
  'right\u202eto left\u2066',
  'line\u2028separator',
  'half\ud800surrogate',
  'no character\uffff',
  `mark\ufdd0${colorsOf({ colors: true }).red('').slice(1, 4)}`,
  '<b>&"\'</b>]]>',
]

/** Everything a terminal might obey, but for lines and tabs. */
const obeyed = /(?![\n\t])[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is what this test is about
const colour = /\x1b\[(?:1|2|22|3[1-6]|39)m/g
/** What XML 1.0 allows. */
const xml = /^[\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]*$/u

test('a name is shown on one line, and the same again in JSON', () => {
  equal(printable('plain – ünïcode 日本 🎉'), 'plain – ünïcode 日本 🎉')
  equal(printable('a\x1b[0m\n\u202eb'), 'a\\u001b[0m\\u000a\\u202eb')
  for (const name of hostile) {
    ok(!/\n/.test(printable(name)) && !obeyed.test(printable(name)), JSON.stringify(name))
    equal(JSON.parse(onTerminal(JSON.stringify(name))), name)
    match(escapeXml(name), xml)
    ok(!/[<>"]|&(?!amp;|lt;|gt;|quot;)/.test(escapeXml(name)), 'nothing of it is markup')
  }
})

test('colours of ours are escape sequences, those of a name are text', () => {
  const { red, bold } = colorsOf({ colors: true })
  equal(onTerminal(red(`a ${bold('b')}\n`)), '\x1b[31ma \x1b[1mb\x1b[22m\n\x1b[39m')
  equal(onTerminal(red('\x1b[32m')), '\x1b[31m\\u001b[32m\x1b[39m')
  equal(colorsOf({ colors: false }).red('a'), 'a')
})

const job = (name: string) => ({
  ...{ name, model: { family: 'gpt', layers: 2, embed: 8, heads: 2, vocab: 16 } },
  ...{ training: { seq: 4, globalBatch: 4 }, plan: { dp: 2 } },
})
const cluster = (name: string) => ({ device: 'h100', devices: 2, name })

/** Commands that show a name, or complain of it. */
// biome-ignore format: a command a line
const commands: readonly (readonly [string, (name: string) => string, ...string[]])[] = [
  ['check', name => JSON.stringify(job(name)), 'check', 'file'],
  ['an unknown key', name => JSON.stringify({ ...job('a'), [name]: 1 }), 'check', 'file'],
  ['a preset that is none', name => JSON.stringify({ ...job('a'), model: name }), 'check', 'file'],
  ['a value that is none', name => JSON.stringify({ ...job('a'), plan: { schedule: name } }), 'check', 'file'],
  ['data that are not there', name => JSON.stringify({ ...job('a'), data: { source: name } }), 'train', 'file', '--out', 'run'],
  ['YAML that is none', name => `name: ${name}: {`, 'check', 'file'],
  ['simulate', name => JSON.stringify(job(name)), 'simulate', 'file', '--cluster', 'h100'],
  ['explain', name => JSON.stringify(job(name)), 'explain', 'file', '--cluster', 'h100'],
  ['compile', name => JSON.stringify(job(name)), 'compile', 'file', '--text'],
  ['compile --json', name => JSON.stringify(job(name)), 'compile', 'file', '--text', '--json'],
  ['a cluster', name => JSON.stringify(cluster(name)), 'cluster', 'show', 'file'],
  ['cells of a schedule', name => `0F0,${name},0B0`, 'schedule', '--file', 'file'],
  ['a program', name => `program ${name}`, 'verify', 'file'],
]
const tested = family('printable names', 3)
for (const [what, file, ...args] of commands)
  tested(`${what}: no control character of a name reaches the terminal`, async () => {
    for (const name of hostile)
      for (const colors of [false, true]) {
        const { out, err } = await lockstep(args, { file: file(name) }, { colors })
        const ours = colors ? colour : /$^/g
        for (const text of [out, err])
          ok(!obeyed.test(text.replace(ours, '')), JSON.stringify([name, text.slice(0, 400)]))
        ok(out + err !== '')
      }
  })

test('an option that is none, and a file that is not there', async () => {
  for (const name of hostile)
    for (const args of [['check', name], ['plan', `--${name}`, name], [name]]) {
      const { out, err } = await lockstep(args)
      ok(out + err !== '' && !obeyed.test(out + err), JSON.stringify([out, err]))
    }
})

test('pictures stay XML', async () => {
  for (const name of hostile) {
    const files = { job: JSON.stringify(job(name)), cluster: JSON.stringify(cluster(name)) }
    for (const args of [
      ['simulate', 'job', '--cluster', 'h100', '--svg', 'picture.svg'],
      ['cluster', 'show', 'cluster', '--svg', 'picture.svg'],
    ]) {
      const { written, err } = await lockstep(args, files)
      const svg = written['picture.svg']
      ok(svg?.startsWith('<svg'), `${args} ${err}`)
      match(svg, xml)
      ok(!obeyed.test(svg))
      equal(svg.match(/<(?!\/)/g)!.length, svg.match(/<\/|\/>/g)!.length, 'every element is closed')
    }
  }
})
