/**
 * Draws tracks as pixels: a strip for each track at the present zoom, its rows copies of that strip. No element a span, and no object
 * either: 16,384 ranks are some thousand copies of a few strips.
 */
import { type Bins, coverOf, firstAfter, kindOf, type Lane, mostBins, type TimelineData, type Track } from './track.js'
import type { View } from './view.js'

/** Colours as the canvas stores them, red in the lowest byte. */
export interface Inks {
  readonly lane: number
  readonly ground: number
  /** By kind. */
  readonly fills: Uint32Array
  /** By bin: the fill of its kind over the lane, as much as it covers, in sixteenths. */
  readonly blends: Uint32Array
  /** Of what is written on fills, as a style says it, by kind. */
  readonly letters: readonly string[]
  /** Of the axis, and of what is written on it. */
  readonly sheet: string
  readonly soft: string
  readonly tick: number
  /** Around what is chosen. */
  readonly ink: number
}

/** What is drawn, and which part of it. */
export interface Scene extends TimelineData {
  readonly view: View
  readonly inks: Inks
}

/** As the canvas stores it -> as a style says it. */
export const styled = (ink: number): string =>
  `#${[0, 8, 16].map(by => ((ink >>> by) & 255).toString(16).padStart(2, '0')).join('')}`

const shades = 16
const channel = (colour: number, byte: number) => (colour >>> (8 * byte)) & 255
/** One colour over another. */
export const mix = (under: number, over: number, share: number): number =>
  ([0, 1, 2].reduce(
    (sum, byte) => sum | (Math.round(channel(under, byte) * (1 - share) + channel(over, byte) * share) << (8 * byte)),
    0,
  ) |
    0xff000000) >>>
  0

/** For each bin there can be. */
export const blendsOf = (lane: number, fills: readonly number[]): Uint32Array =>
  Uint32Array.from({ length: mostBins }, (_, bin) =>
    coverOf(bin) === 0 ? lane : mix(lane, fills[kindOf(bin)] ?? lane, ((coverOf(bin) >> 4) + 1) / shades),
  )

/** The coarsest level whose bins are no wider than a pixel; undefined: spans are drawn one by one. */
function levelFor({ levels }: Lane, secondsPerPixel: number, duration: number): Bins | undefined {
  for (let n = levels.length - 1; n >= 0; n--) if (duration / levels[n]!.length <= secondsPerPixel) return levels[n]
  return undefined
}

/** One row of pixels of a lane. */
export function drawStrip(strip: Uint32Array, lane: Lane, { view: { from, to }, inks, duration }: Scene): void {
  const perPixel = (to - from) / strip.length
  const bins = levelFor(lane, perPixel, duration)
  if (bins) drawBins(strip, bins, { from, perPixel, duration }, inks)
  else drawSpans(strip, lane, { from, perPixel, duration }, inks)
}

interface Scale {
  readonly from: number
  readonly perPixel: number
  readonly duration: number
}

/**
 * Of the bins of a pixel the one that is covered most. There is one or a few of them: places are counted in 65,536ths of a bin, as
 * integers, and the largest is found without a branch, which costs a third of what it does otherwise.
 */
function drawBins(strip: Uint32Array, bins: Bins, { from, perPixel, duration }: Scale, { blends }: Inks): void {
  const perBin = duration / bins.length
  const step = Math.ceil((perPixel / perBin) * 65_536)
  let at = Math.floor((from / perBin) * 65_536)
  let first = at >> 16
  for (let x = 0; x < strip.length; x++) {
    at = (at + step) | 0
    const next = at >> 16
    let most = larger(bins[first]!, bins[next - 1]!)
    for (let bin = first + 1; bin < next - 1; bin++) most = larger(most, bins[bin]!)
    strip[x] = blends[most]!
    first = next
  }
}

const larger = (a: number, b: number): number => a - ((a - b) & ((a - b) >> 31))

/** A box is a pixel wide at least, and leaves a pixel to the next one where there is room. */
function drawSpans(strip: Uint32Array, { spans }: Lane, { from, perPixel }: Scale, { fills, lane }: Inks): void {
  const { start, end, kind } = spans
  const width = strip.fill(lane).length
  const to = from + perPixel * width
  for (let i = firstAfter(spans, from); i < start.length && start[i]! < to; i++) {
    const left = start[i]! > from ? ((start[i]! - from) / perPixel) | 0 : 0
    const right = end[i]! < to ? Math.max(left + 1, ((end[i]! - from) / perPixel) | 0) : width
    const stop = right - left > 3 && right < width ? right - 1 : right
    const fill = fills[kind[i]!]!
    // Most boxes are a few pixels wide, and a call for each would cost more than its pixels.
    if (stop - left > 32) strip.fill(fill, left, stop)
    else for (let x = left; x < stop; x++) strip[x] = fill
  }
}

/** Heights in pixels of a row where ranks are drawn by what they do. */
export const rowHeights = { compute: 22, network: 8, gap: 8 }
export const rowHeight = rowHeights.compute + rowHeights.network + rowHeights.gap

/** Pixels of an image from one line of it to another, and rows to draw in: a frame makes none of its own. */
export class Picture {
  readonly pixels: Uint32Array
  readonly width: number
  readonly height: number
  readonly #rows: Uint32Array[] = []

  constructor({ data, width, height }: ImageData, from = 0, to = height) {
    this.pixels = new Uint32Array(data.buffer, from * width * 4, (to - from) * width)
    this.width = width
    this.height = to - from
  }

  row(n: number): Uint32Array {
    return (this.#rows[n] ??= new Uint32Array(this.width))
  }

  copy(row: Uint32Array, y: number): void {
    if (y >= 0 && y < this.height) this.pixels.set(row, y * this.width)
  }

  /** What of a box lies in the picture. */
  fill(ink: number, { left, top, width, height }: Box): void {
    const [from, to] = [Math.max(0, left), Math.min(this.width, left + width)]
    for (let y = Math.max(0, top); y < Math.min(this.height, top + height) && from < to; y++)
      this.pixels.fill(ink, y * this.width + from, y * this.width + to)
  }

  /** The same box of another picture of this size. */
  take(other: Picture, { left, top, width, height }: Box): void {
    const [from, to] = [Math.max(0, left), Math.min(this.width, left + width)]
    for (let y = Math.max(0, top); y < Math.min(this.height, top + height) && from < to; y++) {
      const at = y * this.width
      this.pixels.set(other.pixels.subarray(at + from, at + to), at + from)
    }
  }

  /** Two pixels wide, inside a box. */
  frame(ink: number, { left, top, width, height }: Box): void {
    for (const y of [top, top + height - 2]) this.fill(ink, { left, top: y, width, height: 2 })
    for (const x of [left, left + width - 2]) this.fill(ink, { left: x, top, width: 2, height })
  }
}

/** In pixels. */
export interface Box {
  readonly left: number
  readonly top: number
  readonly width: number
  readonly height: number
}

/** One row a track, arithmetic above, bytes under way below it, hatched. */
export function drawTracks(picture: Picture, scene: Scene): void {
  const { tracks, view, inks } = scene
  const [strip, ground] = [picture.row(0), picture.row(1).fill(inks.ground)]
  const hatched = Array.from({ length: hatching }, (_, n) => picture.row(2 + n))
  picture.pixels.fill(inks.ground, Math.max(0, topOf(tracks.length, view)) * picture.width)
  for (let n = 0; n < tracks.length; n++) {
    const y = topOf(n, view)
    if (y + rowHeight < 0 || y > picture.height) continue
    drawStrip(strip, tracks[n]!.compute, scene)
    for (let line = 0; line < rowHeights.compute; line++) picture.copy(strip, y + line)
    drawStrip(strip, tracks[n]!.network, scene)
    for (let line = 0; line < hatching; line++) hatch(strip, hatched[line]!, line, inks.lane)
    for (let line = 0; line < rowHeights.network; line++)
      picture.copy(hatched[line % hatching]!, y + rowHeights.compute + line)
    for (let line = rowHeight - rowHeights.gap; line < rowHeight; line++) picture.copy(ground, y + line)
  }
}

/** Where the row of a track begins, in pixels. */
export const topOf = (track: number, { row }: View): number => Math.round((track - row) * rowHeight)

/** Bytes under way are hatched, so that colour is not all that tells them from arithmetic: every so many pixels, lines and columns. */
const hatching = 4

function hatch(strip: Uint32Array, into: Uint32Array, line: number, lane: number): void {
  into.set(strip)
  for (let x = line; x < into.length; x += hatching) into[x] = lane
}

/** One line of pixels, or several, a rank: what it computes, where it computes nothing what is under way meanwhile. */
export function drawRanks(picture: Picture, trackOf: ArrayLike<number>, scene: Scene): void {
  const { tracks, view } = scene
  const drawn = new Set<number>()
  const under = picture.row(tracks.length)
  for (let y = 0; y < picture.height; y++) {
    const rank = Math.floor(view.row + (y / picture.height) * view.rows)
    const track = trackOf[Math.min(trackOf.length - 1, rank)]!
    const strip = picture.row(track)
    if (!drawn.has(track)) drawBoth(strip, under, tracks[track]!, scene)
    drawn.add(track)
    picture.copy(strip, y)
  }
}

function drawBoth(strip: Uint32Array, under: Uint32Array, track: Track, scene: Scene): void {
  drawStrip(strip, track.compute, scene)
  drawStrip(under, track.network, scene)
  const { lane } = scene.inks
  for (let x = 0; x < strip.length; x++) if (strip[x] === lane) strip[x] = under[x]!
}
