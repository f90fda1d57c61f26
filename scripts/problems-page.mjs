/** docs/problems.md, from the table of problem codes: `node scripts/problems-page.mjs` writes it, a test compares. */
import { writeFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { problemCodes } from '../dist/src/base/index.js'

export function problemsPage() {
  const rows = Object.entries(problemCodes).map(([code, meaning]) => `| \`${code}\` | ${meaning} |`)
  return [
    '# Problems',
    '',
    'What is wrong with an input is told with a path, an equation where there is one, a suggestion, and one of these codes.',
    'Codes are stable: scripts may read them from `--json`, and `Problem.code` is a closed union of them.',
    'The table is printed from src/base/problem-code.ts by `node scripts/problems-page.mjs`.',
    '',
    '| code | meaning |',
    '|---|---|',
    ...rows,
    '',
  ].join('\n')
}

if (import.meta.url === pathToFileURL(process.argv[1]).href)
  writeFileSync(fileURLToPath(new URL('../docs/problems.md', import.meta.url)), problemsPage())
