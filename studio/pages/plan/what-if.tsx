/** What if the network were faster, the memory larger, a rank slow, devices failed. */
import { useMemo } from 'preact/hooks'
import { Choice, Field } from '../../parts/controls.js'
import type { Link } from '../../work/plan/link.js'
import { settle } from './state.js'
import { text } from './text.js'

const times = ['0.25', '0.5', '1', '2', '4']
const jitters = ['0', '0.01', '0.02', '0.05', '0.1']
const hours = ['', '1000', '5000', '20000', '50000']
const amounts = ['1e9', '1e11', '1e12', '15e12']

type Key = 'net' | 'mem' | 'jitter' | 'mtbf' | 'tokens'

/** Made again only where one of them changes. */
export function WhatIf({ link }: { readonly link: Link }) {
  const { net, mem, jitter, mtbf, tokens, slow } = link
  return useMemo(() => <Ifs link={link} />, [net, mem, jitter, mtbf, tokens, slow, text()])
}

function Ifs({ link }: { readonly link: Link }) {
  const words = text().ifs
  const many: readonly (readonly [Key, string, readonly string[], string])[] = [
    ['net', words.network, times, '1'],
    ['mem', words.memory, times, '1'],
    ['jitter', words.jitter, jitters, '0'],
    ['mtbf', words.mtbf, hours, ''],
    ['tokens', words.tokens, amounts, '1e12'],
  ]
  return (
    <>
      {many.map(([key, label, values, usual]) => (
        <Choice
          key={key}
          label={label}
          options={[...new Set([...values, link[key] ?? usual])].map(value => ({ value, label: shown(key, value) }))}
          value={link[key] ?? usual}
          change={value => settle({ [key]: value === usual ? undefined : value })}
        />
      ))}
      <Field label={words.slow}>
        {id => (
          <input
            id={id}
            type="text"
            value={link.slow ?? ''}
            placeholder="17:1.3"
            onChange={event => settle({ slow: event.currentTarget.value.trim() || undefined })}
          />
        )}
      </Field>
    </>
  )
}

function shown(key: Key, value: string): string {
  if (key === 'net' || key === 'mem') return `×${value}`
  if (key === 'tokens') return amountOf(Number(value)) || value.slice(0, 20)
  return value.slice(0, 20) || '–'
}

const amountOf = (value: number): string =>
  value >= 1e12 ? `${value / 1e12}T` : value >= 1e9 ? `${value / 1e9}B` : Number.isFinite(value) ? String(value) : ''
