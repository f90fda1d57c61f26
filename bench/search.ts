/**
 * The search: plans priced a second, and how long the plan for Llama 3 405B on 16,384 H100 takes to find. Times are
 * processor time of one thread; of whole commands (`plan --quick`), each in a process of its own, the clock's. Calculon, where there is a checkout of it (CALCULON=folder), searches GPT-3 175B on 64
 * A100 on one processor, and says itself how many plans a second it calculates; we price every plan of the same request.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { clusterOf } from '../src/cluster/index.js'
import { EstimateBook, type FrameworkName, frameworks, shapeOf } from '../src/estimate/index.js'
import { ModelConfig, type PresetName, presets } from '../src/model/index.js'
import { type Found, type Request, search } from '../src/search/index.js'
import type { Options, Say } from './main.js'
import { Missing, root, unlessMissing } from './peers.js'
import { type Result, statistics } from './race.js'
import { showSeconds } from './report.js'

interface Asked {
  readonly model: PresetName
  readonly device: string
  readonly devices: number
  readonly seq: number
  readonly batch: number
  readonly software: FrameworkName
}

const llama405b: Asked = {
  ...{ model: 'llama3-405b', device: 'h100', devices: 16_384, seq: 8192, batch: 2048, software: 'lockstep' },
}
const gpt175b: Asked = {
  ...{ model: 'gpt3-175b', device: 'a100', devices: 64, seq: 2048, batch: 64, software: 'megatron-2022' },
}

/** Built anew for every run: prices are remembered by these objects, and nobody's cache is warm at the first search. */
function requestOf({ model: name, device, devices, seq, batch, software }: Asked): Request {
  const parsed = ModelConfig.parse(presets[name])
  if (parsed.family === 'mlp') throw new Error(`internal: ${name} has no attention`)
  const model = { ...parsed, vocab: Math.ceil(parsed.vocab / 128) * 128 }
  return {
    ...{ model, shape: shapeOf(model, seq)!, globalBatch: batch, cluster: clusterOf(device, devices) },
    ...{ precision: 'bf16', software: frameworks[software], constraints: [], book: new EstimateBook() },
  }
}

/** Seconds of processor time. */
function timed(asked: Asked, prune: boolean): { found: Found; seconds: number } {
  const started = process.cpuUsage()
  const found = search(requestOf(asked), { keep: 300, prune })
  const { user, system } = process.cpuUsage(started)
  return { found, seconds: (user + system) / 1e6 }
}

function searched(title: string, asked: Asked, prune: boolean, rounds: number): Result {
  timed(asked, prune) // the first run is the compiler's
  const runs = Array.from({ length: rounds }, () => timed(asked, prune))
  const { counts } = runs[0].found
  const times = runs.map(({ seconds }) => seconds)
  const rate = Math.round(counts.priced / Math.min(...times))
  const notes = [`${counts.considered} plans considered, ${counts.priced} priced, ${rate} a second`]
  return { title, entries: [{ name: 'lockstep', ...statistics(times) }], notes }
}

/** Commands that are to answer within two seconds. */
const commands = {
  'plan --quick, 405B at 131,072 tokens on 16,384 H100':
    '--model llama3-405b --cluster h100 --devices 16384 --seq 131072 --global-batch 128',
  'plan --quick, DeepSeek-V3 on 2,048 H800':
    '--model deepseek-v3 --cluster h800 --devices 2048 --seq 4096 --global-batch 15360',
}

function commanded(title: string, line: string, rounds: number): Result {
  const run = (): { seconds: number; out: string } => {
    const from = performance.now()
    const args = ['bin/lockstep.mjs', 'plan', '--quick', ...line.split(' ')]
    const out = execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
    return { seconds: (performance.now() - from) / 1000, out }
  }
  const { out } = run() // what V8 has compiled is kept for the others
  const best = out.split('\n').find(one => one.startsWith('1  '))
  const times = Array.from({ length: rounds }, () => run().seconds)
  return { title, entries: [{ name: 'lockstep', ...statistics(times) }], notes: [`the best: ${best}`] }
}

const rateLine = /Calculation rate: ([\d.]+) calcs\/sec/
const countLine = /Total executions: (\d+)/

async function calculon(): Promise<Result> {
  const folder = process.env.CALCULON
  const hint = 'git clone https://github.com/calculon-ai/calculon, and CALCULON=its folder'
  if (folder === undefined) throw new Missing(`Calculon is not there: ${hint}`)
  const [model, system] = ['models/gpt3-175B.json', 'systems/a100_80g.json'].map(path => join(folder, path))
  if (!existsSync(model) || !existsSync(system)) throw new Missing(`no ${model} or no ${system}: ${hint}`)
  const out = join(tmpdir(), 'lockstep-calculon.json')
  const args = [join(folder, 'bin/calculon'), 'llm-optimal-execution', model, '64', '64', 'float16', system, out]
  const python = process.env.LOCKSTEP_PYTHON ?? 'python3'
  const { stdout, stderr, status } = spawnSync(python, [...args, '--cpus', '1', '--mbs-break'], {
    ...{ cwd: root, env: { ...process.env, PYTHONPATH: folder }, encoding: 'utf8' },
  })
  const said = `${stdout}\n${stderr}`
  const [rate, count] = [rateLine, countLine].map(line => Number(line.exec(said)?.[1]))
  if (status !== 0 || !(rate > 0)) throw new Missing(`Calculon does not run: ${said.trim().split('\n').at(-1)}`)
  const title = 'GPT-3 175B on 64 A100, Calculon'
  const notes = [`${count} plans, ${rate} a second`]
  return { title, entries: [{ name: 'Calculon', ...statistics([count / rate]) }], notes }
}

export async function searching(say: Say, { rounds = 5, only = '' }: Options = {}): Promise<Result[]> {
  const cases: readonly (readonly [string, Asked, boolean])[] = [
    ['405B on 16,384 H100, the search', llama405b, true],
    ['405B on 16,384 H100, every plan', llama405b, false],
    ['GPT-3 175B on 64 A100, every plan', gpt175b, false],
  ]
  const results = cases
    .filter(([title]) => title.includes(only))
    .map(([title, asked, prune]) => {
      say(`${title} ...`)
      return searched(title, asked, prune, rounds)
    })
  for (const [title, line] of Object.entries(commands)) {
    if (!title.includes(only)) continue
    say(`${title} ...`)
    results.push(commanded(title, line, rounds))
  }
  const peer = await unlessMissing(calculon, say)
  return peer ? [...results, peer] : results
}

export const showSearching = (results: readonly Result[]): string =>
  results
    .map(({ title, entries: [entry], notes = [] }) =>
      'wrong' in entry
        ? `${title}: wrong: ${entry.wrong}`
        : `${title}: ${showSeconds(entry.best)}; ${notes.join(', ')}`,
    )
    .join('\n')
