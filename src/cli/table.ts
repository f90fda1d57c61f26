/**
 * The table of commands, in the order of the help. A command is a file of words/, which declares its options, and one of
 * commands/, which runs it. Help, aliases, the pager and shell completion are all made from this table.
 */
import type { Command } from 'commander'
import type { Io } from './io.js'

export type Register = (command: Command, io: Io, done: (code: number) => void) => void

/** Headings of the help. */
export const groups = {
  start: 'Start here:',
  plan: 'Plan:',
  check: 'Check:',
  run: 'Run:',
  use: 'Use a trained model:',
  convert: 'Convert:',
  reference: 'Reference:',
} as const

export interface Listed {
  readonly group: keyof typeof groups
  readonly summary: string
  /** It prints while it runs, or asks: no pager keeps its output until the end. */
  readonly live?: true
  /** Loads its options, whose actions load what the command does. */
  readonly words: () => Promise<{ readonly register: Register }>
}

export const commands: Readonly<Record<string, Listed>> = {
  init: {
    group: 'start',
    summary: 'write a job file to start from',
    live: true,
    words: () => import('./words/init.js'),
  },
  demo: {
    group: 'start',
    summary: 'predict, train and check a small job on this machine',
    live: true,
    words: () => import('./words/demo.js'),
  },
  studio: {
    group: 'start',
    summary: 'plan, run and learn in the browser',
    live: true,
    words: () => import('./words/studio.js'),
  },

  plan: {
    group: 'plan',
    summary: 'find the fastest parallelism plan that fits a cluster',
    words: () => import('./words/plan.js'),
  },
  explain: {
    group: 'plan',
    summary: 'show what limits a plan and which changes would help',
    words: () => import('./words/explain.js'),
  },
  simulate: {
    group: 'plan',
    summary: 'predict step time, MFU, cost and timeline on a cluster',
    words: () => import('./words/simulate.js'),
  },
  memory: {
    group: 'plan',
    summary: 'peak memory per rank by category',
    words: () => import('./words/memory.js'),
  },
  scale: {
    group: 'plan',
    summary: 'strong and weak scaling over cluster sizes',
    words: () => import('./words/scale.js'),
  },
  cost: {
    group: 'plan',
    summary: 'time of one collective on a cluster, by algorithm',
    words: () => import('./words/cost.js'),
  },
  schedule: {
    group: 'plan',
    summary: 'generate, check, time and draw a pipeline schedule',
    words: () => import('./words/schedule.js'),
  },

  check: {
    group: 'check',
    summary: 'report every problem in a job file',
    words: () => import('./words/check.js'),
  },
  verify: {
    group: 'check',
    summary: 'check the compiled program and compare it with one rank',
    words: () => import('./words/verify.js'),
  },
  'dry-run': {
    group: 'check',
    summary: 'run a large plan here, scaled down',
    words: () => import('./words/dry-run.js'),
  },
  compile: {
    group: 'check',
    summary: 'compile a job into one program per rank',
    words: () => import('./words/compile.js'),
  },

  train: {
    group: 'run',
    summary: 'train on the CPU cores of this machine',
    live: true,
    words: () => import('./words/train.js'),
  },
  launch: {
    group: 'run',
    summary: 'generate PyTorch and run it here with torchrun',
    live: true,
    words: () => import('./words/launch.js'),
  },
  emit: {
    group: 'run',
    summary: 'generate PyTorch for torchrun, Slurm and Kubernetes',
    words: () => import('./words/emit.js'),
  },
  watch: {
    group: 'run',
    summary: 'follow a run live, here or on a shared disk',
    live: true,
    words: () => import('./words/watch.js'),
  },
  doctor: {
    group: 'run',
    summary: 'diagnose a run and suggest fixes',
    words: () => import('./words/doctor.js'),
  },
  report: {
    group: 'run',
    summary: 'write a run as one HTML page',
    words: () => import('./words/report.js'),
  },
  replan: {
    group: 'run',
    summary: 'search again with the rates measured in a run',
    words: () => import('./words/replan.js'),
  },

  generate: {
    group: 'use',
    summary: 'generate text from a checkpoint',
    live: true,
    words: () => import('./words/generate.js'),
  },
  eval: {
    group: 'use',
    summary: 'evaluate loss, perplexity and bits/byte on a text',
    words: () => import('./words/eval.js'),
  },

  import: {
    group: 'convert',
    summary: 'convert a Megatron, DeepSpeed, torchtitan, ... config to a job',
    words: () => import('./words/import.js'),
  },
  export: {
    group: 'convert',
    summary: 'convert a checkpoint to Hugging Face, or a job to a config',
    words: () => import('./words/export.js'),
  },

  config: {
    group: 'reference',
    summary: 'fields of job and cluster files, and their JSON schema',
    words: () => import('./words/config.js'),
  },
  models: {
    group: 'reference',
    summary: 'list model presets: parameters, FLOPs/token, KV cache/token',
    words: () => import('./words/models.js'),
  },
  cluster: {
    group: 'reference',
    summary: 'list devices, and draw clusters of them',
    words: () => import('./words/cluster.js'),
  },
  groups: {
    group: 'reference',
    summary: 'list the process groups of a plan',
    words: () => import('./words/groups.js'),
  },
  case: {
    group: 'reference',
    summary: 'published training runs next to our estimates',
    words: () => import('./words/case.js'),
  },
  validate: {
    group: 'reference',
    summary: 'compare predictions with published measurements',
    words: () => import('./words/validate.js'),
  },
  calibrate: {
    group: 'reference',
    summary: 'measure a machine and write a cluster file',
    words: () => import('./words/calibrate.js'),
  },
  compare: {
    group: 'reference',
    summary: 'compare predicted and measured timelines on this machine',
    words: () => import('./words/compare.js'),
  },
  bench: {
    group: 'reference',
    summary: 'benchmark kernels and collectives of this machine',
    live: true,
    words: () => import('./words/bench.js'),
  },
  completion: {
    group: 'reference',
    summary: 'print a completion script for bash, zsh or fish',
    words: () => import('./words/completion.js'),
  },
}

/** Commands under the names they had before. */
export const renamedCommands: Readonly<Record<string, string>> = {
  presets: 'models',
  price: 'cost',
  rehearse: 'dry-run',
}

/** A table that users write names into: `constructor` is not one of them. */
export const isCommand = (word: string | undefined): word is string =>
  word !== undefined && Object.hasOwn(commands, word)
