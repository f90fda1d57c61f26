/**
 * What a timeline is drawn from: one track for all ranks that do the same, its spans as columns. For views of many spans a pixel there
 * are bins, each with the kind that takes most of it, in levels of half as many: a frame costs pixels, however many spans there are.
 */

/** Kinds a span can have, in the order of their numbers, which are the core's `spanKinds`: arithmetic first, then the axis of bytes. */
export const kinds = ['F', 'B', 'I', 'W', 'optimizer', 'other', 'tp', 'cp', 'ep', 'dp', 'pp', 'mesh'] as const
export type Kind = (typeof kinds)[number]

/** Spans of one lane of a rank, in the order they begin; they do not overlap, or the later one lies on top. */
export interface Spans {
  readonly start: Float64Array<ArrayBuffer>
  readonly end: Float64Array<ArrayBuffer>
  /** Index into `kinds`. */
  readonly kind: Uint8Array<ArrayBuffer>
  /** -1: of no stage or microbatch. */
  readonly stage: Int32Array<ArrayBuffer>
  readonly microbatch: Int32Array<ArrayBuffer>
  /** Index into the track's `ops`. */
  readonly op: Uint8Array<ArrayBuffer>
}

/**
 * One level of bins, a number each: what spans of any kind cover of it, in 255ths, times 16, and the kind that takes most of it. So the
 * largest of a few is the one that is covered most.
 */
export type Bins = Uint16Array<ArrayBuffer>

/** More than there are kinds. */
const perCover = 16
export const mostBins = 256 * perCover
export const kindOf = (bin: number): number => bin % perCover
/** In 255ths. */
export const coverOf = (bin: number): number => Math.floor(bin / perCover)

export interface Lane {
  readonly spans: Spans
  /** The finest level first, each of half as many bins as the one before. */
  readonly levels: readonly Bins[]
}

export interface Track {
  /** The first rank that does this, and how many do. */
  readonly rank: number
  readonly ranks: number
  readonly compute: Lane
  readonly network: Lane
  readonly ops: readonly string[]
}

export interface TimelineData {
  readonly duration: number
  readonly tracks: readonly Track[]
  /** Of each rank its track, where ranks can be drawn one by one. */
  readonly trackOf?: Uint16Array<ArrayBuffer>
}

const finest = 16_384
const coarsest = 256

export function laneOf(spans: Spans, duration: number): Lane {
  const levels = [finestBins(spans, duration)]
  for (let count = finest / 2; count >= coarsest; count /= 2) levels.push(halved(levels.at(-1)!))
  return { spans, levels }
}

/** The most of each bin, found in one pass: spans come in order, so a bin's sums are done when the next one begins. */
function finestBins({ start, end, kind }: Spans, duration: number): Bins {
  const bins = new Uint16Array(finest)
  const most = new Float64Array(finest)
  const covered = new Float64Array(finest)
  const unit = duration / finest
  const sums = new Float64Array(finest * kinds.length)
  for (let i = 0; i < start.length; i++) {
    const last = Math.min(finest - 1, Math.floor(end[i]! / unit))
    for (let bin = Math.max(0, Math.floor(start[i]! / unit)); bin <= last; bin++) {
      const part = Math.min(end[i]!, (bin + 1) * unit) - Math.max(start[i]!, bin * unit)
      if (part <= 0) continue
      const at = bin * kinds.length + kind[i]!
      sums[at] = sums[at]! + part
      covered[bin] = covered[bin]! + part
      if (sums[at]! > most[bin]!) {
        most[bin] = sums[at]!
        bins[bin] = kind[i]!
      }
    }
  }
  for (let bin = 0; bin < finest; bin++)
    bins[bin] = Math.min(255, Math.ceil((covered[bin]! / unit) * 255)) * perCover + bins[bin]!
  return bins
}

function halved(bins: Bins): Bins {
  const half = new Uint16Array(bins.length / 2)
  for (let bin = 0; bin < half.length; bin++) {
    const [a, b] = [bins[2 * bin]!, bins[2 * bin + 1]!]
    half[bin] = ((coverOf(a) + coverOf(b) + 1) >> 1) * perCover + kindOf(coverOf(a) >= coverOf(b) ? a : b)
  }
  return half
}

/** Columns of a rank as the core gives them, with labels of the same length. */
export interface Labelled {
  readonly columns: {
    readonly start: Float64Array<ArrayBuffer>
    readonly end: Float64Array<ArrayBuffer>
    readonly lane: Uint8Array<ArrayBuffer>
  }
  readonly labels: {
    readonly kind: Uint8Array<ArrayBuffer>
    readonly op: Uint8Array<ArrayBuffer>
    readonly ops: readonly string[]
    readonly stage: Int32Array<ArrayBuffer>
    readonly microbatch: Int32Array<ArrayBuffer>
  }
}

/** Lane 0 computes; what is on any other lies beside it: bytes under way. */
export function trackOf({ columns, labels }: Labelled, who: Pick<Track, 'rank' | 'ranks'>, duration: number): Track {
  const pick = (computes: boolean): Spans => {
    const at: number[] = []
    for (let i = 0; i < columns.start.length; i++)
      if ((columns.lane[i] === 0) === computes && columns.end[i]! > columns.start[i]!) at.push(i)
    at.sort((a, b) => columns.start[a]! - columns.start[b]!)
    return {
      ...{ start: Float64Array.from(at, i => columns.start[i]!), end: Float64Array.from(at, i => columns.end[i]!) },
      ...{ kind: Uint8Array.from(at, i => labels.kind[i]!), op: Uint8Array.from(at, i => labels.op[i]!) },
      ...{
        stage: Int32Array.from(at, i => labels.stage[i]!),
        microbatch: Int32Array.from(at, i => labels.microbatch[i]!),
      },
    }
  }
  const lane = (computes: boolean) => laneOf(pick(computes), duration)
  return { ...who, compute: lane(true), network: lane(false), ops: labels.ops }
}

/** The first span that ends behind a time; spans begin in order, and nearly end in order. */
export function firstAfter({ end }: Spans, time: number): number {
  let [low, high] = [0, end.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (end[middle]! <= time) low = middle + 1
    else high = middle
  }
  return low
}

/** The span at a time, if there is one. */
export function spanAt(spans: Spans, time: number): number | undefined {
  const at = firstAfter(spans, time)
  return at < spans.start.length && spans.start[at]! <= time ? at : undefined
}
