/** npm run bench -- [race ...] [--rounds n] [--json]: races against what a user would pick instead. */
import { parseArgs } from 'node:util'
import { matmul, showMatmul } from './matmul.js'
import type { Result } from './race.js'
import { machine, showMachine } from './report.js'
import { showTraining, training } from './training.js'

/** Progress and skipped peers, for people. */
export type Say = (line: string) => void

export interface Options {
  readonly rounds?: number
}

interface Listed {
  readonly about: string
  readonly race: (say: Say, options: Options) => Promise<Result[]>
  readonly show: (results: readonly Result[]) => string
}

const races: Readonly<Record<string, Listed>> = {
  matmul: { about: 'matmul on one core against OpenBLAS', race: matmul, show: showMatmul },
  training: { about: 'training a GPT against PyTorch DDP and FSDP over gloo', race: training, show: showTraining },
}

const usage = `npm run bench -- <race ...> [--rounds n] [--json]

${Object.entries(races)
  .map(([name, { about }]) => `  ${name.padEnd(12)} ${about}`)
  .join('\n')}
`

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { rounds: { type: 'string' }, json: { type: 'boolean', default: false } },
  })
  const unknown = positionals.filter(name => !Object.hasOwn(races, name))
  if (positionals.length === 0 || unknown.length > 0) {
    const error = unknown.map(name => `there is no race ${name}\n\n`).join('')
    process.stdout.write(error + usage)
    return unknown.length > 0 ? 2 : 0
  }
  const options = values.rounds === undefined ? {} : { rounds: Number(values.rounds) }
  for (const name of positionals) {
    const { race, show } = races[name]
    const results = await race(line => process.stderr.write(`${line}\n`), options)
    const text = values.json ? JSON.stringify({ race: name, machine: machine(), results }) : show(results)
    process.stdout.write(values.json ? `${text}\n` : `${name}: ${showMachine(machine())}\n${text}\n\n`)
  }
  return 0
}

process.exitCode = await main()
