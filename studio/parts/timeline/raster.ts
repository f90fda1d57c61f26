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

export const inksOf = (lane: number, ground: number, fills: readonly number[]): Inks => ({
  lane,
  ground,
  fills: Uint32Array.from(fills),
  blends: Uint32Array.from({ length: kinds.length * shades }, (_, i) =>
    mix(lane, fills[Math.floor(i / shades)]!, ((i % shades) + 1) / shades),
  ),
})

/** The coarsest level whose bins are no wider than a pixel; undefined: spans are drawn one by one. */
function levelFor({ levels }: Lane, secondsPerPixel: number, duration: number): Bins | undefined {
  return [...levels].reverse().find(({ kind }) => duration / kind.length <= secondsPerPixel)
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

export interface Picture {
  readonly pixels: Uint32Array
  readonly width: number
  readonly height: number
}

/** One row a track, arithmetic above, bytes under way below it, hatched. */
export function drawTracks({ pixels, width, height }: Picture, scene: Scene): void {
  const { tracks, view, inks } = scene
  pixels.fill(inks.ground)
  const strip = new Uint32Array(width)
  const hatched = new Uint32Array(width)
  const copy = (row: Uint32Array, y: number) => {
    if (y >= 0 && y < height) pixels.set(row, y * width)
  }
  const top = Math.round(-view.row * rowHeight)
  tracks.forEach((track, n) => {
    const y = top + n * rowHeight
    if (y + rowHeight < 0 || y > height) return
    drawStrip(strip, track.compute, scene)
    for (let line = 0; line < rowHeights.compute; line++) copy(strip, y + line)
    drawStrip(strip, track.network, scene)
    for (let line = 0; line < rowHeights.network; line++)
      copy(hatch(strip, hatched, line, inks.lane), y + rowHeights.compute + line)
  })
}

/** Bytes under way are hatched, so that colour is not all that tells them from arithmetic. */
function hatch(strip: Uint32Array, into: Uint32Array, line: number, lane: number): Uint32Array {
  into.set(strip)
  for (let x = line % 4; x < into.length; x += 4) into[x] = lane
  return into
}

/** One line of pixels, or several, a rank: what it computes, where it computes nothing what is under way meanwhile. */
export function drawRanks({ pixels, width, height }: Picture, trackOf: Uint16Array, scene: Scene): void {
  const { tracks, view } = scene
  const strips = new Map<number, Uint32Array>()
  const stripOf = (track: number): Uint32Array => {
    const known = strips.get(track) ?? bothLanes(tracks[track]!, width, scene)
    strips.set(track, known)
    return known
  }
  for (let y = 0; y < height; y++) {
    const rank = Math.floor(view.row + (y / height) * view.rows)
    pixels.set(stripOf(trackOf[Math.min(trackOf.length - 1, rank)]!), y * width)
  }
}

function bothLanes(track: Track, width: number, scene: Scene): Uint32Array {
  const strip = new Uint32Array(width)
  const under = new Uint32Array(width)
  drawStrip(strip, track.compute, scene)
  drawStrip(under, track.network, scene)
  for (let x = 0; x < width; x++) if (strip[x] === scene.inks.lane) strip[x] = under[x]!
  return strip
}
