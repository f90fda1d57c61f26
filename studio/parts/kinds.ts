/** The kinds of memory a program counts, by name and in one order. */
import { defineText } from '../base/language.js'
import { bytes } from '../base/numbers.js'
import type { Bytes } from '../work/jobs.js'
import type { Part } from './bars.js'

const text = defineText(
  {
    parameters: 'parameters',
    gradients: 'gradients',
    optimizer: 'optimizer state',
    activations: 'activations',
    workspace: 'workspace',
    data: 'data',
  },
  {
    parameters: '参数',
    gradients: '梯度',
    optimizer: '优化器状态',
    activations: '激活值',
    workspace: '工作区',
    data: '数据',
  },
)

export const nameOfKind = (kind: string): string => text()[kind as Kind] ?? kind

const kinds = ['parameters', 'gradients', 'optimizer', 'activations', 'workspace', 'data'] as const
type Kind = (typeof kinds)[number]

/** Classes of style/parts.css. */
const classes: Readonly<Record<Kind, string>> = {
  parameters: 'params',
  gradients: 'gradients',
  optimizer: 'optimizer',
  activations: 'activations',
  workspace: 'workspace',
  data: 'data',
}

/** A bar's parts; `only`: no others. What is less than a thousandth of the whole cannot be seen, and stands in the table alone. */
export function partsOf(of: Bytes, only: readonly Kind[] = kinds): Part[] {
  const words = text()
  const least = only.reduce((sum, kind) => sum + of[kind], 0) / 1000
  return only.flatMap(kind => (of[kind] > least ? [{ name: words[kind], value: of[kind], kind: classes[kind] }] : []))
}

export function kindsOf(of: Bytes): (readonly [string, string])[] {
  const words = text()
  return kinds.map(kind => [words[kind], bytes(of[kind])])
}
