/** Options and values under the names they had before: they work, with a note that names the new ones. */
import type { Command, Option } from 'commander'
import { splitAt } from './usage.js'

const renamedOptions: Readonly<Record<string, string>> = {
  '--average': '--ema',
  '--beside': '--single-rank',
  '--laws-only': '--static',
  '--record-choices': '--record-routing',
  '--spans': '--trace',
  '--world': '--devices',
}

const renamedValues: Readonly<Record<string, string>> = { apart: 'separate' }

/** The words of a command with today's names; `note` is called with a sentence for each one that changed. */
export function withNewOptions(program: Command, words: readonly string[], note: (text: string) => void): string[] {
  const command = program.commands.find(one => one.name() === words[0])
  if (!command) return [...words]
  const find = (flag: string) => command.options.find(({ long }) => long === flag)
  const end = words.includes('--') ? words.indexOf('--') : words.length
  const renamed = [...words.slice(0, end)]
  for (const [at, word] of renamed.entries()) {
    const [flag, value] = word.startsWith('--') && word.includes('=') ? splitAt(word, '=') : [word]
    const option = find(flag) ?? (Object.hasOwn(renamedOptions, flag) ? find(renamedOptions[flag]) : undefined)
    if (!option?.long) continue
    if (option.long !== flag) note(`\`${flag}\` is now \`${option.long}\``)
    renamed[at] = option.long + (value === undefined ? '' : `=${currentValue(option, value, note)}`)
    if (value === undefined && option.required && at + 1 < end)
      renamed[at + 1] = currentValue(option, renamed[at + 1], note)
  }
  return [...renamed, ...words.slice(end)]
}

function currentValue({ long, argChoices }: Option, value: string, note: (text: string) => void): string {
  const now = Object.hasOwn(renamedValues, value) ? renamedValues[value] : undefined
  if (now === undefined || !argChoices?.includes(now)) return value
  note(`\`${long} ${value}\` is now \`${long} ${now}\``)
  return now
}
