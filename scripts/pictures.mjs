// Pictures of README and docs, made by what they show: node scripts/pictures.mjs [step|terminal|studio ...]
// A simulated step, a terminal recording, a page of the studio (needs Chromium). test/pictures.test.ts keeps the first two current.
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { terminalSvg } from './terminal-svg.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, 'docs/images')
const program = join(root, 'bin/lockstep.mjs')

const lockstep = (args, cwd = root) =>
  execFileSync(process.execPath, [program, ...args], {
    cwd,
    encoding: 'utf8',
    env: { ...process.env, FORCE_COLOR: '1', COLUMNS: '100' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })

/** What `make` returns of a temporary folder. */
function inFolder(make) {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-'))
  try {
    return make(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** One step of Llama 3 70B on 512 H100s, a lane per pipeline stage. */
export const stepPicture = () =>
  inFolder(folder => {
    const file = join(folder, 'step.svg')
    lockstep(['simulate', 'examples/jobs/llama3-70b.yaml', '--cluster', 'h100', '--svg', file])
    return readFileSync(file, 'utf8')
  })

/** What the terminal shows of a plan that is found and checked. */
export function terminalPicture() {
  const commands = [
    'plan --model llama3-8b --cluster h100 --devices 64 --seq 8k --global-batch 128 --quick --out job.yaml',
    'verify job.yaml',
  ]
  const shown = inFolder(folder =>
    commands.map(command => ({
      command: `lockstep ${command}`,
      lines: lockstep(command.split(' '), folder).trimEnd().split('\n'),
    })),
  )
  return terminalSvg('lockstep finds a plan and checks it', shown)
}

/** The studio on that job. */
async function studioPicture() {
  const { chromium } = await import('playwright-core')
  const server = spawn(process.execPath, [program, 'studio', 'examples/jobs/llama3-70b.yaml', '--no-open'], {
    cwd: root,
  })
  try {
    const url = await new Promise((resolve, reject) => {
      let text = ''
      server.stdout.on('data', data => {
        text += data
        const found = /http:\/\/\S+/.exec(text)
        if (found) resolve(found[0])
      })
      server.on('exit', () => reject(new Error(`the studio ended: ${text}`)))
    })
    const executablePath =
      process.env.LOCKSTEP_CHROMIUM ??
      execFileSync('sh', ['-c', 'command -v chromium-headless-shell chromium'], { encoding: 'utf8' }).split('\n')[0]
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, deviceScaleFactor: 1 })
    await page.goto(url)
    await page.getByRole('navigation').getByRole('link', { name: 'Plan' }).click()
    await page.waitForTimeout(9000) // a plan is searched and simulated
    const picture = await page.screenshot()
    await browser.close()
    return picture
  } finally {
    server.kill()
  }
}

const pictures = {
  step: ['step.svg', stepPicture],
  terminal: ['terminal.svg', terminalPicture],
  studio: ['studio.png', studioPicture],
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  mkdirSync(folder, { recursive: true })
  const asked = process.argv.slice(2)
  for (const name of asked.length > 0 ? asked : Object.keys(pictures)) {
    const [file, make] = pictures[name]
    writeFileSync(join(folder, file), await make())
    console.log(`docs/images/${file}`)
  }
}
