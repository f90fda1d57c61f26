/** What the planner's commands say to nonsense: a sentence for people, the same as JSON, and never a stack trace. */
import { equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { lockstep } from './memory-io.js'

const files = {
  'job.yaml': 'model: llama3-8b\ntraining: { seq: 4096, globalBatch: 64 }\nplan: { dp: 8, zero: 1, microbatches: 8 }\n',
  'half.yaml': 'model: gpt2\ntraining: { seq: 64, globalBatch: 8 }\nplan: { dp: 2, precision: bf16 }\n',
  'mlp.yaml': 'model: mlp-tiny\ntraining: { seq: 4, globalBatch: 8 }\nplan: { dp: 2 }\n',
  'fields.yaml': 'device: h100\ndevicez: 8\n',
  'shape.yaml': 'device: { name: x }\ndevices: -4\ntopology: 3\n',
  'list.yaml': '[1, 2]\n',
  'open.yaml': '{\n',
  'folder/file': '',
}

const asked = 'plan --model llama3-8b --seq 4096 --global-batch 64 --no-simulate --no-why'
const h100 = '--cluster h100 --devices 8'
const scale = 'scale --model llama3-8b --seq 4096 --global-batch 64'

const problems: readonly [command: string, says: RegExp][] = [
  [`${asked} --cluster h10 --devices 8`, /unknown device `h10`; did you mean `h100`\?/],
  [`${asked} --cluster h100`, /say how many there are/],
  [`${asked} --cluster no.yaml`, /cannot read the cluster `no.yaml`: no such file/],
  [`${asked} --cluster fields.yaml`, /unknown key `devicez`; did you mean `device`/],
  [`${asked} --cluster shape.yaml`, /devices: must be at least 1, got -4/],
  [`${asked} --cluster list.yaml`, /a cluster is a mapping/],
  [`${asked} --cluster open.yaml`, /not valid YAML/],
  [`${asked} ${h100} --constraint tp~8 foo=1`, /'foo=1': unknown field foo/],
  [`${asked} ${h100} --out folder`, /cannot write folder: is a directory/],
  [`${asked} ${h100} --out absent/job.yaml`, /cannot write absent\/job.yaml: there is no folder absent/],
  [
    `${asked} --cluster a100 --devices 8 --precision fp8`,
    /A100.* does not support fp8 matmuls; it supports f32, tf32, f16 or bf16/,
  ],
  [`${asked} --cluster v100 --devices 64`, /V100.* does not support bf16 matmuls; it supports f32 or f16/],
  [`simulate job.yaml --cluster v100 --multiply tf32`, /V100.* does not support tf32 matmuls; it supports f32 or f16/],
  [`simulate half.yaml --cluster v100`, /V100.* does not support bf16 matmuls; it supports f32 or f16/],
  [`explain half.yaml --cluster v100`, /V100.* does not support bf16 matmuls; it supports f32 or f16/],
  [`simulate job.yaml --cluster h100 --svg folder`, /cannot write folder: is a directory/],
  [
    `simulate job.yaml --cluster h100 --trace folder --svg no/a.svg`,
    /folder: is a directory[\s\S]*there is no folder no/,
  ],
  [`simulate job.yaml --cluster shape.yaml`, /topology: expected a mapping, got 3/],
  [`simulate no.yaml --cluster h100`, /cannot read the job: no such file/],
  [`explain no.yaml --cluster h100`, /cannot read the job: no such file/],
  [`explain mlp.yaml --cluster h100`, /no cost model for an mlp/],
  [`explain job.yaml --cluster nope`, /unknown device `nope`/],
  [`${scale} --cluster nope --devices 8,16`, /unknown device `nope`/],
  [`cluster show nope`, /unknown device `nope`/],
  [`cluster show shape.yaml`, /device\.peak: is missing/],
  [`cluster show h100 --devices 8 --svg folder`, /cannot write folder: is a directory/],
  [`validate --rows no.csv`, /no.csv: no such file/],
  [`calibrate --read no.json`, /cannot read no.json: no such file/],
]

const full = () => {
  throw new Error('is a directory')
}

for (const [command, says] of problems)
  test(`lockstep ${command}`, async () => {
    const { code, err } = await lockstep(command.split(' '), files, { write: full })
    equal(code, 1)
    match(err, says)
    ok(!/internal|\n +at /.test(err), err)
    const json = await lockstep([...command.split(' '), '--json'], files, { write: full })
    equal(json.code, 1)
    equal(json.err, '')
    const { ok: fine, problems } = JSON.parse(/\{\s*"ok": ?false[\s\S]*$/.exec(json.out)?.[0] ?? '')
    equal(fine, false)
    const said = problems.map((p: Record<string, string>) => `${p.path}: ${p.message}; ${p.suggestion}`).join('\n')
    match(said, says)
  })

test('a problem in a cluster file names the file, the line and the column', async () => {
  const { err } = await lockstep(`${asked} --cluster shape.yaml`.split(' '), files)
  match(err, /^shape\.yaml:2:10: error: devices/m)
})

for (const [command, says] of [
  [`${asked} --cluster h100 --devices -3`, /expected an integer/],
  [`${asked} --cluster h100 --devices 0`, /expected an integer >= 1/],
  [`${asked} ${h100} --software foo`, /--software: `foo` is not one of its values; one of lockstep, /],
  [`${asked} ${h100} --quick --simulate 3`, /--quick cannot be combined with --simulate/],
  [`simulate job.yaml --cluster h100 --measured-step 0s`, /expected a time above 0/],
  [`simulate job.yaml --cluster h100 --measured-step -4s`, /expected a time/],
  [`simulate job.yaml --cluster h100 --mtbf 0h`, /expected a time above 0/],
  [`simulate job.yaml --cluster h100 --mtbf 1e999h`, /expected a time/],
  [`explain job.yaml --cluster h100 --measured-step 0`, /expected a time above 0/],
  [`${scale} --cluster h100 --devices 0`, /expected numbers such as 8,16,1k/],
] as const)
  test(`lockstep ${command}: usage error`, async () => {
    const { code, out, err } = await lockstep(command.split(' '), files)
    equal(code, 2)
    equal(out, '')
    match(err, says)
  })
