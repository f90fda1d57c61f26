// A model is blocks over named dims. The names are all a plan needs: `ffn` is split over tp, `batch` over dp, and the
// collectives fall out. This one mixes tokens with a gate instead of attention, and ties its head to its embedding.
import {
  boot,
  compile,
  defineModel,
  inputsOf,
  normal,
  ones,
  Plan,
  scheduleOf,
  syntheticData,
  Training,
  zeros,
} from '../src/index.js'

const gated = (batch: number) =>
  defineModel('gated', { batch, seq: 8, embed: 8, ffn: 16, vocab: 16 }, model => {
    model.block('embed', b => ({
      x: b.embed(b.input('tokens', ['batch', 'seq'], 'i32'), b.param('tokens', ['vocab', 'embed'], normal(0.2))),
    }))
    model.repeat('layers', 4, (b, { x }) => {
      const h = b.layerNorm(x, 'norm', ['embed'], 1e-5)
      const gate = b.contract(h, b.param('gate', ['embed', 'ffn'], normal(0.2)), ['batch', 'seq', 'ffn'])
      const up = b.contract(h, b.param('up', ['embed', 'ffn'], normal(0.2)), ['batch', 'seq', 'ffn'])
      const mixed = b.mul(b.swiglu(gate, up), b.param('scale', ['ffn'], ones))
      const down = b.contract(mixed, b.param('down', ['ffn', 'embed'], normal(0.2)), ['batch', 'seq', 'embed'])
      return { x: b.add(x, down, b.param('bias', ['embed'], zeros)) }
    })
    model.block('head', (b, { x }) => {
      b.crossEntropy(
        b.contract(x, b.tied('embed.tokens'), ['batch', 'seq', 'vocab']),
        b.input('labels', ['batch', 'seq'], 'i32'),
      )
      return {}
    })
  })

const training = Training.parse({ seq: 8, globalBatch: 8, optimizer: { kind: 'adamw', lr: 0.01 } })
for (const input of [
  {},
  { tp: 2, sequenceParallel: true },
  { dp: 2, pp: 2, zero: 3, microbatches: 4, schedule: 'zb-h1' },
] as const) {
  const plan = Plan.parse(input)
  const program = compile({ model: gated(8 / plan.microbatches), plan, training, schedule: scheduleOf(plan) })
  const machine = boot(program, { seed: 1, precision: 'f64' })
  const losses = [0, 1, 2].map(step => {
    const inputs = syntheticData(inputsOf(program), 16, 1)(0)
    return machine.step({ inputs, lr: 0.01, step }).loss.toFixed(6)
  })
  console.log(`${JSON.stringify(input)}: ${losses.join(' ')}`)
}

//> {}: 2.795864 2.696179 2.629306
//> {"tp":2,"sequenceParallel":true}: 2.795864 2.696179 2.629306
//> {"dp":2,"pp":2,"zero":3,"microbatches":4,"schedule":"zb-h1"}: 2.795864 2.696179 2.629306
