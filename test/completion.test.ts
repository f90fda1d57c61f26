/** Completion scripts: what a shell makes of them. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { commands } from '../src/cli/table.js'
import { shells } from '../src/cli/text/completion.js'
import { lockstep } from './memory-io.js'

const folder = mkdtempSync(join(tmpdir(), 'lockstep-completion-'))
writeFileSync(join(folder, 'job.yaml'), '')

const scriptOf = async (shell: string): Promise<string> => (await lockstep(['completion', shell])).out
const isThere = (shell: string): boolean => spawnSync(shell, ['--version']).error === undefined

for (const shell of shells)
  test(`${shell} reads the script without a complaint`, { skip: !isThere(shell) }, async () => {
    const path = join(folder, `lockstep.${shell}`)
    writeFileSync(path, await scriptOf(shell))
    const { status, stderr } = spawnSync(shell, ['-n', path], { encoding: 'utf8' })
    deepEqual([status, stderr], [0, ''])
  })

/** What bash completes the last of these words to, where `job.yaml` is the only file. */
async function completed(...words: string[]): Promise<string[]> {
  const path = join(folder, 'lockstep.bash')
  writeFileSync(path, await scriptOf('bash'))
  const line = words.map(word => `'${word}'`).join(' ')
  const call = `source ${path}; COMP_WORDS=(${line}); COMP_CWORD=${words.length - 1}; _lockstep; printf '%s\\n' "\${COMPREPLY[@]}"`
  const { stdout } = spawnSync('bash', ['--norc', '-c', call], { cwd: folder, encoding: 'utf8' })
  return stdout.split('\n').filter(word => word !== '')
}

test('bash completes commands, options, their values and files', { skip: !isThere('bash') }, async () => {
  const all = await completed('lockstep', '')
  for (const name of Object.keys(commands)) ok(all.includes(name), name)
  deepEqual(await completed('lockstep', 'dry'), ['dry-run'])
  deepEqual(await completed('lockstep', 'plan', '--glo'), ['--global-batch'])
  deepEqual(await completed('lockstep', 'plan', '--software', 'torchtitan-'), ['torchtitan-compiled'])
  deepEqual(await completed('lockstep', 'check', 'jo'), ['job.yaml'])
  deepEqual(await completed('lockstep', 'plan', '--out', 'jo'), ['job.yaml'])
  deepEqual(await completed('lockstep', 'bench', 'ker'), ['kernels'])
  deepEqual(await completed('lockstep', 'bench', 'kernels', '--roof'), ['--roofline'])
  deepEqual(await completed('lockstep', 'completion', 'f'), ['fish'])
  deepEqual(await completed('lockstep', 'check', '--qui'), ['--quiet'])
})

const lines: readonly (readonly [line: string, completed: string])[] = [
  ['lockstep dry', 'dry-run'],
  ['lockstep plan --glo', '--global-batch'],
  ['lockstep plan --software torchtitan-c', 'torchtitan-compiled'],
  ['lockstep check jo', 'job.yaml'],
  ['lockstep plan --out jo', 'job.yaml'],
  ['lockstep bench ker', 'kernels'],
  ['lockstep bench kernels --roof', '--roofline'],
  ['lockstep completion f', 'fish'],
  ['lockstep check --qui', '--quiet'],
]

test('fish completes them too', { skip: !isThere('fish') }, async () => {
  const path = join(folder, 'complete.fish')
  writeFileSync(path, await scriptOf('fish'))
  const asked = lines.map(([line]) => `complete -C '${line}'; echo ==`).join('; ')
  const { stdout } = spawnSync('fish', ['-N', '-c', `source ${path}; ${asked}`], { cwd: folder, encoding: 'utf8' })
  // A word, and after a tab what it means.
  const found = stdout.split('==\n').map(text => text.split('\t')[0].trim())
  deepEqual(
    found.slice(0, lines.length),
    lines.map(([, word]) => word),
  )
})

/** Types each line and a tab into an interactive zsh, and prints the line as it is then. npm says EDITOR=vi: the keys are those of emacs. */
const typing = `
zmodload zsh/zpty
zpty z "PS1= PS2= TERM=dumb zsh -f -i"
zpty -w z "stty -echo; bindkey -e; PROMPT=; autoload -Uz compinit; compinit -u -D; source $1; print READY"
zpty -r z out '*READY*'
shift
for line in "$@"; do
  zpty -w -n z "$line"$'\\t\\C-aprint -r -- \\'<\\' \\C-e \\'>\\'\\n'
  zpty -r z out $'*\\n< *>*'
  print -r -- "\${\${out##*$'\\n'< }% >*}"
done
zpty -d z
`

test('so does zsh', { skip: !isThere('zsh') }, async () => {
  const [path, keys] = ['typed.zsh', 'keys.zsh'].map(name => join(folder, name))
  writeFileSync(path, await scriptOf('zsh'))
  writeFileSync(keys, typing)
  const asked = ['-o', 'extendedglob', '-f', keys, path, ...lines.map(([line]) => line)]
  const typed = () => spawnSync('zsh', asked, { cwd: folder, encoding: 'utf8', timeout: 20_000 })
  // On a busy machine a line may be typed before the prompt is there: the terminal then waits, and another one is opened.
  let ran = typed()
  for (let times = 1; ran.status !== 0 && times < 3; times++) ran = typed()
  const { stdout, stderr } = ran
  equal(stderr, '')
  deepEqual(
    stdout.trim().split(/\r?\n/),
    lines.map(([line, word]) => `${line.slice(0, line.lastIndexOf(' '))} ${word}`),
  )
})

test('zsh and fish know every command and its options', async () => {
  for (const [shell, option] of [
    ['zsh', /--global-batch\[global batch size in sequences\]/],
    ['fish', /seen_subcommand_from plan' -l global-batch -d 'global batch size in sequences' -r/],
  ] as const) {
    const script = await scriptOf(shell)
    for (const name of Object.keys(commands)) match(script, new RegExp(`\\b${name}\\b`))
    match(script, option)
  }
})

test('an unknown shell is a usage error', async () => equal((await lockstep(['completion', 'tcsh'])).code, 2))
