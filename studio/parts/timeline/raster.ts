/**
 * Draws tracks as pixels: a strip for each track at the present zoom, its rows copies of that strip. No element a span, and no object
 * either: 16,384 ranks are some thousand copies of a few strips.
 */
import { type Bins, firstAfter, kinds, type Lane, type TimelineData, type Track } from './track.js'
import type { View } from './view.js'

/** Colours as the canvas stores them, red in the lowest byte. */
export interface Inks {
  readonly lane: number
  readonly ground: number
  /** By kind. */
  readonly fills: Uint32Array
  /** By kind and cover in sixteenths: the fill over the lane. */
  readonly blends: Uint32Array
  /** Of what is written, as a style says it: by kind on its fill, then on the axis and around what is chosen. */
  readonly letters: readonly string[]
  readonly sheet: string
  readonly soft: string
  readonly ink: string
}

/** What is drawn, and which part of it. */
export interface Scene extends TimelineData {
  readonly view: View
  readonly inks: Inks
}

const shades = 16
const channel = (colour: number, byte: number) => (colour >>> (8 * byte)) & 255
const mix = (under: number, over: number, share: number): number =>
  ([0, 1, 2].reduce(
    (sum, byte) => sum | (Math.round(channel(under, byte) * (1 - share) + channel(over, byte) * share) << (8 * byte)),
    0,
  ) |
    0xff000000) >>>
  0

/** For each kind and cover in sixteenths. */
export const blendsOf = (lane: number, fills: readonly number[]): Uint32Array =>
  Uint32Array.from({ length: kinds.length * shades }, (_, i) =>
    mix(lane, fills[Math.floor(i / shades)]!, ((i % shades) + 1) / shades),
  )

/** The coarsest level whose bins are no wider than a pixel; undefined: spans are drawn one by one. */
function levelFor({ levels }: Lane, secondsPerPixel: number, duration: number): Bins | undefined {
  for (let n = levels.length - 1; n >= 0; n--)
    if (duration / levels[n]!.kind.length <= secondsPerPixel) return levels[n]
  return undefined
}

/** One row of pixels of a lane. */
export function drawStrip(strip: Uint32Array, lane: Lane, { view: { from, to }, inks, duration }: Scene): void {
  const perPixel = (to - from) / strip.length
  strip.fill(inks.lane)
  const bins = levelFor(lane, perPixel, duration)
  if (bins) drawBins(strip, bins, { from, perPixel, duration }, inks)
  else drawSpans(strip, lane, { from, perPixel, duration }, inks)
}

interface Scale {
  readonly from: number
  readonly perPixel: number
  readonly duration: number
}

function drawBins(strip: Uint32Array, { kind, cover }: Bins, { from, perPixel, duration }: Scale, inks: Inks): void {
  const perBin = duration / kind.length
  for (let x = 0; x < strip.length; x++) {
    const last = Math.min(kind.length, Math.max(1, Math.floor((from + (x + 1) * perPixel) / perBin)))
    let best = Math.min(kind.length - 1, Math.floor((from + x * perPixel) / perBin))
    for (let bin = best + 1; bin < last; bin++) if (cover[bin]! > cover[best]!) best = bin
    if (cover[best]! > 0) strip[x] = inks.blends[kind[best]! * shades + (cover[best]! >> 4)]!
  }
}

/** A box is a pixel wide at least, and leaves a pixel to the next one where there is room. */
function drawSpans(strip: Uint32Array, { spans }: Lane, { from, perPixel }: Scale, inks: Inks): void {
  const { start, end, kind } = spans
  const to = from + perPixel * strip.length
  for (let i = firstAfter(spans, from); i < start.length && start[i]! < to; i++) {
    const left = Math.max(0, Math.floor((start[i]! - from) / perPixel))
    const right = Math.min(strip.length, Math.max(left + 1, Math.floor((end[i]! - from) / perPixel)))
    strip.fill(inks.fills[kind[i]!]!, left, right - left > 3 && right < strip.length ? right - 1 : right)
  }
}

/** Heights in pixels of a row where ranks are drawn by what they do. */
export const rowHeights = { compute: 22, network: 8, gap: 8 }
export const rowHeight = rowHeights.compute + rowHeights.network + rowHeights.gap

/** Pixels, and rows to draw in: a frame makes none of its own. */
export class Picture {
  readonly pixels: Uint32Array
  readonly width: number
  readonly height: number
  readonly #rows: Uint32Array[] = []

  constructor({ data, width, height }: Pick<ImageData, 'data' | 'width' | 'height'>) {
    this.pixels = new Uint32Array(data.buffer)
    this.width = width
    this.height = height
  }

  row(n: number): Uint32Array {
    return (this.#rows[n] ??= new Uint32Array(this.width))
  }

  copy(row: Uint32Array, y: number): void {
    if (y >= 0 && y < this.height) this.pixels.set(row, y * this.width)
  }
}

/** One row a track, arithmetic above, bytes under way below it, hatched. */
export function drawTracks(picture: Picture, scene: Scene): void {
  const { tracks, view, inks } = scene
  const [strip, hatched, ground] = [picture.row(0), picture.row(1), picture.row(2).fill(inks.ground)]
  picture.pixels.fill(inks.ground, Math.max(0, topOf(tracks.length, view)) * picture.width)
  for (let n = 0; n < tracks.length; n++) {
    const y = topOf(n, view)
    if (y + rowHeight < 0 || y > picture.height) continue
    drawStrip(strip, tracks[n]!.compute, scene)
    for (let line = 0; line < rowHeights.compute; line++) picture.copy(strip, y + line)
    drawStrip(strip, tracks[n]!.network, scene)
    for (let line = 0; line < rowHeights.network; line++)
      picture.copy(hatch(strip, hatched, line, inks.lane), y + rowHeights.compute + line)
    for (let line = rowHeight - rowHeights.gap; line < rowHeight; line++) picture.copy(ground, y + line)
  }
}

/** Where the row of a track begins, in pixels. */
export const topOf = (track: number, { row }: View): number => Math.round((track - row) * rowHeight)

/** Bytes under way are hatched, so that colour is not all that tells them from arithmetic. */
function hatch(strip: Uint32Array, into: Uint32Array, line: number, lane: number): Uint32Array {
  into.set(strip)
  for (let x = line % 4; x < into.length; x += 4) into[x] = lane
  return into
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
  for (let x = 0; x < strip.length; x++) if (strip[x] === scene.inks.lane) strip[x] = under[x]!
}
