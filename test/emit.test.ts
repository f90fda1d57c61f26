/** What `emit` writes: whole, safe whatever the job is called, and writable for every job that compiles. */
import assert, { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse as parseYaml } from 'yaml'
import { normal, printable } from '../src/base/index.js'
import { runtimeFiles } from '../src/cli/files/emit-folder.js'
import { compileJob, scheduleOf } from '../src/compile/index.js'
import type { Step } from '../src/ir/index.js'
import { Job } from '../src/plan/index.js'
import { printSchedule } from '../src/schedule/index.js'
import { emittedFiles, programsOf, temporaryFolder, writeFiles } from './emitted.js'
import { expertModels } from './expert-models.js'
import { family, later } from './families.js'
import { jobOf, shallow } from './jobs.js'
import { lockstep } from './memory-io.js'
import { findPython, noPython, oneThread } from './python.js'
import { randomJob } from './random-job.js'
import { runOp, tensor } from './tiny.js'

const job = (name: string, more = '') =>
  `name: ${JSON.stringify(name)}\nmodel: { family: gpt, layers: 2, embed: 8, heads: 2, ffn: 8, vocab: 300 }\ntraining: { seq: 4, globalBatch: 4 }\nplan: { pp: 2, microbatches: 2 }\n${more}`

const written = async (name: string, args: readonly string[] = [], more = '') =>
  lockstep(['emit', 'job.yaml', '--out', 'run', ...args], {
    'job.yaml': job(name, more),
    'text.txt': 'to be or not to be '.repeat(40),
  })

test('a folder holds a module and a schedule per stage, the runtime, launchers and a README', async () => {
  const { code, written: files } = await written('small')
  equal(code, 0)
  const program = ['program.json', 'stage0.py', 'stage0.json', 'stage1.py', 'stage1.json']
  const programs = [...program, ...program.map(name => `evaluation/${name}`)]
  const runtime = Object.keys(runtimeFiles()).map(name => `runtime/${name}`)
  const others = [
    'README.md',
    'train.py',
    'run.json',
    'job.json',
    'emitted.json',
    'launch.sh',
    'slurm.sbatch',
    'kubernetes.yaml',
  ]
  deepEqual(Object.keys(files).sort(), [...programs, ...runtime, ...others].map(name => `run/${name}`).sort())
  match(files['run/README.md'], /\| pipeline stage \| PyTorch \| planned \|/)
})

test('text becomes tokens that lie in the folder, the last of them held out', async () => {
  const { written: files } = await written('small', [], 'data: { source: text.txt, tokenizer: bytes }')
  const { data, evaluation } = JSON.parse(files['run/run.json'])
  const heldOut = { firstToken: 723, samples: 9 }
  deepEqual(data, { kind: 'tokens', file: 'tokens.bin', width: 1, samples: 180, heldOut })
  deepEqual(evaluation, { every: 0, batches: 3 }, 'two batches of 4 and a last one of 1')
  equal(files['run/tokens.bin'].length, 40 * 19 + 1)
})

test('nothing held out: nothing to judge by', async () => {
  const { written: files } = await written('small', [], 'data: { source: text.txt, evalFraction: 0 }')
  ok(!JSON.parse(files['run/run.json']).evaluation)
  deepEqual(
    Object.keys(files).filter(name => name.startsWith('run/evaluation/')),
    [],
  )
  doesNotMatch(files['run/README.md'], /evaluation/)
})

test('--cluster writes what a simulation says of a step', async () => {
  const { written: files } = await written('small', ['--cluster', 'h200'])
  const simulated = await lockstep(['simulate', 'job.yaml', '--cluster', 'h200', '--json'], {
    'job.yaml': job('small'),
  })
  const { step } = JSON.parse(simulated.out)
  const { cluster, seconds, stages } = JSON.parse(files['run/run.json']).expected
  deepEqual([cluster, seconds, stages.length], ['h200', step, 2])
  match(files['run/README.md'], /Predicted step time on `h200`: /)
  const refused = await written('small', ['--cluster', 'h20O'])
  equal(refused.code, 1)
  match(refused.err, /h200/)
})

test('--schedule-csv writes the schedule alone, in the notation of PyTorch', async () => {
  const { written: files } = await written('small', ['--schedule-csv'])
  deepEqual(Object.keys(files).sort(), ['run/emitted.json', 'run/schedule.csv'])
  equal(files['run/schedule.csv'], printSchedule(scheduleOf(jobOf('gpt', { pp: 2, microbatches: 2 }).plan)))
})

test('--json says what was written; a job with problems says them', async () => {
  const { out } = await written('small', ['--json'])
  equal(JSON.parse(out).ok, true)
  const refused = await lockstep(['emit', 'job.yaml', '--out', 'run', '--json'], { 'job.yaml': 'model: gpt2\n' })
  equal(refused.code, 1)
  equal(JSON.parse(refused.out).ok, false)
})

test('the metrics of another run are not written over', async () => {
  const files = { 'job.yaml': job('small'), 'run/metrics.jsonl': '{}' }
  const { code, err } = await lockstep(['emit', 'job.yaml', '--out', 'run'], files)
  equal(code, 1)
  match(err, /run holds the metrics of another run/)
})

/** A Python that answers every question with yes. */
const env = { ...process.env, PYTHON: 'true' }

const hostile = [
  `'; touch pwned; '`,
  '$(touch pwned)',
  '`touch pwned`',
  '"""\nimport os\nos.system("touch pwned")\n"""',
  'a\nb: c\n- d: {{ e }}',
  '\u2028\u0085#\u0000',
  '../../etc/passwd',
  '-rf *',
  '\ud800 \u{1f600}',
]

for (const name of hostile)
  test(`a job called ${JSON.stringify(name)} is text everywhere, and never code`, async () => {
    const { code, written: files } = await written(name)
    equal(code, 0)
    const folder = temporaryFolder()
    try {
      writeFiles(folder, files)
      const shell = (script: string) =>
        spawnSync('sh', ['-c', script], { cwd: join(folder, 'run'), encoding: 'utf8', env })
      for (const script of ['launch.sh', 'slurm.sbatch']) equal(shell(`sh -n ${script}`).status, 0, script)
      // Everything but the start of Python is run, which is asked first whether it has PyTorch: the name must come out as it went in, and nothing else happen.
      const { stdout } = shell(`sed 's/^"\\$PYTHON".*/printf "%s" "$RUN"; exit/' launch.sh > probe.sh && sh probe.sh`)
      // As a terminal may show it.
      equal(stdout, printable(name))
      equal(shell('test -e pwned || test -e ../pwned').status, 1)
      const { metadata } = parseYaml(files['run/kubernetes.yaml'])
      equal(metadata.annotations['lockstep/title'], name)
      match(metadata.name, /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/)
      for (const [path, text] of Object.entries(files)) if (path.endsWith('.py')) doesNotMatch(text, /pwned/, path)
      equal(JSON.parse(files['run/run.json']).title, name)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

/** What was written for random jobs, by seed. */
const filesBySeed = new Map<number, Readonly<Record<string, string>>>()

const writable = family('generated code: random jobs', 6)
for (let seed = 1; seed <= 60; seed++)
  writable(`any job can be written (SEED=${seed})`, () => {
    const found = randomJob(seed)
    const programs = programsOf(found)
    const files = emittedFiles(found, programs)
    filesBySeed.set(seed, files)
    for (const [pp, { steps }] of programs.training.streams.entries()) {
      const schedule = JSON.parse(files[`stage${pp}.json`])
      const inside = new Set<number>((schedule.fused ?? []).flatMap(([frames]: [number[]]) => frames.slice(1)))
      const within = new Set(
        programs.training.params.filter(({ frames }) => inside.has(frames[pp]?.param ?? -1)).map(({ name }) => name),
      )
      // What lies within another parameter is reduced with it.
      const isReducedWithin = (step: Step) =>
        step.kind === 'call' &&
        within.has(step.param ?? '') &&
        programs.training.segments[step.segment].phase === 'reduce'
      const moves = steps.filter(step => step.kind !== 'alloc' && step.kind !== 'free' && !isReducedWithin(step)).length
      // A row `each` is a call for every parameter it names, a head may be its forward and its backward.
      const counts: number[] = schedule.steps.map(([kind, name, params]: [string, string, string[]]) => {
        if (kind === 'each') return params.length
        return kind === 'call' && name === 'head_forward_backward' ? 2 : Number(kind !== 'alloc' && kind !== 'free')
      })
      equal(
        counts.reduce((sum, n) => sum + n, 0),
        moves,
      )
      const functions = new Set(schedule.functions.map(([name]: [string]) => name))
      for (const [kind, name] of schedule.steps) if (kind === 'call' || kind === 'each') ok(functions.has(name), name)
      for (const name of functions) match(files[`stage${pp}.py`], new RegExp(`^def ${name}\\(`, 'm'))
    }
  })

const python = findPython()

test('what is done to parameters is one call for all that are treated alike', () => {
  const decayed = jobOf('llama', {}, { optimizer: { kind: 'adamw', lr: 1e-3, weightDecay: 0.1 } })
  const names = compileJob(decayed).params.map(({ name }) => name)
  const { steps } = JSON.parse(emittedFiles(decayed)['stage0.json'])
  const served = (...functions: string[]) =>
    steps.flatMap(([kind, name, params]: [string, string, string[]]) =>
      kind === 'each' && functions.includes(name) ? params : [],
    )
  deepEqual(served('clear_grads'), names)
  deepEqual(served('grad_norm'), names)
  // Weights of norms do not decay.
  deepEqual(
    served('update'),
    names.filter(name => !name.endsWith('.weight')),
  )
  deepEqual(
    served('update_2'),
    names.filter(name => name.endsWith('.weight')),
  )
})

const scriptOf = (name: string) => fileURLToPath(new URL(`../../test/${name}`, import.meta.url))

later('torch.compile makes one piece of every segment', { skip: python ? false : noPython }, t => {
  const folder = temporaryFolder()
  try {
    const { deepseek, gshard } = expertModels
    const model = { ...deepseek, moe: { ...deepseek.moe, capacity: gshard.moe.capacity } }
    const routed = Job.parse({ model, training: { seq: 8, globalBatch: 4 }, plan: { precision: 'bf16' } })
    const jobs = [shallow(jobOf('gpt', { recompute: 'selective' })), routed]
    const folders = jobs.map((_, i) => join(folder, `job${i}`))
    for (const [i, job] of jobs.entries()) writeFiles(folders[i], emittedFiles(job))
    const { status, stdout, stderr } = spawnSync(python!, [scriptOf('emit_compiled.py'), ...folders], {
      encoding: 'utf8',
      env: oneThread,
    })
    if (status === 77) return t.skip('this PyTorch has no compiler')
    equal(status, 0, stderr)
    const pieces = stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    for (const [i, job] of jobs.entries()) {
      const files = emittedFiles(job)
      const once = ['stage0.json', 'evaluation/stage0.json'].map(name => {
        const { functions } = JSON.parse(files[name])
        const compiled = functions.filter(([, phase]: string[]) => /^[FIWB]$/.test(phase))
        return Object.fromEntries(compiled.map(([name]: string[]) => [name, 1]))
      })
      deepEqual(pieces[i], once)
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

const scaleJobs: readonly [
  string,
  Parameters<typeof jobOf>[1],
  Record<string, readonly [worked: number, given: number]>,
][] = [
  ['kept', {}, { layers_forward: [2, 0], layers_backward: [0, 2] }],
  ['recomputed norms', { recompute: ['rmsNorm'] }, { layers_forward: [2, 0], layers_backward: [0, 2] }],
  ['only the input kept', { recompute: 'full' }, { layers_forward: [2, 0], layers_backward: [1, 1] }],
  [
    'weights apart',
    { pp: 2, schedule: 'zb-h1', microbatches: 2 },
    { layers_forward: [2, 0], layers_backward_input: [0, 2], layers_backward_weight: [0, 2] },
  ],
]
for (const [what, plan, functions] of scaleJobs)
  test(`the scale of a norm is worked out where it is first needed: ${what}`, () => {
    const text = emittedFiles(jobOf('llama', plan))['stage0.py']
    for (const [name, expected] of Object.entries(functions)) {
      const [, head, body] = text.match(new RegExp(`def ${name}\\(([^)]*)\\):([\\s\\S]*?)\\n    return`))!
      deepEqual(
        [body.match(/ops\.(rms_scale|rms_norm_and_scale)\(/g)?.length ?? 0, head.match(/_scale\b/g)?.length ?? 0],
        expected,
        name,
      )
    }
  })

later(
  'a product takes the kernel that is fastest under load, of those that look best',
  {
    skip: python ? false : noPython,
  },
  () => {
    const folder = temporaryFolder()
    try {
      writeFiles(folder, emittedFiles(jobOf('llama', { precision: 'bf16' })))
      // Times at a look and under load, and the kernel that is taken.
      const cases: readonly [looks: readonly number[], loaded: readonly number[], chosen: number][] = [
        [[10, 11, 12], [10, 11, 12], 0],
        [[10, 11, 12], [10, 9, 8], 2],
        [[12, 11, 10], [8, 9, 8.5], 0],
        [[10, 11, 12, 13, 14, 15], [10, 9, 9, 9, 9, 1], 1],
      ]
      const { stdout, stderr } = spawnSync(python!, [scriptOf('emit_products.py'), folder], {
        encoding: 'utf8',
        env: oneThread,
        input: JSON.stringify(cases.map(([looks, loaded]) => [looks, loaded])),
      })
      ok(stdout, stderr)
      const { chosen, supported, told, calls, apart } = JSON.parse(stdout)
      deepEqual(
        chosen,
        cases.map(([, , chosen]) => chosen),
      )
      // Of [1 x 8] lying anyhow, [8 x 1], [1 x 8] and [2 x 4] by columns: no stride is shorter than what it spans.
      deepEqual(told, [
        [8, 1, 8],
        [1, 8, 1],
        [8, 1, 8],
        [2, 4, 2],
      ])
      if (!supported) return
      equal(calls, 2)
      ok(apart < 0.1, `${apart}`)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
)

test('of tokens that are alike the emitted program keeps those that the reference keeps', {
  skip: python ? false : noPython,
}, () => {
  const folder = temporaryFolder()
  try {
    writeFiles(folder, emittedFiles(Job.parse({ model: expertModels.gshard, training: { seq: 8, globalBatch: 2 } })))
    const [seq, room] = [16, 5]
    const cases = [1, 2, 3, 4, 5, 6, 7, 8].map(seed => {
      const value = normal({ seed, name: 'scores' })
      // Apart by a few units of what counts, or by less.
      const unit = seed % 2 ? 2 ** -16 : 2 ** -22
      const scores = Float32Array.from({ length: seq }, (_, i) => (0.3 + seed / 20) * (1 + unit * value(i)))
      return { scores: [...scores], choice: Array<number>(seq).fill(0), room }
    })
    const { stdout, stderr } = spawnSync(python!, [scriptOf('emit_room.py'), folder], {
      ...{ encoding: 'utf8', env: oneThread, input: JSON.stringify(cases) },
    })
    ok(stdout, stderr)
    const expected = cases.map(({ scores, choice }) => {
      const [given, wishes] = [tensor(`seq ${seq}, candidate 1`, scores), tensor(`seq ${seq}, choice 1`, choice)]
      const [kept] = runOp({ kind: 'assign', room, tokens: seq, order: 'probability' }, [given, wishes], [wishes])
      return [[...kept], [...kept]]
    })
    deepEqual(JSON.parse(stdout), expected)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

for (const model of ['llama', 'gpt tied'] as const)
  later(`a recorded step computes what it computes call by call: ${model}`, { skip: python ? false : noPython }, () => {
    const folder = temporaryFolder()
    try {
      const lrSchedule = { kind: 'cosine', warmup: 2, minLr: 1e-4 } as const
      writeFiles(folder, emittedFiles(jobOf(model, { microbatches: 2, precision: 'bf16' }, { steps: 6, lrSchedule })))
      const { stdout, stderr } = spawnSync(python!, [scriptOf('emit_recorded.py'), folder, '6'], {
        encoding: 'utf8',
        env: oneThread,
      })
      ok(stdout, stderr)
      const { expected, losses, apart, replays } = JSON.parse(stdout.replace(/\bNaN(?=[,\]}])/g, 'null'))
      deepEqual(losses, expected)
      const [, broken] = losses[4]
      match(broken.message, /^the first NaN or Inf is computed in \S+ of microbatch 0 on rank 0, call \d+/)
      deepEqual(
        losses.map(([, event]: [unknown, unknown]) => event !== null),
        [0, 1, 2, 3, 4, 5].map(step => step === 4),
      )
      equal(apart, 0)
      deepEqual(replays, [2, 3, 4, 5])
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

test('what is written for random jobs is Python', { skip: python ? false : noPython }, () => {
  const folder = temporaryFolder()
  try {
    ok(filesBySeed.size > 0)
    for (const [seed, files] of filesBySeed) {
      const stages = Object.entries(files).filter(([name]) => /^(evaluation\/)?stage\d+\.py$/.test(name))
      writeFiles(join(folder, `job${seed}`), Object.fromEntries(stages))
    }
    const { status, stderr } = spawnSync(python!, ['-m', 'compileall', '-q', folder], { encoding: 'utf8' })
    assert.equal(status, 0, stderr)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
