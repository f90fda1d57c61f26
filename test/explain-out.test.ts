/** `explain --out` writes the job with the best plan found, as `plan --out` does. */
import { equal, match, ok } from 'node:assert/strict'
import { parse } from 'yaml'
import { later, test } from './families.js'
import { lockstep } from './memory-io.js'

const job = `# Ours.
model: llama3-8b # as released
training: { seq: 8192, globalBatch: 64 }
plan: { dp: 8, zero: 1, precision: bf16 }
`

later('the plan written is the best one; comments of the job stay, and it explains as the best', async () => {
  const explain = ['explain', 'job.yaml', '--cluster', 'h100']
  const { code, out, err, written } = await lockstep([...explain, '--out', 'better.yaml'], { 'job.yaml': job })
  equal(code, 0, err)
  match(out, /Best plan found[\s\S]*written: better\.yaml/)
  ok(!out.includes('--out job.yaml'))
  const text = written['better.yaml']
  match(
    text,
    /^# The fastest plan found for 8 x NVIDIA H100[^\n]*\n# [\d.]+ m?s\/step\. Written by lockstep explain\.\n# Ours\.\nmodel: llama3-8b # as released/,
  )
  ok(JSON.stringify(parse(text).plan) !== JSON.stringify(parse(job).plan))
  const seconds = Number(/# ([\d.]+) s\/step/.exec(text)?.[1])
  const again = await lockstep(['explain', 'better.yaml', '--cluster', 'h100', '--json'], written)
  equal(again.code, 0, again.err)
  ok(Math.abs(JSON.parse(again.out).step / seconds - 1) < 1e-3)
})

test('a plan that does not fit is answered with the fastest that does', async () => {
  const { out } = await lockstep(['explain', 'job.yaml', '--cluster', 'h100'], { 'job.yaml': job })
  match(
    out,
    /Best plan found: [\d.]+ s \((simulated|estimated)\), the fastest that fits\n[\s\S]*`--out job\.yaml` writes it\n[\s\S]*does not fit: /,
  )
})
