/** What is trained and where: model, devices, sequence, batch; and the ways to take the plan along. */
import { useMemo } from 'preact/hooks'
import { defineText } from '../../base/language.js'
import { takeJob } from '../../base/own.js'
import { address } from '../../base/router.js'
import { saveText } from '../../base/save.js'
import { Command, Copy } from '../../parts/command.js'
import { Choice, NumberField } from '../../parts/controls.js'
import { LongLink } from '../../parts/long-link.js'
import { ask } from '../../work/ask.js'
import type { Link } from '../../work/plan/link.js'
import type { PlanRead } from '../../work/plan.js'
import { adapt } from './state.js'
import { text as page } from './text.js'

const text = defineText(
  { exportCluster: 'Export cluster.json', program: 'Its program', run: 'Run it' },
  { exportCluster: '导出 cluster.json', program: '查看程序', run: '运行' },
)

interface HeadProps {
  readonly read: PlanRead
  readonly catalog: { readonly models: readonly string[]; readonly devices: readonly string[] }
  readonly link: Link
}

export function Head({ read, catalog, link }: HeadProps) {
  const words = page()
  // A slider that moves changes none of it.
  const asked = useMemo(() => <Asked read={read} catalog={catalog} />, [read, catalog, words])
  return (
    <header class="plan-head">
      {asked}
      <Taking link={link} read={read} />
    </header>
  )
}

function Asked({ read, catalog }: Omit<HeadProps, 'link'>) {
  const words = page()
  const { device, devices } = read.cluster
  const models = [...(read.model ? [] : ['']), ...catalog.models]
  return (
    <div class="controls">
      <Choice
        label={words.model}
        options={models.map(value => ({ value, label: value || (read.name ?? words.own) }))}
        value={read.model ?? ''}
        change={model => void adapt({ model })}
      />
      <Choice
        label={words.cluster}
        options={catalog.devices.map(value => ({ value, label: value }))}
        value={device.name}
        change={name => void adapt({ on: `${name}*${devices}` })}
      />
      <NumberField
        label={words.devices}
        {...{ value: devices, min: 1, max: 65536 }}
        change={count => void adapt({ on: `${device.name}*${count}` })}
      />
      <NumberField
        label={words.seq}
        {...{ value: read.seq, min: 1 }}
        change={seq => void adapt({ seq: String(seq) })}
      />
      <NumberField
        label={words.batch}
        {...{ value: read.batch, min: 1 }}
        change={batch => void adapt({ batch: String(batch) })}
      />
    </div>
  )
}

/** The link, the files and the command. */
function Taking({ link, read }: Omit<HeadProps, 'catalog'>) {
  const words = page()
  const own = text()
  const changed = link.net !== undefined || link.mem !== undefined
  return (
    <div class="taking">
      <Command line={commandOf(link, read)} />
      <p>
        <Copy value={address()} label={words.copyLink} />
        <button type="button" class="quiet" onClick={() => void saveJob(link)}>
          {words.exportJob}
        </button>
        <button type="button" class="quiet" onClick={() => void take('program', link)}>
          {own.program}
        </button>
        <button type="button" class="quiet" onClick={() => void take('run', link)}>
          {own.run}
        </button>
        {changed && (
          <button
            type="button"
            class="quiet"
            onClick={() => saveText('cluster.json', `${JSON.stringify(read.cluster, null, 2)}\n`)}
          >
            {own.exportCluster}
          </button>
        )}
      </p>
      <LongLink file="job.yaml" content={() => yamlOf(link)} />
    </div>
  )
}

function commandOf({ net, mem, slow, jitter, mtbf, tokens }: Link, { cluster }: PlanRead): string {
  const where = net !== undefined || mem !== undefined ? 'cluster.json' : cluster.device.name
  const slows = slow?.split(',').map(one => `--slow ${one}`) ?? []
  return [
    `lockstep simulate job.yaml --cluster ${where}`,
    ...slows,
    ...(jitter === undefined ? [] : [`--jitter ${jitter}`]),
    ...(tokens === undefined ? [] : [`--tokens ${Number(tokens)}`]),
    ...(mtbf === undefined ? [] : [`--mtbf ${mtbf}h`]),
  ].join(' ')
}

const yamlOf = async (link: Link): Promise<string> => (await ask('fast', ['plan-job', 'yaml'], link)).text
/** The job on another page, with where it was to run, for the way back. */
const take = async (path: string, link: Link) => takeJob(path, await yamlOf(link), { on: link.on })
const saveJob = async (link: Link) => saveText('job.yaml', await yamlOf(link))
