/** `lockstep schedule` as a user meets it: its forms of output, its exit codes and what it says when it refuses. */
import { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { Command } from 'commander'
import { type ScheduleOptions, scheduleCommand } from '../src/cli/commands/schedule.js'
import { register } from '../src/cli/words/schedule.js'
import { scheduleFacts } from '../src/plan/index.js'
import {
  communicate,
  makeSchedule,
  parseSchedule,
  printComms,
  printSchedule,
  scheduleNames,
  tasksOf,
} from '../src/schedule/index.js'
import { memoryIo } from './memory-io.js'

function world(files: Record<string, string> = {}) {
  const { io, said } = memoryIo(files, { write: (path, text) => void (files[path] = String(text)) })
  return { io, said: Object.assign(said, { files }) }
}

async function command(options: ScheduleOptions, files?: Record<string, string>) {
  const { io, said } = world(files)
  return { code: await scheduleCommand(options, io), ...said }
}

const small = { name: '1f1b', pp: '2', microbatches: '2' }

test('csv is PyTorch notation', async () =>
  deepEqual(await command({ ...small, format: 'csv' }), {
    code: 0,
    out: '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n',
    err: '',
    files: {},
  }))

test('csv with messages', async () =>
  equal(
    (await command({ ...small, microbatches: '1', format: 'csv', comms: true })).out,
    [
      '0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD',
      '1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD',
      '',
    ].join('\n'),
  ))

test('text is the drawing and the timing', async () =>
  match((await command(small)).out, /^0 \| F0 F1 B0 B1\n1 \| F0 B0 F1 B1\n\n/))

test('text draws the schedule to scale where times are integers and a line holds it', async () => {
  const scaled = '0 | FF··BB·BB\n1 | ·FBBFBB··'
  ok((await command(small)).out.includes(`To scale (F forward, B backward, · idle):\n${scaled}\n\nmakespan 9`))
  doesNotMatch((await command({ ...small, cost: 'F=1.5' })).out, /To scale/)
  doesNotMatch((await command({ ...small, microbatches: '64' })).out, /To scale/)
})

test('the bubble comes with its formula where the formula gives it', async () => {
  const formula = /bubble 33\.3 % = \(pp - 1\) \/ \(microbatches \+ pp - 1\) = 1 \/ 3\n/
  match((await command(small)).out, formula)
  doesNotMatch((await command({ ...small, name: 'zb-h1' })).out, /= \(pp - 1\)/)
})

test('json with a cost is the timing', async () =>
  deepEqual(JSON.parse((await command({ ...small, json: true, cost: 'F=1,I=1,W=1,C=0' })).out), {
    makespan: 9,
    span: 9,
    idle: [3, 3],
    bubble: 1 / 3,
    peak: [2, 1],
  }))

test('json without a cost has the rows too, at unit cost', async () => {
  const { rows, makespan, ranks } = JSON.parse((await command({ ...small, json: true })).out)
  deepEqual(
    [rows, makespan, ranks],
    [
      [
        ['0F0', '0F1', '0B0', '0B1'],
        ['1F0', '1B0', '1F1', '1B1'],
      ],
      9,
      2,
    ],
  )
})

test('svg goes to a file and has a box for every task', async () => {
  const { code, files, out } = await command({
    name: 'dualpipe-v',
    pp: '2',
    microbatches: '4',
    format: 'svg',
    out: 'a.svg',
  })
  deepEqual([code, out], [0, ''])
  match(files['a.svg'], /^<svg [\s\S]*<\/svg>\n$/)
  const tasks = makeSchedule('dualpipe-v', { ranks: 2, chunks: 2, microbatches: 4 }).rows.flatMap(tasksOf)
  equal(files['a.svg'].match(/<title>/g)?.length, tasks.length)
})

test('what it prints, it reads: every schedule, both forms', async () => {
  for (const name of scheduleNames) {
    const schedule = makeSchedule(name, { ranks: 4, chunks: scheduleFacts[name].chunks, microbatches: 6 })
    for (const text of [printSchedule(schedule), printComms(communicate(schedule))])
      deepEqual(parseSchedule(text).schedule, schedule, name)
  }
})

test('a file may have blanks, spaces, carriage returns and a byte order mark', async () =>
  equal(
    (await command({ file: 'a.csv', format: 'csv' }, { 'a.csv': '\uFEFF0F0,, 0B0 ,\r\n,1F0,1B0\r\n\r\n' })).out,
    '0F0,0B0\n1F0,1B0\n',
  ))

test('every bad cell of a file is reported where it stands', async () => {
  const { code, err, out } = await command(
    { file: 'a.csv' },
    { 'a.csv': '0F0,0X0,0B0\n1F0,1F,(1B0)OVERLAP_F_B,99999999F0\n' },
  )
  deepEqual([code, out], [1, ''])
  equal(err.trim().split('\n').length, 4)
  match(err, /1:5 a.csv: row 1, cell 2: '0X0' is not an action/)
  match(err, /2:5 a.csv: row 2, cell 2: '1F' is not an action/)
  match(err, /2:8 a.csv: row 2, cell 3/)
  match(err, /stage and microbatch numbers must be below/)
})

test('files that are no schedule are refused, not survived', async () => {
  const bad = {
    empty: '',
    words: 'hello',
    stall: '0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1',
    gap: '0F0,0B0,5F0,5B0',
    wide: '999999F999999',
  }
  for (const [name, text] of Object.entries(bad)) {
    const { code, err } = await command({ file: name }, { [name]: text })
    equal(code, 1, name)
    match(err, /^error /, name)
  }
  match((await command({ file: 'x' }, { x: bad.stall })).err, /rank 0 is deadlocked at 0B0/)
  equal((await command({ file: 'missing' })).code, 1)
})

test('a huge file of rubbish gives a hundred problems and ends', async () => {
  const { code, err } = await command({ file: 'x' }, { x: 'rubbish,'.repeat(500_000) })
  deepEqual([code, err.trim().split('\n').length], [1, 100])
})

const refusals: [ScheduleOptions, 1 | 2, RegExp][] = [
  [{ ...small, pp: '0' }, 1, /pp: 0 is not an integer of at least 1/],
  [{ ...small, pp: '-4' }, 1, /-4 is not an integer/],
  [{ ...small, microbatches: '2.5' }, 1, /2\.5 is not an integer/],
  [{ ...small, microbatches: '1e300' }, 1, /not an integer/],
  [{ ...small, microbatches: 'Infinity' }, 1, /Infinity is not an integer/],
  [{ ...small, pp: '100000', microbatches: '100000' }, 1, /= 10000000000 tasks, but at most/],
  [{ ...small, chunks: '2' }, 1, /chunks = 2, but this schedule needs chunks = 1/],
  [{ ...small, pp: 'four' }, 2, /--pp four: not a number/],
  [{ ...small, pp: undefined }, 2, /--pp is missing/],
  [
    { ...small, pp: 'four', microbatches: undefined, chunks: 'x' },
    2,
    /--pp four: not a number\n.*--microbatches is missing\n.*--chunks x: not a number/,
  ],
  [{ pp: '2', microbatches: '2' }, 2, /name a schedule/],
  [{ ...small, name: '1f1' }, 2, /did you mean 1f1b/],
  [{ ...small, name: 'constructor' }, 2, /unknown schedule 'constructor'/],
  [{ ...small, format: 'png' }, 2, /--format png/],
  [{ ...small, format: 'svg', comms: true }, 2, /--comms/],
  [{ ...small, cost: 'F=-1' }, 2, /--cost F=-1/],
  [{ ...small, cost: 'C=1e308' }, 2, /from 0 to 1000000000/],
  [{ ...small, pp: '500', microbatches: '500', format: 'svg' }, 1, /500000 tasks are too many to draw/],
  [{ ...small, cost: 'X=1' }, 2, /is not F, I, W or C/],
  [{ ...small, file: 'a.csv' }, 2, /leave out NAME, --pp, --microbatches/],
]
for (const [options, code, says] of refusals)
  test(`${JSON.stringify(options)} is refused with ${code}`, async () => {
    const result = await command(options)
    deepEqual([result.code, result.out], [code, ''])
    match(result.err, says)
  })

test('the command line reaches it, and help shows an example', async () => {
  const { io, said } = world()
  const codes: number[] = []
  const program = new Command('lockstep').exitOverride()
  register(program.command('schedule'), io, code => void codes.push(code))
  await program.parseAsync(['schedule', 'zb-h1', '--pp', '1', '--microbatches', '1', '--format', 'csv'], {
    from: 'user',
  })
  deepEqual([codes, said.out], [[0], '0F0,0I0,0W0\n'])
  let help = ''
  program.commands[0].configureOutput({ writeOut: text => void (help += text) }).outputHelp()
  match(help, /lockstep schedule 1f1b --pp 4 --microbatches 8/)
})
