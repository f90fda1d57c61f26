/** What `lockstep calibrate` is called with. */
import { type Command, Option } from 'commander'
import type { CalibrateOptions } from '../commands/calibrate.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Measures the kernels and collectives of this machine and writes a cluster file for --cluster. Takes about three minutes; run nothing else meanwhile. `lockstep train` uses the result for its predictions. For a GPU machine, --emit torch prints a PyTorch script that measures it, and --read converts the JSON it writes to a cluster file.',
    )
    .option('--out <file>', 'write the cluster file there (default: print it)')
    .addOption(new Option('--emit <kind>', 'print the script that measures a GPU machine').choices(['torch']))
    .option('--read <file>', 'the JSON file that the script wrote')
    .option('--quick', 'few, short measurements: a trial')
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
