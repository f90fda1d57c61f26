/** Traffic of a rank over the links of its cluster. */

/** What a rank sends over one kind of link in a step. */
export interface LinkUse {
  /** The level of the topology: 'node', 'fabric'. */
  readonly level: string
  readonly link: string
  readonly bytes: number
  /** The share of the step that these bytes take at the bandwidth the rank gets there. */
  readonly utilization: number
}

interface Row {
  readonly level: string
  readonly link: string
  readonly bytes: number
  readonly seconds: number
}

/** Bytes and utilization per link. A collective counts on every link that it crosses. */
export function linkUseOf(rows: readonly Row[], step: number): LinkUse[] {
  const uses = new Map<string, LinkUse>()
  for (const { level, link, bytes, seconds } of rows) {
    const key = `${level} ${link}`
    const before = uses.get(key) ?? { level, link, bytes: 0, utilization: 0 }
    uses.set(key, { level, link, bytes: before.bytes + bytes, utilization: before.utilization + seconds / step })
  }
  return [...uses.values()]
}
