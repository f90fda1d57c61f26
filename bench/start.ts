/**
 * What a short command takes from its first instruction to its last: as it is run (one file, with what V8 has compiled of it), as the modules
 * that file is made of, and Node alone, which prints the same text. A process is timed whole; what others do to the clock, all suffer in turns.
 */
import { execFileSync } from 'node:child_process'
import type { Options, Say } from './main.js'
import { type Result, run as race } from './race.js'
import { showResults } from './report.js'

/** Commands that compile nothing. */
const lines = [
  '--help',
  'plan --help',
  'check examples/jobs/start.yaml',
  'config',
  'models',
  'groups --world 16 --tp 2 --pp 2',
  'schedule 1f1b --pp 4 --microbatches 8',
  'cluster list',
  'cluster show h100 --devices 64',
  'case',
]

const bin = 'bin/lockstep.mjs'
const node = (args: readonly string[], env: Readonly<Record<string, string>> = {}): string =>
  execFileSync(process.execPath, args, { encoding: 'utf8', env: { ...process.env, LOCKSTEP_DEBUG: '', ...env } })

export async function start(say: Say, { rounds = 10, only = '' }: Options): Promise<Result[]> {
  const results: Result[] = []
  for (const line of lines.filter(line => line.includes(only))) {
    say(`${line}: ${rounds} times ...`)
    const text = node([bin, ...line.split(' ')], { LOCKSTEP_DEBUG: '1' })
    const contenders = [
      contender('one file', () => node([bin, ...line.split(' ')])),
      contender('modules', () => node([bin, ...line.split(' ')], { LOCKSTEP_DEBUG: '1' })),
      contender('node', () => node(['-e', 'process.stdout.write(process.argv[1])', text])),
    ]
    results.push(await race({ title: line, expected: lettersOf(text), tolerance: 0, contenders }, { rounds }))
  }
  return results
}

function contender(name: string, run: () => string) {
  const time = async () => {
    const from = performance.now()
    run()
    return (performance.now() - from) / 1000
  }
  return { name, answer: async () => lettersOf(run()), time }
}

const lettersOf = (text: string): number[] => Array.from(text, letter => letter.codePointAt(0)!)

export const showStart = (results: readonly Result[]): string =>
  showResults(results, [
    { name: 'one file', peer: 'modules' },
    { name: 'one file', peer: 'node' },
  ])
