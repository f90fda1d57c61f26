/**
 * The palette in figures: contrast of boxes to their lane and of letters to their box (WCAG 2), and how far apart two kinds look at
 * the least, in OKLab x 100, to normal, protan, deutan and tritan vision (Machado, Oliveira and Fernandes 2009, severity 1).
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { rankOrder } from '../src/base/index.js'
import { contrast, inkOn, laneFill, lightOf, mostShades, palette, shadeOf, themes } from '../src/report/index.js'
import { type SpanKind, spanKinds } from '../src/trace/index.js'

type Matrix = readonly (readonly number[])[]

const visions: Readonly<Record<string, Matrix>> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protan: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deutan: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritan: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
}

const times = (matrix: Matrix, vector: readonly number[]): number[] =>
  matrix.map(row => row.reduce((sum, x, i) => sum + x * vector[i], 0))

const toCones: Matrix = [
  [0.4122214708, 0.5363325363, 0.0514459929],
  [0.2119034982, 0.6806995451, 0.1073969566],
  [0.0883024619, 0.2817188376, 0.6299787005],
]
const toLab: Matrix = [
  [0.2104542553, 0.793617785, -0.0040720468],
  [1.9779984951, -2.428592205, 0.4505937099],
  [0.0259040371, 0.7827717662, -0.808675766],
]

function seen(colour: string, vision: string): number[] {
  const light = times(visions[vision], lightOf(colour)).map(share => Math.min(1, Math.max(0, share)))
  return times(toLab, times(toCones, light).map(Math.cbrt))
}

const apart = (a: string, b: string, vision: string): number => {
  const [one, other] = [seen(a, vision), seen(b, vision)]
  return 100 * Math.hypot(...one.map((x, i) => x - other[i]))
}

const work: readonly SpanKind[] = ['F', 'B', 'I', 'W', 'optimizer', 'other']
const axes: readonly SpanKind[] = [...rankOrder, 'mesh']

test('measures: black on white is 21 : 1, brown and ochre are 1.4 apart to deutan eyes', () => {
  equal(contrast('#000000', '#ffffff'), 21)
  ok(Math.abs(apart('#000000', '#ffffff', 'normal') - 100) < 0.1)
  deepEqual(
    ['normal', 'deutan'].map(vision => apart('#a3552a', '#8f6a1c', vision).toFixed(1)),
    ['6.7', '1.4'],
  )
  deepEqual([...work, ...axes].sort(), [...spanKinds].sort())
})

for (const theme of themes) {
  test(`${theme}: boxes are 3 : 1 to their lane and letters 4.5 : 1 to their box, of all chunks`, () => {
    for (const kind of spanKinds)
      for (let chunk = 0; chunk <= mostShades; chunk++) {
        const box = shadeOf(kind, theme, chunk)
        ok(contrast(box, laneFill[theme]) >= 3, `${kind} ${chunk}: ${contrast(box, laneFill[theme])}`)
        ok(contrast(inkOn(box), box) >= 4.5, `${kind} ${chunk}`)
      }
  })

  for (const [what, kinds] of Object.entries({ work, axes }))
    for (const vision of Object.keys(visions))
      test(`${theme}, ${vision}: kinds of ${what} are 7 apart at the least`, () => {
        for (const [i, a] of kinds.entries())
          for (const b of kinds.slice(i + 1)) {
            const distance = apart(palette[a][theme], palette[b][theme], vision)
            ok(distance >= 7, `${a} and ${b}: ${distance.toFixed(1)}`)
          }
      })

  test(`${theme}: the studio's style has the same colours, and letters that are read on them`, () => {
    const css = readFileSync('studio/style/base.css', 'utf8')
    const [light, dark] = css.split(':root[data-theme="dark"] {').map(part => part.split('}')[0])
    const variables = new Map(
      [...(theme === 'light' ? light : dark).matchAll(/--([\w-]+): (#\w+);/g)].map(([, name, value]) => [name, value]),
    )
    equal(variables.get('lane'), laneFill[theme])
    for (const kind of spanKinds) {
      equal(variables.get(kind), palette[kind][theme], kind)
      const ink = variables.get(`on-${kind}`)
      if (ink) ok(contrast(ink.length === 4 ? `${ink}${ink.slice(1)}` : ink, palette[kind][theme]) >= 4.5, `on ${kind}`)
    }
  })
}
