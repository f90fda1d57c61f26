/** What `lockstep calibrate` is called with. */
import { type Command, Option } from 'commander'
import type { CalibrateOptions } from '../commands/calibrate.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Measures the kernels and collectives of this machine (about three minutes; nothing else should run) and writes a cluster file that --cluster reads, and by which train predicts from then on. --emit torch prints a script that measures a GPU machine with PyTorch; --read makes a cluster file of what it wrote.',
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

Exit code 0: fine, 1: problems, 2: usage error, 130: interrupted.`,
    )
    .action(async (options: CalibrateOptions) => {
      if (options.emit && options.read) command.error('error: --emit and --read cannot be combined')
      const { calibrateCommand } = await import('../commands/calibrate.js')
      done(await calibrateCommand(options, io))
    })
}
