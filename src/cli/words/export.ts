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
      'Writes what another software reads: the weights of a checkpoint as a Hugging Face folder, or a job as the configuration of another framework, with what that cannot say.',
    )
    .argument('<source>', 'a checkpoint, a folder of them, or a Hugging Face folder; or a job file')
    .addOption(command.createOption('--to <target>', 'what to write').choices(exportTargets).makeOptionMandatory())
    .requiredOption('--out <folder>', 'where to write')
    .addOption(
      command
        .createOption('--dtype <dtype>', 'what numbers are rounded to (default: f32, or as --like has them)')
        .choices(['f32', 'bf16', 'f16', 'f64']),
    )
    .option('--shard <size>', 'bytes of a safetensors file at most (default: 5GB)', bytes)
    .option('--ema', 'the EMA weights (training.ema) instead of the weights')
    .option('--like <folder>', 'take over config.json, tokenizer and dtypes of a Hugging Face folder of the same model')
    .addOption(
      command
        .createOption(
          '--adapters <how>',
          'of a LoRA run: merged into the weights (default), or separate, as a PEFT folder',
        )
        .choices(['merged', 'separate']),
    )
    .option('--release <name>', 'of Megatron-LM: refuse flags that this release does not have')
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
  if (size === undefined || size < 1) throw new InvalidArgumentError('expected an amount of memory, such as 5GB.')
  return size
}
