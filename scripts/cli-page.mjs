/** docs/cli.md and its Chinese frame, from the help of the commands: `node scripts/cli-page.mjs` writes them, a test compares. */
import { writeFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { processIo } from '../dist/src/cli/io.js'
import { run } from '../dist/src/cli/main.js'

const frames = {
  'docs/cli.md': [
    '# Commands',
    '',
    'What `lockstep COMMAND --help` prints, of every command. Each has `--json`; exit code 0 is fine, 1 means problems were found, 2 a usage',
    'error, 130 and 143 that it was interrupted. The page is written by `node scripts/cli-page.mjs`.',
  ],
  'docs/zh/cli.md': [
    '# 命令',
    '',
    '每条命令的 `lockstep COMMAND --help` 输出（命令行使用英文）。所有命令都支持 `--json`；退出码 0 表示正常，1 表示发现问题，2 表示用法错误，',
    '130 和 143 表示被中断。本页由 `node scripts/cli-page.mjs` 生成。',
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

/** Names under `Commands:`, without help itself. */
const commandsIn = help =>
  [...(help.split('\nCommands:\n')[1]?.split('\n\n')[0] ?? '').matchAll(/^ {2}([a-z-]+)/gm)]
    .map(([, name]) => name)
    .filter(name => name !== 'help')

async function sections(io, words) {
  const help = await helpOf(io, words)
  const below = []
  for (const name of commandsIn(help)) below.push(...(await sections(io, [...words, name])))
  const own = words.length > 0 ? ['', `## \`lockstep ${words.join(' ')}\``, '', '```text', help, '```'] : []
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
