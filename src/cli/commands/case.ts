/** lockstep case: published runs beside ours. */
import { fileURLToPath } from 'node:url'
import { showPercent, showSeconds, table } from '../../base/index.js'
import { caseNamed, cases, compareCase, rowsOf, type Timed, type Times } from '../../validate/index.js'
import type { Io } from '../io.js'

const folder = fileURLToPath(new URL('../../../../validation', import.meta.url))

export function caseCommand(name: string | undefined, { json }: { json?: boolean }, io: Io): number {
  if (name === undefined) {
    const list = Object.entries(cases).map(([key, { title }]) => [key, title])
    io.out(json ? `${JSON.stringify(Object.fromEntries(list), null, 2)}\n` : `${table(['case', ''], list)}\n`)
    return 0
  }
  const found = caseNamed(name)
  const times = compareCase(found, rowsOf(io.read(`${folder}/${found.file}`)))
  io.out(
    json
      ? `${JSON.stringify({ name, title: found.title, ...asJson(times) }, null, 2)}\n`
      : caseText(found.title, times),
  )
  return 0
}

const asJson = ({ timed, aside }: Times) => ({
  rows: timed.map(({ row, setup, measured, predicted, error, fitted }) => ({
    ...{ source: row.source, device: setup.cluster.device.name, devices: setup.cluster.devices, split: setup.split },
    ...{ software: setup.software.name, published: row.reported_tflops_per_gpu, measured, predicted, error, fitted },
  })),
  aside: aside.map(({ row, reason }) => ({ line: row.line, reason })),
})

const planOf = ({ setup: { split } }: Timed): string =>
  (['tp', 'cp', 'ep', 'pp', 'dp'] as const)
    .filter(axis => split[axis] > 1)
    .map(axis => `${axis} ${split[axis]}`)
    .join(' ')

function caseText(title: string, { timed, aside }: Times): string {
  const rows = timed.map(one => {
    const { row, setup, measured, predicted, error, fitted } = one
    const rate = row.reported_tflops_per_gpu
    return [
      `${setup.cluster.devices} x ${setup.cluster.device.name}`,
      planOf(one),
      ...[row.seq_len ?? '', row.global_batch_seqs ?? '', rate ?? ''],
      // The same FLOPs, in the time that we say.
      rate === undefined ? '' : ((rate * measured) / predicted).toFixed(0),
      ...[showSeconds(measured), showSeconds(predicted), `${showPercent(error)}${fitted ? ' *' : ''}`],
    ]
  })
  const header = ['devices', 'plan', 'seq', 'batch', 'TFLOP/s', 'ours', 'step', 'ours', 'differs by']
  const softwares = [...new Set(timed.map(({ setup }) => setup.software.name))]
  return [
    title,
    '',
    ...(rows.length > 0 ? [table(header, rows), ''] : []),
    ...(softwares.length > 0
      ? [`TFLOP/s a device and step as published, and ours: the same plan priced as ${softwares.join(', ')} runs it.`]
      : []),
    ...(timed.some(({ fitted }) => fitted) ? ['* a constant of the prices was fitted on this row'] : []),
    ...aside.map(({ row, reason }) => `row ${row.line} is set aside: ${reason}`),
    ...[...new Set(timed.map(({ row }) => `source: ${row.source}`))],
    '',
  ].join('\n')
}
