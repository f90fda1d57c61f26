/** The numbers of a Hugging Face folder as a checkpoint at step 0, for whoever starts from one. */
import type { Files } from '../base/index.js'
import { within } from '../base/index.js'
import {
  type Checkpoint,
  copyShared,
  requireFinite,
  type Target,
  type Texts,
  textsIn,
  wholeOf,
} from '../checkpoint/index.js'
import { type OpenOptions, openWeights, type WeightFolder } from './folder.js'
import { json } from './json.js'
import type { MappedParam } from './map.js'
import { gathered, type Place, rangeOf, slabsOf } from './place.js'

/** Elements of a tensor that are in memory at once. */
const mostElements = 2 ** 24

/** A Hugging Face folder as a checkpoint that any plan can start from. */
export interface WeightSource extends Checkpoint {
  readonly folder: WeightFolder
}

/** Opens a Hugging Face folder as a checkpoint. Throws all that is wrong with it. */
export function weightSource(path: string, files: Files, options: OpenOptions = {}): WeightSource {
  const folder = openWeights(path, files, options)
  const params = new Map(folder.map.params.map(param => [`param.${param.name}`, param]))
  const fill: Checkpoint['fill'] = (name, targets) => {
    const param = params.get(name)
    return param ? filled(folder, param, targets) : [`there is no ${name} in the folder`]
  }
  return {
    ...{
      folder,
      step: 0,
      seed: 0,
      run: 'none',
      software: 'Hugging Face',
      line: [],
      scalars: {},
      files: folder.files,
      fill,
    },
    tensors: new Map([...params].map(([name, { dims }]) => [name, dims])),
    damages: () => [],
    tensor(name) {
      const whole = wholeOf(params.get(name)?.dims ?? [])
      const wrong = fill(name, [whole])
      if (wrong.length > 0) throw new Error(wrong.join('; '))
      return whole.values
    },
    job: () => ({ model: folder.config }),
    tokenizer: () => textIn(path, 'tokenizer.json', files),
    texts: () =>
      withEnds(
        textsIn(name => textIn(path, name, files)),
        folder.raw,
      ),
  }
}

function textIn(path: string, name: string, files: Files): string | undefined {
  const file = within(path, name)
  return files.exists(file) ? files.read(file) : undefined
}

/** Where nothing is said of what ends a text, config.json may say it: of a run only its own model is kept. */
function withEnds(texts: Texts, { eos_token_id: end, bos_token_id: begin }: WeightFolder['raw']): Texts {
  const name = 'generation_config.json'
  const said = parsed(texts[name] ?? '{}')
  if (!said || (said.eos_token_id ?? end ?? undefined) === said.eos_token_id) return texts
  return { ...texts, [name]: json({ bos_token_id: begin, ...said, eos_token_id: end }) }
}

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return Object(JSON.parse(text))
  } catch {
    return undefined // whoever asks for it is told
  }
}

/** Reads what somebody wants of a parameter, a slab at a time. */
function filled(folder: WeightFolder, param: MappedParam, targets: readonly Target[]): string[] {
  try {
    for (const place of folder.formOf(param).flatMap(place => slabsOf(place, mostElements))) {
      if (!targets.some(target => meet(place, target))) continue
      const [first, last] = rangeOf(place)
      const values = gathered(place, folder.read(place.tensor, first, last), first)
      requireFinite(place.tensor, values)
      for (const target of targets) copyShared(place.box, values, target, target.values)
    }
    return []
  } catch (e) {
    if (e instanceof TypeError) throw e
    return [e instanceof Error ? e.message : String(e)]
  }
}

const meet = ({ box }: Place, { start, shape }: Target): boolean =>
  box.start.every((from, d) => from < start[d] + shape[d] && start[d] < from + box.shape[d])
