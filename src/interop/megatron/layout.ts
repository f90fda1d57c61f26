/** `Et*3|(tt|)*29,m|L`: what each stage of a pipeline holds; E the embedding, t a layer, m a layer that predicts further tokens, L the loss. */

const most = 20_000

/** Stages in order; undefined: it is no layout. */
export function stagesOfLayout(text: string): readonly string[] | undefined {
  const plain = expanded(text.replace(/[\s,]/g, ''))
  return plain !== undefined && /^[EtmL|]+$/.test(plain) ? plain.split('|') : undefined
}

/** Repeats written out, innermost first. */
function expanded(text: string): string | undefined {
  let now = text
  for (let turn = 0; turn < 100; turn++) {
    let over = false
    const next = now.replace(/\(([^()]*)\)(?:\*(\d{1,5}))?|([EtmL|])\*(\d{1,5})/, (_, group, times, one, count) => {
      const [what, n] = group === undefined ? [String(one), Number(count)] : [String(group), Number(times ?? 1)]
      over = what.length * n > most
      return over ? '' : repeated(what, n)
    })
    if (over || next.length > most) return undefined
    if (next === now) return now
    now = next
  }
  return undefined
}

/** `tt*2` inside a group is written out first. */
const repeated = (what: string, times: number): string => {
  const inner = what.replace(/([EtmL|])\*(\d{1,3})/g, (_, one: string, count: string) => one.repeat(Number(count)))
  return inner.length * times > most ? what : inner.repeat(times)
}

export const layersOfStage = (stage: string): number => stage.split('t').length - 1

/** The shortest way to write stages of so many layers. */
export function layoutOf(layers: readonly number[]): string {
  const stages = layers.map((count, i) => {
    const middle = count === 0 ? '' : count === 1 ? 't' : `t*${count}`
    return `${i === 0 ? 'E' : ''}${middle}${i === layers.length - 1 ? 'L' : ''}`
  })
  const parts: string[] = []
  for (let at = 0; at < stages.length; ) {
    const stage = stages[at] ?? ''
    let run = 1
    while (at + run < stages.length - 1 && stages[at + run] === stage) run++
    const isLast = at + run === stages.length
    parts.push(run > 1 && !isLast ? `(${stage}|)*${run}` : isLast ? stage : `${stage}|`)
    at += run
  }
  return parts.join('')
}
