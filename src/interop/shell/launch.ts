/** What a command launches: a Python program behind whatever starts it, or another script that is followed. */
import type { Truth } from './condition.js'
import type { Runner } from './run.js'
import { isUnknown, type State } from './state.js'

const shells = new Set(['bash', 'sh', 'zsh', '/bin/bash', '/bin/sh', '/usr/bin/bash'])
const isPython = (word: string) => /(^|\/)[\w.-]*\.py$/.test(word) || word === 'megatron'
const isScript = (word: string) => /\.(sh|slurm|sbatch)$/.test(word) && !word.startsWith('-')

/** Launchers whose words stand before a text that a shell reads, as in `srun .. bash -c "..."`. */
export function launched(words: readonly string[], line: number, runner: Runner): Truth {
  const { state } = runner
  const shell = words.findIndex(word => shells.has(word))
  const program = programAt(words, shell)
  if (program !== undefined) {
    state.launches.push({
      before: words.slice(0, program),
      program: words[program] ?? '',
      argv: words.slice(program + 1),
      line,
    })
    return true
  }
  if (shell >= 0) return viaShell(words, shell, line, runner)
  const other = words.findIndex(isScript)
  const isFirst = other === 0 || /^(sbatch|exec|nohup|srun|sudo|env|time)$/.test(words[0] ?? '')
  return other >= 0 && isFirst ? follow(words, other, line, runner) : true
}

/** Where the program stands: behind the last `-m` of a launcher, or the first file of Python. */
function programAt(words: readonly string[], shell: number): number | undefined {
  const file = words.findIndex((word, i) => isPython(word) && (shell < 0 || i < shell) && words[i - 1] !== '-o')
  if (file >= 0) return file
  const module = words.lastIndexOf('-m')
  const name = words[module + 1]
  const isLauncher = name === undefined || /^(torch\.distributed|accelerate|deepspeed|torchrun|torch_xla)/.test(name)
  return module > 0 && !isLauncher && shell < 0 ? module + 1 : undefined
}

function viaShell(words: readonly string[], shell: number, line: number, runner: Runner): Truth {
  const { state } = runner
  const flag = words.findIndex((word, i) => i > shell && /^-[a-z]*c$/.test(word))
  const text = flag < 0 ? undefined : words[flag + 1]
  if (text !== undefined) return prefixed(words.slice(0, shell), state, () => runner.file(text, line))
  const other = words.findIndex((word, i) => i > shell && !word.startsWith('-'))
  return other < 0 ? true : follow(words, other, line, runner)
}

function follow(words: readonly string[], at: number, line: number, runner: Runner): Truth {
  const { state } = runner
  const path = words[at] ?? ''
  const text = isUnknown(path) ? undefined : (state.files.get(path) ?? state.read(path))
  if (text === undefined) {
    state.remark(line, `${state.shown(path)} cannot be followed: there is no such file`)
    return undefined
  }
  if (words[0] === 'sbatch') state.sbatch.push(words.slice(1, at).join(' '))
  return prefixed(words.slice(0, at), state, () => runner.other(text, words.slice(at + 1)))
}

/** What was launched inside stands behind these words. */
function prefixed(before: readonly string[], state: State, run: () => Truth): Truth {
  const from = state.launches.length
  const status = run()
  for (let i = from; i < state.launches.length; i++) {
    const launch = state.launches[i]
    if (launch) state.launches[i] = { ...launch, before: [...before, ...launch.before] }
  }
  return status
}
