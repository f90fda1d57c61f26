/** npm run bench -- [race ...] [--rounds n] [--only text] [--json]: races against what a user would pick instead. */
import { parseArgs } from 'node:util'
import { collectives, showCollectives } from './collectives.js'
import { context, showContext } from './context.js'
import { experts, showExperts } from './experts.js'
import { gather, showGather } from './gather.js'
import { generation, showGeneration } from './generation.js'
import { health, showHealth } from './health.js'
import { matmul, showMatmul } from './matmul.js'
import { offload, showOffload } from './offload.js'
import { precision, showPrecision } from './precision.js'
import type { Result } from './race.js'
import { machine, showMachine } from './report.js'
import { searching, showSearching } from './search.js'
import { showSimulation, simulation } from './simulate.js'
import { showStart, start } from './start.js'
import { showStudio, studio } from './studio.js'
import { showTraining, training } from './training.js'
import { showWatching, watching } from './watch.js'

/** Progress and skipped peers, for people. */
export type Say = (line: string) => void

export interface Options {
  readonly rounds?: number
  /** Only races whose title contains this. */
  readonly only?: string
}

interface Listed {
  readonly about: string
  readonly race: (say: Say, options: Options) => Promise<Result[]>
  readonly show: (results: readonly Result[]) => string
}

const races: Readonly<Record<string, Listed>> = {
  matmul: { about: 'matmul on one core against OpenBLAS', race: matmul, show: showMatmul },
  collectives: {
    about: 'collectives over 2 and 4 ranks against Open MPI and gloo',
    race: collectives,
    show: showCollectives,
  },
  simulate: {
    about: 'simulation of 16,384 and of 100,096 ranks, alone',
    race: simulation,
    show: showSimulation,
  },
  search: {
    about: 'plans priced a second against Calculon, and the search for 405B on 16,384 devices',
    race: searching,
    show: showSearching,
  },
  experts: { about: 'routed experts over 2 ranks: ep 2 against dp 2', race: experts, show: showExperts },
  context: {
    about: 'a long sequence over two ranks: ring, gather and ulysses against tensor parallelism',
    race: context,
    show: showContext,
  },
  gather: { about: 'ZeRO-3 gathers in int8 and bf16 against f32, on 4 ranks', race: gather, show: showGather },
  generation: {
    about: 'text token by token against transformers, with the same weights',
    race: generation,
    show: showGeneration,
  },
  health: {
    about: 'what it costs a run to look after itself: checks off, stalls, faults, clocks, hashes',
    race: health,
    show: showHealth,
  },
  offload: {
    about: 'offload on one rank: steps without, with a thread that copies, and with a rank that does',
    race: offload,
    show: showOffload,
  },
  precision: { about: 'a step of a GPT in bf16 and pure-bf16 against f32', race: precision, show: showPrecision },
  start: {
    about: 'short commands from start to end: one file against modules, and Node alone',
    race: start,
    show: showStart,
  },
  studio: {
    about: 'the studio in Chromium, alone: frames of a timeline of 16,384 ranks, sliders, memory',
    race: studio,
    show: showStudio,
  },
  training: { about: 'training a GPT against PyTorch DDP and FSDP over gloo', race: training, show: showTraining },
  watch: {
    about: 'a run of the studio while somebody looks and while nobody does',
    race: watching,
    show: showWatching,
  },
}

const usage = `npm run bench -- <race ...> [--rounds n] [--only text] [--json]

  --rounds n   turns of each contender
  --only text  only races whose title contains it, such as "all-reduce, 2 ranks" or "1024 x 1024"
  --json       machine, every time measured, and what was skipped or wrong

${Object.entries(races)
  .map(([name, { about }]) => `  ${name.padEnd(12)} ${about}`)
  .join('\n')}
`

interface Asked extends Options {
  readonly names: readonly string[]
  readonly json: boolean
}

/** What is asked for, or all that is wrong with it. */
function read(args: readonly string[]): Asked | { readonly problems: readonly string[] } {
  const texts = { rounds: { type: 'string' }, only: { type: 'string' } } as const
  const flags = { json: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } } as const
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { ...texts, ...flags },
    })
    const { rounds, only, json = false, help = false } = values
    const problems = positionals.filter(name => !Object.hasOwn(races, name)).map(name => `there is no race ${name}`)
    if (rounds !== undefined && !/^[1-9]\d*$/.test(rounds)) problems.push(`--rounds ${rounds} is not a number of turns`)
    if (problems.length > 0) return { problems }
    const options = { ...(rounds !== undefined && { rounds: Number(rounds) }), ...(only !== undefined && { only }) }
    return { names: help ? [] : positionals, json, ...options }
  } catch (e) {
    return { problems: [(e as Error).message] } // parseArgs throws nothing else
  }
}

async function main(): Promise<number> {
  const asked = read(process.argv.slice(2))
  if ('problems' in asked || asked.names.length === 0) {
    const problems = 'problems' in asked ? asked.problems : []
    process.stdout.write(problems.map(problem => `${problem}\n\n`).join('') + usage)
    return problems.length > 0 ? 2 : 0
  }
  const { names, json, ...options } = asked
  for (const name of names) {
    const { race, show } = races[name]
    const results = await race(line => process.stderr.write(`${line}\n`), options)
    const text = json ? JSON.stringify({ race: name, machine: machine(), results }) : show(results)
    process.stdout.write(json ? `${text}\n` : `${name}: ${showMachine(machine())}\n${text}\n\n`)
  }
  return 0
}

process.exitCode = await main()
