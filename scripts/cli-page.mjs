/** docs/cli.md and its Chinese frame, from the help of the commands: `node scripts/cli-page.mjs` writes them, a test compares. */
import { writeFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { processIo } from '../dist/src/cli/io.js'
import { run } from '../dist/src/cli/main.js'
import { groups } from '../dist/src/cli/table.js'

const frames = {
  'docs/cli.md': [
    '# Commands',
    '',
    'The help of every command, as `lockstep COMMAND --help` prints it. Every command has `--json`. `node scripts/cli-page.mjs` writes this page.',
  ],
  'docs/zh/cli.md': [
    '# 命令',
    '',
    '每条命令的 `lockstep COMMAND --help` 输出（命令行使用英文）。所有命令都支持 `--json`。本页由 `node scripts/cli-page.mjs` 生成。',
  ],
}

async function helpOf(io, words) {
  let text = ''
  const say = more => {
    text += more
  }
  await run([...words, '--help'], { ...io, out: say, err: say, colors: false })
  return text.trimEnd()
}

/** Names in the lists of commands: the top help has one for each group, `Commands:` lists those below a command. */
const commandsIn = help =>
  [...new Set(Object.values(groups)), 'Commands:'].flatMap(heading =>
    [...(help.split(`\n${heading}\n`)[1]?.split('\n\n')[0] ?? '').matchAll(/^ {2}([a-z-]+)/gm)]
      .map(([, name]) => name)
      .filter(name => name !== 'help'),
  )

async function sections(io, words) {
  const help = await helpOf(io, words)
  const below = []
  for (const name of commandsIn(help)) below.push(...(await sections(io, [...words, name])))
  const own = ['', `## \`${['lockstep', ...words].join(' ')}\``, '', '```text', help, '```']
  return [...own, ...below]
}

/** Text of each page by its path. */
export async function cliPages(io = processIo()) {
  const body = await sections(io, [])
  return Object.fromEntries(Object.entries(frames).map(([path, frame]) => [path, [...frame, ...body, ''].join('\n')]))
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.stdout.columns = 80 // as wide as where nobody looks, whatever the terminal
  for (const [path, text] of Object.entries(await cliPages()))
    writeFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), text)
}
