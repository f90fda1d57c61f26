/** Completion scripts: words after a command are its options, their values, and files. */

export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]

interface CompletedOption {
  readonly flag: string
  readonly about: string
  readonly takesValue: boolean
  /** Where there are some, nothing else may follow. */
  readonly values: readonly string[]
}

export interface CompletedCommand {
  /** 'plan', or 'bench' and 'kernels'. */
  readonly words: readonly string[]
  readonly about: string
  readonly below: readonly string[]
  /** Values of its arguments. */
  readonly values: readonly string[]
  readonly options: readonly CompletedOption[]
}

export const completionScript = (shell: Shell, commands: readonly CompletedCommand[]): string =>
  ({ bash, zsh, fish })[shell](commands)

const top = (commands: readonly CompletedCommand[]) => commands.filter(({ words }) => words.length === 1)

/** `case` branches that hold what may follow a command, and what may follow an option of it. */
function cases(commands: readonly CompletedCommand[]): { readonly words: string[]; readonly values: string[] } {
  const words = commands.map(
    ({ words, below, values, options }) =>
      `    '${words.join(' ')}') words='${[...below, ...values, ...options.map(({ flag }) => flag)].join(' ')}' ;;`,
  )
  const values = commands.flatMap(({ words, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ flag, values }) => `    '${words.join(' ')} ${flag}') values='${values.join(' ') || '-'}' ;;`),
  )
  return { words, values }
}

/** Values of '-' are files. */
function bash(commands: readonly CompletedCommand[]): string {
  const { words, values } = cases(commands)
  return `# Completion of lockstep for bash. Written by: lockstep completion bash
_lockstep() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} command=\${COMP_WORDS[1]} words='' values=''
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${[...top(commands).map(one => one.words[0]), 'help', '--help', '--version'].join(' ')}' -- "$current"))
    return
  fi
  case "$command \${COMP_WORDS[2]}" in
${commands
  .filter(one => one.words.length > 1)
  .map(one => `    '${one.words.join(' ')}') [ "$COMP_CWORD" -gt 2 ] && command='${one.words.join(' ')}' ;;`)
  .join('\n')}
  esac
  case "$command $previous" in
${values.join('\n')}
  esac
  if [ -n "$values" ]; then
    [ "$values" = - ] || { COMPREPLY=($(compgen -W "$values" -- "$current")); return; }
    COMPREPLY=($(compgen -f -- "$current"))
    return
  fi
  case "$command" in
${words.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case "$current" in -*) ;; *) COMPREPLY+=($(compgen -f -- "$current")) ;; esac
}
complete -o filenames -F _lockstep lockstep
`
}

/** In single quotes, within which zsh and fish take everything as it is but the quote itself. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** One line, as menus show it. */
const short = (text: string): string => {
  const line = text.replaceAll(/\s+/g, ' ')
  return line.length > 80 ? `${line.slice(0, 77)}...` : line
}

function zsh(commands: readonly CompletedCommand[]): string {
  const describe = (name: string, about: string) => quoted(`${name}:${short(about).replaceAll(':', '\\:')}`)
  // Brackets and colons have a meaning in a specification.
  const plain = (text: string) => short(text).replaceAll(/[[\]:\\]/g, '')
  const option = ({ flag, about, takesValue, values }: CompletedOption) =>
    quoted(
      `${flag}[${plain(about)}]${takesValue ? `:value:${values.length > 0 ? `(${values.join(' ')})` : '_files'}` : ''}`,
    )
  const branch = (name: string, of: CompletedCommand) => {
    const rest = of.values.length > 0 ? `'*:value:(${of.values.join(' ')})'` : "'*:file:_files'"
    return `    ${name}) _arguments ${[...of.options.map(option), rest].join(' ')} ;;`
  }
  const nested = commands.filter(({ words }) => words.length > 1)
  return `#compdef lockstep
# Completion of lockstep for zsh. Written by: lockstep completion zsh
_lockstep() {
  if (( CURRENT == 2 )); then
    local -a all=(${top(commands)
      .map(({ words, about }) => describe(words[0], about))
      .join(' ')})
    _describe command all
    return
  fi
  local command=$words[2]
  case "$command" in
${top(commands)
  .filter(({ below }) => below.length > 0)
  .map(
    ({ words, below }) =>
      `    ${words[0]}) if (( CURRENT == 3 )); then compadd ${below.join(' ')}; return; fi; command="$command $words[3]"; shift words; (( CURRENT-- )) ;;`,
  )
  .join('\n')}
  esac
  shift words; (( CURRENT-- ))
  case "$command" in
${[...nested.map(one => branch(`'${one.words.join(' ')}'`, one)), ...top(commands).map(one => branch(one.words[0], one))].join('\n')}
  esac
}
if [ "$funcstack[1]" = _lockstep ]; then _lockstep "$@"; else compdef _lockstep lockstep; fi
`
}

function fish(commands: readonly CompletedCommand[]): string {
  const under = (words: readonly string[]) =>
    quoted(words.map(word => `__fish_seen_subcommand_from ${word}`).join('; and '))
  const line = (words: readonly string[], { flag, about, takesValue, values }: CompletedOption) =>
    `complete -c lockstep -n ${under(words)} -l ${flag.slice(2)} -d ${quoted(short(about))}${
      takesValue ? ` -r${values.length > 0 ? ` -f -a ${quoted(values.join(' '))}` : ''}` : ''
    }`
  return [
    '# Completion of lockstep for fish. Written by: lockstep completion fish',
    ...top(commands).map(
      ({ words, about }) =>
        `complete -c lockstep -f -n __fish_use_subcommand -a ${words[0]} -d ${quoted(short(about))}`,
    ),
    ...commands.flatMap(({ words, below, values, options }) => [
      ...[...below, ...values].map(word => `complete -c lockstep -n ${under(words)} -a ${word}`),
      ...options.map(option => line(words, option)),
    ]),
    '',
  ].join('\n')
}
