/** One compiled test file in a process of its own, which ends with its first failure. */
import { spawn } from 'node:child_process'
import process from 'node:process'

/** How it ends: passed, failed or timed out after `limit` seconds. */
export function runTest(file, { env, limit, imported }) {
  return new Promise(resolve => {
    const flags = [process.env.NODE_OPTIONS, imported && `--import=${imported}`].filter(Boolean).join(' ')
    const child = spawn(process.execPath, ['--single-threaded-gc', '--max-semi-space-size=64', file], {
      env: { ...process.env, ...env, NODE_OPTIONS: flags },
      stdio: ['ignore', 'pipe', 'ignore'],
      detached: true,
    })
    const stop = how => {
      clearTimeout(timer)
      try {
        process.kill(-child.pid, 'SIGKILL') // with the processes it started
      } catch {} // it has ended
      resolve(how)
    }
    const timer = setTimeout(() => stop('timed out'), limit * 1000)
    let text = ''
    child.stdout.on('data', data => {
      text = (text + data).slice(-4000)
      if (/^not ok/m.test(text)) stop('failed')
    })
    child.on('exit', code => stop(code === 0 ? 'passed' : 'failed'))
  })
}
