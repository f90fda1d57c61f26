/** docs/problems.md and its Chinese frame, from the table of problem codes: `node scripts/problems-page.mjs` writes them, a test compares. */
import { writeFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { problemCodes } from '../dist/src/base/index.js'

const frames = {
  'docs/problems.md': [
    '# Problems',
    '',
    'Every problem with an input is reported with its path, an equation where there is one, a suggestion, and one of these codes.',
    'Codes are stable: scripts may read them from `--json`, and `Problem.code` is a closed union of them.',
    'The table is printed from src/base/problem-code.ts by `node scripts/problems-page.mjs`.',
    '',
    '| code | meaning |',
  ],
  'docs/zh/problems.md': [
    '# 问题代码',
    '',
    '输入有什么问题，都以路径、等式（如果有）、建议和下列代码之一给出。代码是稳定的：脚本可以从 `--json` 中读取它们，',
    '`Problem.code` 是它们的封闭联合类型。含义一栏与程序中的英文一致。本表由 `node scripts/problems-page.mjs` 从 src/base/problem-code.ts 生成。',
    '',
    '| 代码 | 含义 |',
  ],
}

/** Text of each page by its path. */
export function problemsPages() {
  const rows = Object.entries(problemCodes).map(([code, meaning]) => `| \`${code}\` | ${meaning} |`)
  const pages = Object.entries(frames)
  return Object.fromEntries(pages.map(([path, frame]) => [path, [...frame, '|---|---|', ...rows, ''].join('\n')]))
}

if (import.meta.url === pathToFileURL(process.argv[1]).href)
  for (const [path, text] of Object.entries(problemsPages()))
    writeFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), text)
