/**
 * Pages of the documentation as tests see them. A page in English has a Chinese one with the same blocks. Blocks are, by
 * their language: `console`, commands after `$` and what they print; `sh`, commands for another machine, of which only the
 * words are checked; yaml, json, jsonl and text whose first line is `# name`: files. The blocks of a page are run in order,
 * in a folder of its own.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Block {
  readonly language: string
  readonly body: string
}

export interface Command {
  readonly line: string
  /** What stands below it. */
  readonly shown: readonly string[]
}

export interface Page {
  readonly english: string
  readonly chinese: string
}

const markdownIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(file => file.endsWith('.md'))

/** Generated from the source, whose comments are English: these pages have no Chinese ones, and a test of their own. */
export const references: readonly string[] = markdownIn('docs/reference')
  .sort()
  .map(file => join('docs/reference', file))

export const pages: readonly Page[] = [
  { english: 'README.md', chinese: 'README.zh.md' },
  ...markdownIn('docs')
    .filter(file => !file.startsWith('zh/') && !file.startsWith('reference/'))
    .sort()
    .map(file => ({ english: join('docs', file), chinese: join('docs/zh', file) })),
]

/** Chinese pages, whether or not there is an English one. */
export const chinesePages = (): string[] => [
  'README.zh.md',
  ...markdownIn('docs/zh').map(file => join('docs/zh', file)),
]

const fence = /^```(\w*)\n([\s\S]*?)^```$/gm

export const textOf = (path: string): string => readFileSync(path, 'utf8')

export const blocksOf = (text: string): Block[] =>
  [...text.matchAll(fence)].map(([, language, body]) => ({ language, body }))

/** The page with other blocks in the place of its own. */
export function withBlocks(text: string, blocks: readonly Block[]): string {
  let at = 0
  return text.replace(fence, whole => {
    const block = blocks[at++]
    return block === undefined ? whole : `\`\`\`${block.language}\n${block.body}\`\`\``
  })
}

export const proseOf = (text: string): string => text.replace(fence, '')

/** Name and content of a file that a block shows. */
export function fileOf({ language, body }: Block): readonly [name: string, content: string] | undefined {
  if (!['yaml', 'json', 'jsonl', 'text'].includes(language)) return undefined
  const [first, name] = /^(?:#|\/\/) (\S+\.\w+|Makefile)\n/.exec(body) ?? []
  if (first === undefined) return undefined
  return [name, language === 'yaml' ? body : body.slice(first.length)]
}

/** Commands of a console block; a line that ends with a backslash goes on in the next one. */
export function commandsOf(body: string): Command[] {
  const commands: { line: string; shown: string[] }[] = []
  let open = false
  for (const line of body.replace(/\n$/, '').split('\n')) {
    if (open) commands[commands.length - 1].line += `\n${line}`
    else if (line.startsWith('$ ')) commands.push({ line: line.slice(2), shown: [] })
    else commands.at(-1)?.shown.push(line)
    open = (open || line.startsWith('$ ')) && line.endsWith('\\')
  }
  return commands
}

export const blockOf = (commands: readonly Command[]): string =>
  commands.map(({ line, shown }) => [`$ ${line}`, ...shown].join('\n')).join('\n') + '\n'

/** Headings, each with the anchor that GitHub gives it. */
export function headingsOf(text: string): { readonly level: number; readonly anchor: string }[] {
  const seen = new Map<string, number>()
  return [...proseOf(text).matchAll(/^(#+) (.*)$/gm)].map(([, marks, title]) => {
    const plain = title.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
    const slug = plain.replace(/[^\p{L}\p{N}\p{M} _-]/gu, '').replaceAll(' ', '-')
    const times = seen.get(slug) ?? 0
    seen.set(slug, times + 1)
    return { level: marks.length, anchor: times === 0 ? slug : `${slug}-${times}` }
  })
}

export const tableRowsOf = (text: string): number => [...proseOf(text).matchAll(/^\|.*\|$/gm)].length

export const linksOf = (text: string): string[] =>
  [
    ...proseOf(text)
      .replace(/`[^`\n]*`/g, '')
      .matchAll(/\]\(([^)\s]+)\)/g),
  ].map(([, link]) => link)
