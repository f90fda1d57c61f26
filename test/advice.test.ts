/** Advice that helps: a change that is suggested was tried, and the data of a job is looked at before it runs. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { describe } from 'node:test'
import { compileJob, heaviest, memoryProblems } from '../src/compile/index.js'
import { Job } from '../src/plan/index.js'
import { later, test } from './families.js'
import { lockstep } from './memory-io.js'

const given = {
  model: { family: 'gpt', layers: 4, embed: 64, heads: 4, vocab: 256 },
  training: { seq: 64, globalBatch: 64 },
} as const
type PlanInput = Readonly<Record<string, unknown>>
const arenaOf = (plan: PlanInput): number => {
  const { streams } = compileJob(Job.parse({ ...given, plan }))
  return streams[heaviest(streams)].arena
}
const suggestionFor = (plan: PlanInput, deviceMemory: number): string => {
  const job = Job.parse({ ...given, plan: { ...plan, deviceMemory } })
  const [problem] = memoryProblems(compileJob(job), job)
  return problem?.suggestion ?? 'it fits'
}

describe('a plan that does not fit', () => {
  const plan = { dp: 2, tp: 2, pp: 2, microbatches: 4 }
  const most = arenaOf(plan)

  test('fits into what it needs', () => equal(suggestionFor(plan, most), 'it fits'))

  test('every change that is suggested fits, and says how much it needs', () => {
    for (const share of [0.95, 0.6, 0.3]) {
      const suggestion = suggestionFor(plan, share * most)
      match(suggestion, /^try /)
      for (const [, field, value] of suggestion.matchAll(/(\w+): (\w+) \(/g)) {
        const changed = { ...plan, [field]: value === 'true' ? true : /^\d/.test(value) ? Number(value) : value }
        ok(arenaOf(changed) <= share * most, `${field}: ${value} at ${share}`)
      }
    }
  })

  test('what could leave the device is suggested with the bytes that are left', () => {
    const bare = { recompute: 'full', microbatches: 64 }
    const [here, away] = [bare, { ...bare, offload: { optimizer: 'host' } }].map(arenaOf)
    match(suggestionFor(bare, here - 1), /^try offload.optimizer: host \([\d.]+ MiB\)/)
    ok(away < here)
  })

  later('where no single change is enough, all of them together', () => {
    const all = { ...plan, sequenceParallel: true, zero: 3, recompute: 'full', microbatches: 32 }
    match(
      suggestionFor(plan, arenaOf(all)),
      /^no single change is enough; try sequenceParallel: true, zero: 3, recompute: full/,
    )
    const offload = { optimizer: 'host', activations: 'layer-inputs' }
    const least = arenaOf({ ...all, offload })
    match(
      suggestionFor(plan, arenaOf(all) - 1),
      /zero: 3, recompute: full, microbatches: 32, offload.optimizer: host, offload.activations: layer-inputs \(/,
    )
    match(
      suggestionFor(plan, least - 1),
      /would still need .*: shard the model over more ranks, with a larger tp \(now 2\)/,
    )
  })
})

describe('check looks at the data', () => {
  const job = (data: string, training = 'seq: 8, globalBatch: 4') =>
    `{ model: { family: gpt, layers: 1, embed: 8, heads: 2, vocab: 256 }, training: { ${training} }, data: { ${data} } }`
  const files = {
    'text/a.txt': 'a'.repeat(20),
    'text/b.txt': 'b'.repeat(20),
    'ids.bin': new Uint8Array(40),
    'shards/a.bin': new Uint8Array(40),
  }
  const rows: [data: string, code: number, says: RegExp][] = [
    ['source: text', 0, /^gpt, 3\.00 k parameters, 1 rank; 1 stage of 1 layer; 1 microbatch of/],
    [
      'source: text/a.txt',
      0,
      /warning: data\.source: text\/a\.txt has at most 21 tokens, but one step of globalBatch 4 x seq 8 with 5 % for validation needs 34: sequences repeat/,
    ],
    ['source: ids.bin, evalFraction: 0.5', 0, /at most 20 tokens.*needs 65/],
    [
      'source: ids.bin, width: u32, evalFraction: 0.5',
      1,
      /error: data\.source: ids\.bin has at most 10 tokens, but one sequence of seq 8 with 50 % for validation needs 17/,
    ],
    ['source: shards', 1, /error: data\.source: there is no text file in shards/],
    ['source: nowhere.txt', 1, /job\.yaml:1:\d+: error: data\.source: cannot read nowhere\.txt: no such file/],
    ['source: text, tokenizer: no.json', 1, /data\.tokenizer: cannot read no\.json: no such file/],
    ['source: synthetic', 0, /^gpt, 3\.00 k parameters, 1 rank; 1 stage of 1 layer; 1 microbatch of/],
  ]
  for (const [data, code, says] of rows)
    test(data, async () => {
      const ran = await lockstep(['check', 'job.yaml'], { ...files, 'job.yaml': job(data) })
      equal(ran.code, code, ran.out)
      match(ran.out, says)
    })

  test('beside what the compiler finds, in the order of the file', async () => {
    const text =
      'model: gpt-tiny\ntraining: { seq: 8, globalBatch: 4 }\ndata: { source: no.bin }\nplan: { deviceMemory: 300KB }'
    const { out } = await lockstep(['check', 'job.yaml', '--json'], { 'job.yaml': text })
    const { problems } = JSON.parse(out) as { problems: { code: string }[] }
    deepEqual(
      problems.map(({ code }) => code),
      ['data/file', 'plan/memory'],
    )
  })
})
