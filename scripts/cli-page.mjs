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
    'The help of every command, as `lockstep COMMAND --help` prints it. `node scripts/cli-page.mjs` writes this page.',
    '',
    '- **Job**: where `<job>` is not given, commands take `job.yaml`, `job.yml` or `job.json` of the current folder; `-` reads standard input.',
    '- **Run**: runs go to `runs/DATE-NAME`, and `runs/latest` links to the newest. `watch`, `doctor`, `report` and `replan` take it by default.',
    '- **Output**: `--json` everywhere, `--quiet`, `--verbose`, `--no-color` (or `NO_COLOR=1`; `FORCE_COLOR=1` colors pipes).',
    '- **Pager**: on a terminal, output longer than the screen goes through `$LOCKSTEP_PAGER`, `$PAGER` or `less -FRX`. `--no-pager` or `LOCKSTEP_PAGER=` turns it off.',
    '- **Completion**: `lockstep completion bash`, `zsh` or `fish` prints a script for the shell.',
    '- **Exit codes**: 0 success, 1 problems found, 2 usage error, 129 hangup, 130 interrupted, 143 terminated.',
  ],
  'docs/zh/cli.md': [
    '# 命令',
    '',
    '每条命令的 `lockstep COMMAND --help` 输出（命令行使用英文）。本页由 `node scripts/cli-page.mjs` 生成。',
    '',
    '- **作业**：未给出 `<job>` 时，命令使用当前目录下的 `job.yaml`、`job.yml` 或 `job.json`；`-` 表示标准输入。',
    '- **运行目录**：每次运行写入 `runs/日期-名称`，`runs/latest` 指向最新的一次；`watch`、`doctor`、`report` 和 `replan` 默认使用它。',
    '- **输出**：所有命令都支持 `--json`、`--quiet`、`--verbose`、`--no-color`（或 `NO_COLOR=1`；`FORCE_COLOR=1` 在管道中也使用颜色）。',
    '- **分页**：在终端上，超过一屏的输出经过 `$LOCKSTEP_PAGER`、`$PAGER` 或 `less -FRX`；`--no-pager` 或 `LOCKSTEP_PAGER=` 关闭分页。',
    '- **补全**：`lockstep completion bash`、`zsh` 或 `fish` 输出相应 shell 的补全脚本。',
    '- **退出码**：0 成功，1 发现问题，2 用法错误，129 终端关闭，130 被中断，143 被终止。',
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
