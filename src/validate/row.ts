/**
 * A published measurement. A study is a file of `validation/`: lines `# key: value` hold what all of its rows share, the
 * rest is comma-separated with a header. What a source does not print is empty, and stays undefined here.
 */
export interface Row {
  readonly study: string
  /** Line of the file. */
  readonly line: number
  readonly source: string
  /** Where in the source. */
  readonly where: string
  readonly model: string
  readonly device: string
  readonly network: string
  readonly recompute: string
  readonly precision: string
  readonly schedule: string
  readonly note: string
  readonly numbers: Readonly<Partial<Record<Quantity, number>>>
}

const quantities = [
  'layers',
  'embed',
  'heads',
  'kvHeads',
  'ffn',
  'vocab',
  'seq',
  'batch',
  'microbatch',
  'devices',
  'perNode',
  'tp',
  'pp',
  'chunks',
  'dp',
  'cp',
  'ep',
  'zero',
  'sp',
  'tflops',
  'mfu',
  'step',
  'tokens',
  'memory',
] as const
export type Quantity = (typeof quantities)[number]

export function parseStudy(study: string, text: string): Row[] {
  const lines = text.split('\n')
  const shared: Record<string, string> = {}
  let start = 0
  for (; lines[start].startsWith('#'); start++) {
    const [, key, value] = /^# (\w+): (.*)$/.exec(lines[start]) ?? []
    if (key) shared[key] = value
  }
  const header = cellsOf(lines[start])
  return lines.slice(start + 1).flatMap((line, i) => {
    if (line === '') return []
    const cells = cellsOf(line)
    const fields = { ...shared, ...Object.fromEntries(header.map((name, c) => [name, cells[c]])) }
    return [rowOf(study, start + i + 2, fields)]
  })
}

function rowOf(study: string, line: number, fields: Readonly<Record<string, string | undefined>>): Row {
  const numbers: Partial<Record<Quantity, number>> = {}
  for (const name of quantities) {
    const value = Number.parseFloat(fields[name] ?? '')
    if (Number.isFinite(value)) numbers[name] = value
  }
  const word = (name: string) => fields[name] ?? ''
  return {
    study,
    line,
    source: word('source'),
    where: word('where'),
    model: word('model'),
    device: word('device'),
    network: word('network'),
    recompute: word('recompute'),
    precision: word('precision'),
    schedule: word('schedule'),
    note: word('note'),
    numbers,
  }
}

/** Cells of a line; in quotes a comma is a comma, and a doubled quote is one. */
function cellsOf(line: string): string[] {
  return [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) =>
    quoted === undefined ? plain : quoted.replaceAll('""', '"'),
  )
}
