/**
 * The engine on parts of a line, views, collectives of several tensors and calls that only start: small programs by hand,
 * with native kernels and with WebAssembly, against the one-rank program and, for sums of whole numbers, to the bit.
 */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { compareRun, runSerial } from '../src/engine/index.js'
import { nativeMissing, Pool, startEngine } from '../src/engine/native/index.js'
import { type Program, parse } from '../src/ir/index.js'
import { isWithinBounds, type Kind, record } from './recorded.js'
import { type Toy, toy } from './toy.js'

const pool = new Pool()
after(() => pool.close())

const options = { steps: 3, seed: 5, lr: 0.05, vocab: 1 }
const skipOf = (kernels: Kind) => (kernels === 'native' && nativeMissing()) || false

const odd = { embed: 5, ffn: 7 }
const plans: readonly Toy[] = [
  ...([1, 3] as const).flatMap(zero =>
    ([1, 2] as const).flatMap(pp => [false, true].map(tied => ({ zero, dp: 2, pp, tied, ...odd }))),
  ),
  { zero: 1, dp: 4, ...odd },
  { zero: 3, dp: 4, ...odd },
  { zero: 3, dp: 4, embed: 1, ffn: 2 },
  { zero: 1, dp: 2, tp: 2, pp: 2 },
  { zero: 3, dp: 2, tp: 2, pp: 2, tied: true },
]

for (const plan of plans)
  for (const kernels of ['native', 'wasm'] as const)
    test(`${kernels}: ${JSON.stringify(plan)} computes what one rank computes`, { skip: skipOf(kernels) }, async () => {
      const { embed = 6, ffn = 8, tied = false } = plan
      const program = toy(plan)
      const serial = runSerial(toy({ embed, ffn, tied }), options)
      isWithinBounds(compareRun(program, await record(program, kernels, pool, options), serial))
    })

/**
 * Tensors of several sizes, each the sum over three ranks: scattered into parts, which are gathered again, and reduced in
 * place. All of them at once, and large enough that a share is many pieces.
 */
function sums(sizes: readonly number[], ranks: number): Program {
  const line = (n: number) => ranks * Math.ceil(n / ranks)
  const each = (text: (n: number, i: number) => string) => sizes.map(text)
  const list = (name: string) => each((_, i) => `%${name}${i}`).join(' ')
  const all = each((n, i) =>
    [
      ...[`x${i} data ${n} [batch:1/dp m:${n}]`, `g${i} workspace ${line(n)} [m:${n}] sum:dp`],
      ...[`p${i} parameters ${Math.ceil(n / ranks)} [m:${n}] flat/dp`, `w${i} parameters ${line(n)} [m:${n}]`],
      `h${i} parameters ${n} [m:${n}] sum:dp`,
    ].join('\n'),
  ).flatMap(text => text.split('\n'))
  const roles = all
    .map(text => text.split(' '))
    .map(([name, kind, elements]) => ({ name, kind, bytes: 4 * Number(elements) }))
  const before = (index: number) =>
    roles.slice(0, index).reduce((sum, { bytes }) => sum + 64 * Math.ceil(bytes / 64), 0)
  const peak = (kind: string) => roles.filter(role => role.kind === kind).reduce((sum, { bytes }) => sum + bytes, 0)
  const param = (name: string, n: number, layout: string) => [
    `param ${name} [m:${n}]`,
    ...['kept', 'state'].map(use => `  ${use} []${layout}`),
    `  held 0 param=${roles.findIndex(role => role.name === name)}`,
  ]
  return parse(
    [
      ...['program sums', `mesh dp:${ranks}`, 'microbatches 1', 'stages 1', 'block b kind=b stage=0'],
      ...each((n, i) => `input x${i} f32 [batch:${ranks}/dp m:${n}]`),
      ...sizes.flatMap((n, i) => [
        ...param(`p${i}`, n, ' flat/dp'),
        ...param(`w${i}`, n, ''),
        ...param(`h${i}`, n, ''),
      ]),
      'segment main phase=F',
      ...roles.map(({ name, kind, bytes }) => `  role ${name} ${kind} ${bytes}`),
      ...all
        .map(text => /^(\S+) \S+ \S+ (.*)$/.exec(text)!)
        .map(([, name, type]) => `  buffer %${name} f32 @${name}+0 ${type}`),
      ...each((n, i) => `  buffer %s${i} f32 @h${i}+0 [m:${n}]`),
      ...each((_, i) => `  %x${i} = load input=x${i}\n  %g${i} = sumTo %x${i}\n  %h${i} = sumTo %x${i}`),
      `  ${list('p')} = reduce-scatter ${list('g')} over=dp`,
      `  ${list('s')} = all-reduce ${list('h')} combine=sum over=dp`,
      '  wait %p0',
      `  ${list('w')} = all-gather ${list('p')} over=dp`,
      ...['  wait %w0', '  wait %s0'],
      `stream 0 arena=${before(roles.length)}`,
      `  peak parameters:${peak('parameters')} gradients:0 optimizer:0 activations:0 workspace:${peak('workspace')} data:${peak('data')}`,
      ...roles.map(({ name, kind, bytes }, i) => `  frame ${i} ${name} ${kind} ${bytes} @${before(i)}`),
      `  resident ${roles.map((_, i) => i).join()}`,
      `  call main block=0 microbatch=0 bind=${roles.map((_, i) => i).join()}`,
    ].join('\n'),
  )
}

for (const kernels of ['native', 'wasm'] as const)
  for (const [ranks, sizes] of [
    [3, [100_003, 5, 70_000, 1]],
    [4, [33, 1, 2, 300_001]],
    [2, [65_536]],
  ] as const)
    test(`${kernels}: ${sizes.join(', ')} elements summed over ${ranks} ranks at one collective`, {
      skip: skipOf(kernels),
    }, async () => {
      const engine = await startEngine(sums(sizes, ranks), { seed: 1, kernels, pool, poison: true, timeoutMs: 20_000 })
      const value = (rank: number, i: number) => (rank + 1) * ((i % 11) - 3)
      const inputs = (name: string) => {
        const n = sizes[Number(name.slice(1))]
        return Float64Array.from({ length: ranks * n }, (_, i) => value(Math.floor(i / n), i % n))
      }
      await engine.step({ inputs, lr: 0, step: 0 })
      for (const [i, n] of sizes.entries()) {
        const expected = Float64Array.from({ length: n }, (_, at) => ((ranks * (ranks + 1)) / 2) * ((at % 11) - 3))
        for (const name of [`p${i}`, `w${i}`, `h${i}`]) {
          assert.deepEqual(engine.parameter(name), expected, name)
          assert.equal(engine.spread(name), 0)
        }
      }
      await engine.stop()
    })
