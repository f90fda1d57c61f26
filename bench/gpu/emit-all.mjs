/** Emits every job of bench/gpu/jobs with its prediction: node bench/gpu/emit-all.mjs FOLDER [CLUSTER] */
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const [out, cluster = 'h200'] = process.argv.slice(2)
if (out === undefined) {
  console.error('usage: node bench/gpu/emit-all.mjs FOLDER [CLUSTER]')
  process.exit(2)
}
const at = path => fileURLToPath(new URL(path, import.meta.url))
for (const job of readdirSync(at('jobs')).sort()) {
  const folder = join(out, basename(job, '.yaml'))
  const args = ['emit', join(at('jobs'), job), '--cluster', cluster, '--out', folder]
  execFileSync(process.execPath, [at('../../bin/lockstep.mjs'), ...args], { stdio: 'inherit' })
}
