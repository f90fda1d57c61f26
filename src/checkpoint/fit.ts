/** A checkpoint and a program: what keeps them apart, and how the one becomes the state of the other. */
import { type Dim, error, type Problem, worldOf } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { termsOf } from './addends.js'
import { elementsIn, type Numbers } from './box.js'
import { type Checkpoint, type Damage, type Share, sizes } from './checkpoint.js'
import { ownStates, type Shard, shardsOf } from './shards.js'

/** What keeps a program from taking its weights, or all of its state, from a checkpoint. */
export function checkpointProblems(program: Program, { tensors }: Checkpoint, share: Share = 'weights'): Problem[] {
  const named = new Set(program.params.map(({ name }) => name))
  const held = [...tensors.keys()].flatMap(tensor => (tensor.startsWith('param.') ? [tensor.slice(6)] : []))
  return [
    ...program.params.flatMap(({ name, dims }) => {
      const held = tensors.get(`param.${name}`)?.map(({ size }) => size)
      const wanted = dims.map(({ size }) => size)
      if (!held && share === 'weights' && mayStart(program, name)) return []
      if (!held) return [error('checkpoint/missing', '', `the checkpoint lacks parameter ${name}`)]
      return sizes(held) === sizes(wanted) ? [] : [shapeProblem(name, dims, held)]
    }),
    ...held
      .filter(name => !named.has(name))
      .map(name =>
        error('checkpoint/model', '', `the checkpoint has parameter ${name}, which is not in the job’s model`),
      ),
    ...(share === 'weights' ? [] : optimizerProblems(program, tensors)),
  ]
}

/** What is trained beside parameters that are frozen starts anew where somebody else's weights lack it. */
const mayStart = ({ params }: Program, name: string): boolean =>
  params.some(({ frozen }) => frozen) && params.some(param => param.name === name && !param.frozen)

function shapeProblem(name: string, dims: readonly Dim[], held: readonly number[]): Problem {
  const wanted = dims.map(({ size }) => size)
  const padded = dims.findIndex(({ name, size }, i) => name === 'vocab' && size > held[i])
  return error(
    'checkpoint/shape',
    '',
    `parameter ${name} is ${sizes(held)} in the checkpoint, but ${sizes(wanted)} in the job`,
    padded < 0
      ? undefined
      : `weights are not padded, because extra tokens would change the loss: set vocab ${held[padded]} and a tp that divides it`,
  )
}

/** What is true of all parameters alike is one sentence for all of them. */
function optimizerProblems({ params }: Program, tensors: Checkpoint['tensors']): Problem[] {
  const held = params.flatMap(({ frames }) => Object.values(frames).slice(0, 1))
  const needed = ownStates.filter(state => held.some(({ states }) => states[state] !== undefined))
  const kept = ownStates.filter(state => [...tensors.keys()].some(name => name.startsWith(`${state}.`)))
  const told = (list: readonly string[]) => list.join(' and ') || 'nothing'
  if (needed.join() === kept.join()) return []
  const message = `the optimizer of the checkpoint keeps ${told(kept)}, the job’s ${told(needed)}`
  return [error('checkpoint/optimizer', 'training.optimizer', message, 'start from its weights with --init')]
}

/** Gives every rank its parts, tensor by tensor; what cannot be read is a problem, and every tensor is tried. */
export function loadCheckpoint(
  program: Program,
  checkpoint: Checkpoint,
  share: Share,
  hold: (shard: Shard, values: Numbers) => void,
): Problem[] {
  const wanted = Array.from({ length: worldOf(program.mesh) }, (_, rank) => shardsOf(program, rank)).flat()
  const byTensor = new Map<string, Shard[]>()
  for (const shard of wanted) {
    const isThere = share === 'everything' && checkpoint.tensors.has(shard.tensor)
    const { startsAs = shard.tensor } = shard
    if (share === 'weights' && !(startsAs.startsWith('param.') && checkpoint.tensors.has(startsAs))) continue
    const tensor = isThere ? shard.tensor : startsAs
    if (!byTensor.has(tensor)) byTensor.set(tensor, [])
    byTensor.get(tensor)!.push(shard)
  }
  const damages = [...byTensor].flatMap(([tensor, shards]) => {
    const dims = checkpoint.tensors.get(tensor)
    const given = shards.map(shard => ({ shard, values: new Float64Array(elementsIn(shard)) }))
    const terms = given.flatMap(({ shard, values }) => termsOf(shard, values, dims ?? shard.dims))
    const wrong = checkpoint.fill(tensor, terms)
    for (const { values, addTo } of terms) for (const [i, value] of addTo ? values.entries() : []) addTo![i] += value
    if (wrong.length === 0) for (const { shard, values } of given) hold(shard, values)
    return wrong.map(message => ({ tensor, message }))
  })
  return damageProblems(damages)
}

/** A file that is missing is one problem, whatever lies in it: what is said of many tensors is said of the first. */
export function damageProblems(damages: readonly Pick<Damage, 'tensor' | 'message'>[]): Problem[] {
  const said = new Map<string, { message: string; more: number }>()
  for (const { tensor = '', message } of damages) {
    const known = said.get(message.replace(tensor, ''))
    if (known) known.more++
    else said.set(message.replace(tensor, ''), { message, more: 0 })
  }
  return [...said.values()].map(({ message, more }) =>
    error('checkpoint/damaged', '', more > 0 ? `${message}, and of ${more} more tensors` : message),
  )
}
