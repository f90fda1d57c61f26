/** What `lockstep export` is called with. */
import { type Command, InvalidArgumentError } from 'commander'
import { parseBytes } from '../../base/units.js'
import type { ExportOptions } from '../commands/export.js'
import type { Io } from '../io.js'

/** What export writes; what it does for each is in commands/export.ts. */
export const exportTargets = [
  'hf',
  'megatron',
  'deepspeed',
  'accelerate',
  'torchtitan',
  'nanotron',
  'picotron',
] as const
export type ExportTarget = (typeof exportTargets)[number]

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Exports a checkpoint as a Hugging Face folder, or a job as the config of another framework, and lists what the config cannot express.',
    )
    .argument('<source>', 'a checkpoint, a folder of checkpoints, a Hugging Face folder, or a job file')
    .addOption(command.createOption('--to <target>', 'the target format').choices(exportTargets).makeOptionMandatory())
    .requiredOption('--out <folder>', 'output folder')
    .addOption(
      command
        .createOption('--dtype <dtype>', 'dtype of the weights (default: f32, or that of --like)')
        .choices(['f32', 'bf16', 'f16', 'f64']),
    )
    .option('--shard <size>', 'maximum size of a safetensors file (default: 5GB)', bytes)
    .option('--ema', 'export the EMA of the weights (training.ema)')
    .option('--like <folder>', 'copy config.json, tokenizer and dtypes from a Hugging Face folder of the same model')
    .addOption(
      command
        .createOption(
          '--adapters <how>',
          'LoRA adapters: merged into the weights (default), or separate, as PEFT reads them',
        )
        .choices(['merged', 'separate']),
    )
    .option('--release <name>', 'Megatron-LM release: refuse flags that it does not have')
    .option('--json', 'what was written, as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep export saved --to hf --out model --dtype bf16\n\nExit code 0: written, 1: refused, 2: usage error.',
    )
    .action(async (path: string, options: ExportOptions) => {
      const { exportCommand } = await import('../commands/export.js')
      done(await exportCommand(path, options, io))
    })
}

function bytes(text: string): number {
  const size = parseBytes(text)
  if (size === undefined || size < 1) throw new InvalidArgumentError('expected a size, such as 5GB.')
  return size
}
