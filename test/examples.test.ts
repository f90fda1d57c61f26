/** Every example prints what its last lines promise. */
import { deepEqual } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { family } from './families.js'

const tested = family('examples', 7)
for (const file of readdirSync('examples').filter(name => name.endsWith('.ts')))
  tested(`examples/${file} prints what it says`, () => {
    const promised = readFileSync(`examples/${file}`, 'utf8').match(/(?<=^\/\/> ).*$/gm)
    const printed = execFileSync(process.execPath, [`dist/examples/${file.replace(/\.ts$/, '.js')}`], {
      encoding: 'utf8',
    })
    deepEqual(printed.trimEnd().split('\n'), promised)
  })
