import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { clusterOf, deviceNames } from '../src/cluster/index.js'
import { topologySvg, topologyText } from '../src/report/index.js'
import { lockstep } from './memory-io.js'

const files = {
  'mine.yaml': '{ device: h100, devices: 24576, pod: 3072, oversubscription: 7 }',
  'slip.yaml': 'device: h1000\ndevices: 0\nnics: 4\n',
}

const dedent = (text: string): string => text.replace(/^\n/, '').replace(/^ {4}/gm, '').trimEnd()

const pictures: [name: string, devices: number, picture: string][] = [
  ['h100', 4, 'node of 4 devices: NVLink, 450 GB/s per device\n■ ■ ■ ■'],
  [
    'h100',
    20,
    `
    fabric of 20 devices: InfiniBand, 8 x 50 GB/s per node
    ├─ node 0: NVLink, 450 GB/s per device
    │  ■ ■ ■ ■ ■ ■ ■ ■
    ├─ node 1
    │  ■ ■ ■ ■ ■ ■ ■ ■
    └─ node 2
       ■ ■ ■ ■`,
  ],
  [
    'a100',
    64,
    `
    fabric of 64 devices: InfiniBand, 8 x 25 GB/s per node
    ├─ node 0: NVLink, 300 GB/s per device
    │  ■ ■ ■ ■ ■ ■ ■ ■
    ├─ node 1
    │  ■ ■ ■ ■ ■ ■ ■ ■
    ┆  5 more
    └─ node 7
       ■ ■ ■ ■ ■ ■ ■ ■`,
  ],
  [
    'tpu-v4',
    16,
    `
    4 x 2 x 2 torus, 1 of 3 dims are rings: ICI, 45 GB/s one way per link
     ■──■
     │  │
     ■──■
    4 such layers, in a ring`,
  ],
  [
    'tpu-v5e',
    8,
    `
    4 x 2 torus, no dim wraps: ICI, 45 GB/s one way per link
     ■──■
     │  │
     ■──■
     │  │
     ■──■
     │  │
     ■──■`,
  ],
]
for (const [name, devices, picture] of pictures)
  test(`${devices} ${name} in letters`, () =>
    equal(topologyText(clusterOf(name, devices).topology, devices), dedent(picture)))

for (const name of deviceNames)
  test(`${name} as SVG: tags close, no number is broken, every device of a small cluster is drawn`, () => {
    const svg = topologySvg({ title: 'a < b & c', subtitle: '', cluster: clusterOf(name, 8) })
    equal(svg.match(/class="device/g)?.length, 8)
    ok(!/="[^"]*(NaN|undefined|Infinity)/.test(svg))
    match(svg, /a &lt; b &amp; c/)
    const opened = svg.match(/<(?!\/)(?!\?)[a-z]+[^>]*[^/]>/g) ?? []
    equal(opened.length, svg.match(/<\/[a-z]+>/g)?.length)
  })

test('cluster list has a row for every device, and the same as JSON', async () => {
  const { out } = await lockstep(['cluster', 'list'])
  for (const name of deviceNames) match(out, new RegExp(`^${name} +\\S`, 'm'))
  const { out: json } = await lockstep(['cluster', 'list', '--json'])
  deepEqual(
    JSON.parse(json).map((device: { name: string }) => device.name),
    deviceNames,
  )
})

test('cluster show reads a file, draws it and writes a picture', async () => {
  const { code, out, written } = await lockstep(['cluster', 'show', 'mine.yaml', '--svg', 'mine.svg'], files)
  equal(code, 0)
  match(
    out,
    /24576 x NVIDIA H100[\s\S]*24\.3 EFLOP\/s[\s\S]*pod 0: .*7 : 1 oversubscribed[\s\S]*Sources\n- NVIDIA H100/,
  )
  match(written['mine.svg'], /^<svg [\s\S]*7 : 1 at its top[\s\S]*<\/svg>\n$/)
})

test('what cluster show --json prints is a cluster file', async () => {
  const { out } = await lockstep(['cluster', 'show', 'gb200', '--devices', '144', '--json'])
  const again = await lockstep(['cluster', 'show', 'again.json', '--json'], { 'again.json': out })
  deepEqual(JSON.parse(again.out), JSON.parse(out))
  const more = await lockstep(['cluster', 'show', 'again.json', '--devices', '288', '--json'], { 'again.json': out })
  deepEqual(JSON.parse(more.out).topology, clusterOf('gb200', 288).topology)
})

const wrong: [argv: string[], code: number, message: RegExp][] = [
  [['show', 'h10'], 1, /unknown device `h10`; did you mean `h100`\?/],
  [['show', 'none.yaml'], 1, /cannot read the cluster `none.yaml`: no such file/],
  [
    ['show', 'slip.yaml'],
    1,
    /device: unknown device `h1000`[\s\S]*devices: must be at least 1[\s\S]*nics: unknown key `nics`/,
  ],
  [['show', 'h100', '--devices', '0'], 2, /--devices: `0`: expected an integer >= 1/],
  [['show', 'h100', '--devices', 'many'], 2, /expected an integer/],
  [['show', 'tpu-v6e', '--devices', '257'], 1, /257 devices cannot be divided into 2 equal slices/],
]
for (const [argv, expected, message] of wrong)
  test(`cluster ${argv.join(' ')}: exit code ${expected}, ${message.source.slice(0, 40)}`, async () => {
    const { code, err } = await lockstep(['cluster', ...argv], files)
    equal(code, expected)
    const sorted = err.split('\n').sort().join('\n')
    match(sorted, message)
  })
