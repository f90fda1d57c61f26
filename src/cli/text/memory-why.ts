/** `memory --why`: categories next to the analytic formulas, then layers and tensors. */
import { shorten, showBytes, showPercent, table, wrapped } from '../../base/index.js'
import type { MemoryWhy, TensorBytes, TermWhy } from '../../compile/index.js'

export function whyText({ pp, kinds, terms, tensors }: MemoryWhy): string {
  const rows = kinds.map(({ kind, exact, textbook, formula }) => [
    ...[kind, showBytes(exact), textbook === undefined ? '' : showBytes(Math.round(textbook))],
    textbook ? showPercent(exact / textbook - 1) : '',
    formula ?? '',
  ])
  return [
    `Peak memory of a rank of pp ${pp}: exact, and by the analytic formulas of the literature`,
    table(['category', 'exact', 'analytic', 'difference', 'formula'], rows),
    ...kinds.flatMap(({ kind, source, because }) => (because ? wrapped(`${kind}: ${because} (${source})`) : [])),
    '',
    'By term, at the peak of each category:',
    table(['category', 'term', 'exact', 'analytic', 'formula'], terms.filter(isState).map(stateRow)),
    '',
    table(
      ['activations', 'exact', 'analytic', 'formula', 'tensors'],
      terms.filter(term => !isState(term)).map(({ term, ...rest }) => [term, ...cellsOf(rest), tensorsOf(rest)]),
    ),
    ...terms.flatMap(({ term, because }) => (because ? wrapped(`${term}: ${because}`) : [])),
    '',
    'Persistent state of one rank:',
    table(['layer', 'tensor', 'parameters', 'gradients', 'optimizer'], layerRows(tensors)),
  ].join('\n')
}

const isState = ({ kind }: TermWhy): boolean => kind !== 'activations'

const cellsOf = ({ exact, textbook, formula }: Omit<TermWhy, 'term'>): string[] => [
  ...[showBytes(exact), textbook === undefined ? '-' : showBytes(Math.round(textbook)), formula ?? '-'],
]

const tensorsOf = ({ tensors }: Omit<TermWhy, 'term'>): string => shorten(tensors.join(', '), 60)

const stateRow = (of: TermWhy, i: number, all: readonly TermWhy[]): string[] => [
  ...[of.kind === all[i - 1]?.kind ? '' : of.kind, of.term, ...cellsOf(of)],
]

/** Layers with the same tensors of the same bytes are one row each. */
function layerRows(tensors: readonly TensorBytes[]): string[][] {
  const layers = new Map<string, TensorBytes[]>()
  for (const tensor of tensors) layers.set(tensor.layer, [...(layers.get(tensor.layer) ?? []), tensor])
  const alike = new Map<string, { readonly names: string[]; readonly of: readonly TensorBytes[] }>()
  for (const [name, of] of layers) {
    const key = JSON.stringify(of.map(({ layer: _, ...rest }) => rest))
    const before = alike.get(key)
    if (before) before.names.push(name)
    else alike.set(key, { names: [name], of })
  }
  return [...alike.values()].flatMap(({ names, of }) =>
    of.map(({ tensor, parameters, gradients, optimizer }, i) => [
      i === 0 ? (names.length > 1 ? `${names[0]} to ${names[names.length - 1]}, each` : names[0]) : '',
      ...[tensor, showBytes(parameters), showBytes(gradients), showBytes(optimizer)],
    ]),
  )
}
