/**
 * The memory of a plan on the heaviest rank: nothing is compiled, so that a search can ask for hundreds of thousands. Each
 * pipeline rank is summed up by itself: what it holds of the model, how many microbatches are in flight there, and the one
 * moment (loss, or a layer computed again) that comes on top.
 */
import { activationBytes } from '../base/index.js'
import type { Device } from '../cluster/index.js'
import { pipelineIn } from './book.js'
import { embeddingParameters, expertParameters, headParameters, layerParameters } from './counts.js'
import { expertCopies } from './experts.js'
import { keptBytes, layerBytes, lossBytes, tokensOf } from './others/activations.js'
import { type MemoryProfile, memoryProfileOf } from './others/memory-profile.js'
import { ownLeast, ownMemory } from './own/memory.js'
import type { Holding, SurelyHeld } from './schedules/holding.js'
import type { RankLayers } from './schedules/stages.js'
import { type Footprint, type Placed, shardRanks } from './setup.js'

/** The sum over all categories of a predicted memory footprint. */
export const totalBytes = (f: Footprint): number =>
  f.parameters + f.gradients + f.optimizer + f.activations + f.workspace + f.framework

/** Bytes on the heaviest rank. */
export const footprint = (placed: Placed): Footprint =>
  heaviestOf(memoryLike(placed), pipelineIn(placed).holdings.lumped)

/** What plans that differ in their pipeline alone share of their memory is found once; the rest is asked for rank by rank. */
export interface PipelineMemory {
  readonly of: (holding: Holding) => Footprint
  /** Bytes below which no such plan is, if some rank has this at one time. */
  readonly least: (held: SurelyHeld) => number
}

export const memoryLike = (placed: Placed): PipelineMemory =>
  placed.software.own ? ownMemory(placed) : othersMemory(placed, memoryProfileOf(placed.software))

export function heaviestOf({ of }: PipelineMemory, holdings: readonly Holding[]): Footprint {
  let heaviest = of(holdings[0])
  for (let i = 1; i < holdings.length; i++) {
    const one = of(holdings[i])
    if (totalBytes(one) > totalBytes(heaviest)) heaviest = one
  }
  return heaviest
}

/** Bytes on the ranks of one pipeline coordinate. */
export const rankFootprint = (placed: Placed, rank: number): Footprint =>
  memoryLike(placed).of(pipelineIn(placed).holdings.all[rank])

/**
 * Bytes below which no program of this plan can be on these ranks: what they surely hold at one time. Of other people's
 * software the closed form is all we know.
 */
export const rankLeastBytes = (placed: Placed, rank: number): number =>
  placed.software.own ? ownLeast(placed)(rank) : totalBytes(rankFootprint(placed, rank))

/** What a device has for a program beside what it keeps for itself. */
export const capacityOf = ({ memory, reserve }: Device): number => memory * (1 - reserve.fraction) - reserve.bytes

export const fits = (placed: Placed, device: Device): boolean => totalBytes(footprint(placed)) <= capacityOf(device)

function othersMemory(placed: Placed, profile: MemoryProfile): PipelineMemory {
  const { shape, split } = placed
  const element = activationBytes(placed.precision)
  const kept = keptBytes(placed, profile)
  const again = layerBytes(placed, profile) - kept
  const residual = tokensOf(placed) * shape.embed * element
  const gathered = split.sequenceParallel && split.tp > 1 ? profile.gathered * residual : 0
  const crossing = residual / (split.sequenceParallel ? split.tp : 1)
  const boundaries = split.pp > 1 ? profile.boundaries * split.microbatches * crossing : 0
  const loss = lossBytes(placed, profile)
  const states = statesOf(placed, profile)
  const of = ({ layers, first, last, held }: RankLayers & Pick<Holding, 'held'>): Footprint => {
    const activations = held * kept + boundaries
    const workspace = gathered + Math.max(again, last ? loss : 0)
    const framework = profile.context + profile.slack * (activations + workspace)
    const { parameters, gradients, optimizer } = states(layers, first, last)
    // Written out: objects made by spreading are ten times slower to make and to read.
    return { parameters, gradients, optimizer, activations, workspace, framework }
  }
  return {
    of,
    least: ({ layers, first, last, open, pending }) => totalBytes(of({ layers, first, last, held: open + pending })),
  }
}

type States = Pick<Footprint, 'parameters' | 'gradients' | 'optimizer'>

function statesOf(placed: Placed, profile: MemoryProfile): (layers: number, first: boolean, last: boolean) => States {
  const { shape, split } = placed
  const element = activationBytes(placed.precision)
  const [layer, expert] = [layerParameters(shape, split), expertParameters(shape, split)]
  const [data, copies] = [shardRanks(split), expertCopies(split)]
  const stays = profile.wholeInPipeline && split.pp > 1
  return (layers, first, last) => {
    const ends =
      (first ? embeddingParameters(shape, split.tp) : 0) + (last ? headParameters(shape, split.tp, first) : 0)
    const held = layers * layer + ends
    // Experts are split over those ranks alone that hold the same.
    const part = (held - layers * expert) / data + (layers * expert) / copies
    if (split.zero === 3) {
      // In f32 and split; beside that the layers at work lie whole, and embedding and head all along.
      const atWork = Math.min(held, profile.whole * layer)
      return {
        parameters: 4 * part + element * (stays ? held : Math.min(held, atWork + ends)),
        gradients: 4 * ((stays ? held : part) + atWork),
        optimizer: 8 * part,
      }
    }
    return {
      parameters: (element === 4 ? 4 : profile.parameter) * held,
      gradients: (element === 4 ? 4 : profile.gradient) * (split.zero >= 2 ? part : held),
      optimizer: (element === 4 ? 8 : profile.state) * (split.zero >= 1 ? part : held),
    }
  }
}
