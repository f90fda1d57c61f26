/**
 * lockstep calibrate: measurements as a cluster file. Of this machine, by running small training steps and collectives
 * on its engine; of a GPU machine, by a script for PyTorch (`--emit torch`) whose JSON is read back (`--read`).
 */
import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { type Command, Option } from 'commander'
import { Document, isPair, isScalar, isSeq, visit } from 'yaml'
import { error, ProblemsError, showBytes } from '../base/index.js'
import { type Cluster, type MeetingPoint, meetingKinds, parseMeasured } from '../cluster/index.js'
import { compileJob } from '../compile/index.js'
import { syntheticDataset } from '../data/index.js'
import { type BenchOp, benchCollectives } from '../engine/native/index.js'
import type { Job } from '../plan/index.js'
import type { Io } from './io.js'
import { type Machine, machineCluster } from './machine.js'
import { measuredCluster } from './measured-device.js'
import { merged, type Observation, observe } from './observe.js'
import { probesFor } from './probes.js'
import { progress } from './progress.js'
import { save } from './run-folder.js'
import { timedRun } from './timed-run.js'

interface Options {
  readonly out?: string
  readonly emit?: 'torch'
  readonly read?: string
  readonly quick?: boolean
  readonly json?: boolean
}

export function registerCalibrate(program: Command, io: Io, done: (code: number) => void): void {
  program
    .command('calibrate')
    .summary('measure a machine and write it as a cluster file')
    .description(
      'Measures the kernels and collectives of this machine (a minute or two; nothing else should run) and writes a cluster file that --cluster reads. --emit torch prints a script that measures a GPU machine with PyTorch; --read makes a cluster file of what it wrote.',
    )
    .option('--out <file>', 'write the cluster file there, instead of printing it')
    .addOption(new Option('--emit <kind>', 'print the script that measures a GPU machine').choices(['torch']))
    .option('--read <file>', 'a JSON file that the script wrote')
    .option('--quick', 'few and short measurements: to try it')
    .option('--json', 'JSON instead of YAML')
    .addHelpText(
      'after',
      `
Examples:
  lockstep calibrate --out this-machine.yaml
  lockstep calibrate --emit torch --out measure.py
  lockstep calibrate --read measured.json --out h200.yaml

Exit code 0: fine, 1: problems, 2: wrong use, 130: interrupted.`,
    )
    .action(async (options: Options, command: Command) => {
      if (options.emit && options.read) command.error('error: --emit and --read are two things: choose one')
      done(await calibrate(options, io))
    })
}

async function calibrate(options: Options, io: Io): Promise<number> {
  if (options.emit === 'torch') {
    deliver(readFileSync(new URL('../../../scripts/measure.py', import.meta.url), 'utf8'), options, io)
    return 0
  }
  const cluster = options.read === undefined ? await measureHere(options, io) : readMeasured(options.read, io)
  if (!cluster) {
    io.err('calibrate: interrupted, nothing was written\n')
    return 130
  }
  deliver(options.json ? `${JSON.stringify(cluster, null, 2)}\n` : clusterFile(cluster), options, io)
  return 0
}

function deliver(text: string, { out }: Options, io: Io): void {
  if (out === undefined) {
    io.out(text)
    return
  }
  save(out, text, io)
  io.err(`wrote ${out}\n`)
}

/** Points are one line each: there are hundreds. */
function clusterFile(cluster: Cluster): string {
  const document = new Document(cluster)
  const plain = (item: unknown) => isScalar(isPair(item) ? item.value : item)
  visit(document, {
    Collection(_, node, path) {
      if (path.some(isSeq) && node.items.every(plain)) node.flow = true
    },
  })
  return document.toString({ lineWidth: 0 })
}

function readMeasured(path: string, io: Io): Cluster {
  let value: unknown
  try {
    value = JSON.parse(io.read(path))
  } catch (e) {
    const reason = e instanceof SyntaxError ? 'it is not JSON' : (e as Error).message // Io throws Errors
    throw new ProblemsError([error('file/unreadable', '', `cannot read ${path}: ${reason}`)])
  }
  const { measured, problems } = parseMeasured(value)
  if (!measured) throw new ProblemsError(problems)
  return measuredCluster(measured)
}

/** undefined: interrupted. */
async function measureHere({ quick = false }: Options, io: Io): Promise<Cluster | undefined> {
  const say = progress(io)
  let stopped = false
  const forget = io.onInterrupt(() => {
    stopped = true
  })
  try {
    const cores = availableParallelism()
    const jobs = quick ? probesFor(cores).slice(0, 2) : probesFor(cores)
    const observations: Observation[] = []
    let description = ''
    for (const [i, job] of jobs.entries()) {
      if (stopped) return undefined
      say(`kernels, job ${i + 1} of ${jobs.length}`)
      const probed = await probe(job, quick ? 2 : 40, () => !stopped)
      observations.push(...probed.observations)
      description = probed.description
    }
    const meetings = await timedMeetings(cores, quick, text => {
      say(text)
      return !stopped
    })
    if (stopped) return undefined
    return machineCluster(
      machineOf(cores, description.replace(/, (\d+ ranks|one rank).*$/, '')),
      merged(observations),
      meetings,
    )
  } finally {
    say('')
    forget()
  }
}

async function probe(job: Job, steps: number, goOn: () => boolean) {
  const program = compileJob(job)
  const { model, training } = job
  const shape = model.family === 'mlp' ? { embed: model.embed } : { vocab: model.vocab }
  const dataset = syntheticDataset({ seq: training.seq, ...shape }, training.seed)
  const run = await timedRun({ job, program, dataset, steps, goOn })
  return {
    description: run.description,
    observations: observe(program, run.steps),
  }
}

const machineOf = (cores: number, kernels: string): Machine => ({
  title: `${cpus()[0]?.model.trim() || process.arch}, ${cores} cores`,
  ...{ kernels, cores, memory: totalmem(), date: new Date().toISOString().slice(0, 10) },
})

const sizes = [64, 2 ** 10, 2 ** 13, 2 ** 16, 2 ** 19, 2 ** 22]
const benched: Readonly<Record<MeetingPoint['kind'], BenchOp>> = {
  ...{ 'all-reduce': 'all-reduce', 'all-gather': 'all-gather', 'reduce-scatter': 'reduce-scatter' },
  ...{ 'all-to-all': 'all-to-all', broadcast: 'broadcast', send: 'send-recv' },
}

/** At 2, 4, ... ranks, up to twice the cores. */
async function timedMeetings(cores: number, quick: boolean, goOn: (text: string) => boolean): Promise<MeetingPoint[]> {
  const points: MeetingPoint[] = []
  const counts = [2, 4, 8, 16, 32, 64].filter(ranks => ranks <= Math.max(4, 2 * cores)).slice(0, quick ? 1 : undefined)
  for (const ranks of counts) {
    const ops = Object.values(benched)
    for await (const row of benchCollectives({
      ranks,
      ops,
      sizes: quick ? sizes.slice(0, 2) : sizes,
      repeats: quick ? 3 : 30,
    })) {
      if (!goOn(`collectives of ${ranks} ranks, ${showBytes(row.bytes)}`)) return points
      const kind = meetingKinds.find(of => benched[of] === row.op)
      // Round the ring everybody sends one message and receives one.
      const seconds = kind === 'send' ? row.seconds / 2 : row.seconds
      if (kind) points.push({ kind, ranks, bytes: row.bytes, seconds: Number(seconds.toPrecision(4)) })
    }
  }
  return points
}
