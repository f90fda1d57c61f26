/** Pictures of README and docs show what commands print today. `node scripts/pictures.mjs` makes them anew. */
import { equal, match, ok, throws } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { later } from './families.js'

const script = (name: string) => import(new URL(`../../scripts/${name}.mjs`, import.meta.url).href)
const picture = (name: string): string => readFileSync(`docs/images/${name}`, 'utf8')

later('the simulated step is that of examples/jobs/llama3-70b.yaml', async () => {
  const { stepPicture } = await script('pictures')
  equal(stepPicture(), picture('step.svg'))
})

later('the terminal shows what the commands print', async () => {
  const { terminalPicture } = await script('pictures')
  equal(terminalPicture(), picture('terminal.svg'))
})

test('plots show the numbers of bench/ and validation/ (node scripts/plots.mjs writes them)', async () => {
  const { plots } = await script('plots')
  for (const [path, text] of Object.entries(plots() as Readonly<Record<string, string>>))
    ok(readFileSync(path, 'utf8') === text, `${path} is older than its numbers`)
})

test('a row of results that is gone or ambiguous is an error, not an empty plot', async () => {
  const { rowOf } = await script('plots')
  throws(() => rowOf('bench/README.md', 'nothing', () => false), /0 rows of nothing/)
  throws(() => rowOf('bench/README.md', 'everything', () => true), /rows of everything/)
})

test('a terminal picture escapes text, colors it, and shows all of it where nothing is animated', async () => {
  const { terminalSvg } = await script('terminal-svg')
  const svg: string = terminalSvg('title', [
    { command: 'a < b', lines: ['\x1b[1m\x1b[32mbold\x1b[0m plain & more', ''] },
  ])
  match(svg, /a &lt; b/)
  match(svg, /<tspan font-weight="700" fill="#7ee787">bold<\/tspan><tspan> plain &amp; more<\/tspan>/)
  match(svg, /@keyframes not-yet\{from,to\{opacity:0\}\}/)
  equal(svg.match(/<text /g)?.length, 3)
})
