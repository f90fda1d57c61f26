/** Metrics in the text format of Prometheus (version 0.0.4). */
import { metricTable, type Sample, type Samples } from './metrics.js'

export const prometheusType = 'text/plain; version=0.0.4; charset=utf-8'

export const prometheusText = (samples: Samples): string =>
  [...samples]
    .flatMap(([name, all]) => [
      `# HELP ${name} ${escaped(metricTable[name].help)}`,
      `# TYPE ${name} ${metricTable[name].type}`,
      ...all.map(sample => `${name}${labelsText(sample)} ${numberText(sample.value)}`),
    ])
    .map(line => `${line}\n`)
    .join('')

const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')

function labelsText({ labels = {} }: Sample): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value).replaceAll('"', '\\"')}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

const numberText = (value: number): string =>
  Number.isNaN(value) ? 'NaN' : Number.isFinite(value) ? String(value) : value > 0 ? '+Inf' : '-Inf'
