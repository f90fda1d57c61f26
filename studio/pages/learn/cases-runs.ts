/** The cases that one can choose. */
import { oneOf } from '../../base/knobs.js'
import { text } from './cases-text.js'

const runs = ['megatron', 'llama3', 'deepseek', 'yi', 'gemini', 'eras'] as const
type Run = (typeof runs)[number]

export const run = oneOf(runs)
export const runLabel = () => ({ label: text().run, show: (name: Run) => text().runs[name] })
