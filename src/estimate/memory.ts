/**
 * The memory of a plan in closed form, on the heaviest rank: nothing is compiled, so that a search can ask for hundreds
 * of thousands. Each pipeline rank is summed up by itself: what it holds of the model, how many microbatches are in
 * flight there, and the one moment (loss, or a layer computed again) that comes on top.
 */
import type { Device } from '../cluster/index.js'
import { elementBytes, keptBytes, layerBytes, lossBytes, tokensOf } from './activations.js'
import { embeddingParameters, headParameters, layerParameters } from './counts.js'
import { type Habits, habitsOf } from './habits.js'
import { heldStages, layersInFlight } from './in-flight.js'
import { ownFootprint } from './own-memory.js'
import type { Footprint, Placed } from './setup.js'
import { layersOfChunk, layersOfRank } from './stages.js'

export const totalBytes = (f: Footprint): number =>
  f.parameters + f.gradients + f.optimizer + f.activations + f.workspace + f.framework

/** Bytes on the heaviest rank. */
export function footprint(setup: Placed): Footprint {
  let [heaviest, most] = [rankFootprint(setup, 0), 0]
  most = totalBytes(heaviest)
  for (let rank = 1; rank < setup.split.pp; rank++) {
    const one = rankFootprint(setup, rank)
    const bytes = totalBytes(one)
    if (bytes > most) [heaviest, most] = [one, bytes]
  }
  return heaviest
}

/** Whether the heaviest rank finds room beside what the device keeps for itself. */
export const fits = (placed: Placed, { memory, reserve }: Device): boolean =>
  totalBytes(footprint(placed)) <= memory * (1 - reserve.fraction) - reserve.bytes

/** Bytes on the ranks of one pipeline coordinate. */
export function rankFootprint(setup: Placed, rank: number): Footprint {
  if (setup.software.name === 'lockstep') return ownFootprint(setup, rank)
  const habits = habitsOf(setup.software)
  const { parameters, gradients, optimizer } = stateBytes(setup, habits, rank)
  const { activations, workspace } = liveBytes(setup, habits, rank)
  const framework = habits.context + habits.slack * (activations + workspace)
  return { parameters, gradients, optimizer, activations, workspace, framework } // a spread takes ten times as long
}

/** Parameters a rank computes with. */
export const heldParameters = (setup: Placed, rank: number): number =>
  layersOfRank(setup.shape, setup.split, rank).layers * layerParameters(setup.shape, setup.split) +
  endParameters(setup, rank)

/** Of those, the embedding and the head. */
function endParameters({ shape, split }: Placed, rank: number): number {
  const { first, last } = layersOfRank(shape, split, rank)
  return (first ? embeddingParameters(shape, split) : 0) + (last ? headParameters(shape, split, first) : 0)
}

function stateBytes(setup: Placed, habits: Habits, rank: number) {
  const { split } = setup
  const held = heldParameters(setup, rank)
  const full = elementBytes(setup) === 4
  const [parameter, gradient, state] = full ? [4, 4, 8] : [habits.parameter, habits.gradient, habits.state]
  const data = split.dp * split.cp
  const over = (stage: number) => (split.zero >= stage ? data : 1)
  if (split.zero === 3) return shardedBytes(setup, habits, { shard: held / data, ends: endParameters(setup, rank) })
  return {
    parameters: parameter * held,
    gradients: (gradient * held) / over(2),
    optimizer: (state * held) / over(1),
  }
}

/** ZeRO-3: everything split, in f32, plus what lies whole: the layers at work, and embedding and head all along. */
function shardedBytes(setup: Placed, habits: Habits, { shard, ends }: { shard: number; ends: number }) {
  const { shape, split } = setup
  const element = elementBytes(setup)
  const all = shard * split.dp * split.cp
  const atWork = Math.min(all, habits.whole * layerParameters(shape, split))
  const stays = habits.wholeInPipeline && split.pp > 1
  return {
    parameters: 4 * shard + element * (stays ? all : Math.min(all, atWork + ends)),
    gradients: 4 * ((stays ? all : shard) + atWork),
    optimizer: 8 * shard,
  }
}

function liveBytes(setup: Placed, habits: Habits, rank: number) {
  const { shape, split } = setup
  const { last } = layersOfRank(shape, split, rank)
  const held = layersInFlight(split, heldStages(split, rank), chunk => layersOfChunk(shape, split, rank, chunk))
  const kept = keptBytes(setup, habits)
  const activations = held * kept
  const again = layerBytes(setup, habits) - kept
  const gathered =
    split.sequenceParallel && split.tp > 1 ? habits.gathered * tokensOf(setup) * shape.embed * elementBytes(setup) : 0
  const boundaries =
    split.pp > 1
      ? (habits.boundaries * split.microbatches * tokensOf(setup) * shape.embed * elementBytes(setup)) /
        (split.sequenceParallel ? split.tp : 1)
      : 0
  return {
    activations: activations + boundaries,
    workspace: gathered + Math.max(again, last ? lossBytes(setup, habits) : 0),
  }
}
