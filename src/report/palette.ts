/**
 * Colours of what ranks do, in two themes: a fill for each kind of span, and the lane they lie on. Kinds that lie side by side can be told
 * apart by readers with any color vision, boxes from their lane and letters from their box: test/palette.test.ts has the figures.
 */
import type { SpanKind } from '../trace/index.js'

export const themes = ['light', 'dark'] as const
/** The color theme: light or dark. */
export type Theme = (typeof themes)[number]

/** `#rrggbb` */
export type Fill = Readonly<Record<Theme, string>>

const fill = (light: string, dark: string): Fill => ({ light, dark })

/** Colors of work and of axes, distinct within each group since they are drawn on different lanes. */
export const palette: Readonly<Record<SpanKind, Fill>> = {
  F: fill('#215695', '#57a0fe'),
  B: fill('#a54634', '#c94731'),
  I: fill('#a77d1e', '#d6ad33'),
  W: fill('#2c9b66', '#54eeda'),
  optimizer: fill('#b134c5', '#a05cb0'),
  other: fill('#6b7480', '#8d98a6'),
  tp: fill('#3b7cc9', '#6ca8ed'),
  cp: fill('#798d65', '#70d79e'),
  ep: fill('#a46000', '#c7a152'),
  dp: fill('#ce2f9d', '#ed78b4'),
  pp: fill('#5b686f', '#b9c1e3'),
  mesh: fill('#111726', '#f5f3f4'),
}

/** The color of the background of a lane. */
export const laneFill: Fill = fill('#eef0f3', '#222a35')

/** Chunks beyond this look alike. */
export const mostShades = 3

/** The shade of a virtual stage: further ones differ more from the background, darker on light and lighter on dark. */
export function shadeOf(kind: SpanKind, theme: Theme, chunk: number): string {
  const share = 0.18 * Math.min(chunk, mostShades)
  const towards = theme === 'light' ? 0 : 255
  return hexOf(channelsOf(palette[kind][theme]).map(channel => channel + share * (towards - channel)))
}

/** The text color on a fill: white or black, whichever has more contrast; at least 4.5:1. */
export const inkOn = (color: string): string =>
  contrast(color, '#ffffff') >= contrast(color, '#000000') ? '#ffffff' : '#000000'

const channelsOf = (color: string): number[] => [1, 3, 5].map(at => Number.parseInt(color.slice(at, at + 2), 16))

const hexOf = (channels: readonly number[]): string =>
  `#${channels.map(channel => Math.round(channel).toString(16).padStart(2, '0')).join('')}`

/** Red, green and blue as amounts of light, from 0 to 1. */
export const lightOf = (color: string): number[] =>
  channelsOf(color).map(channel => {
    const share = channel / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })

/** The contrast ratio of WCAG 2, from 1 to 21. */
export function contrast(a: string, b: string): number {
  const [more, less] = [a, b].map(luminance).sort((x, y) => y - x)
  return (more + 0.05) / (less + 0.05)
}

const luminance = (color: string): number => {
  const [red, green, blue] = lightOf(color)
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
