/**
 * Whatever is chosen of precision, loss scale, optimizer, place of states and format on the wire, over every axis: a lawful program that computes
 * what one rank computes, in as many bytes as it says, in every space. `SEED=7 PLANS=300 npm test random-choices` draws so many.
 */
import { earlierJobs } from '../src/plan/index.js'
import { family, test } from './families.js'
import { computesWhatOneRankComputes } from './jobs.js'
import { type ChosenJob, chosenJobs } from './random-choices.js'

const seed = Number(process.env.SEED ?? 1)
const count = Number(process.env.PLANS ?? 24)
const tested = process.env.PLANS ? test : family('random routing', 18)

const take = (jobs: Iterable<ChosenJob>, most: number): ChosenJob[] => {
  const taken: ChosenJob[] = []
  for (const job of jobs) if (taken.push(job) === most) break
  return taken
}

for (const { title, job } of take(chosenJobs(seed), count))
  tested(title, () => {
    // The last program by itself, and those of smaller batches and of steps that do not compress yet.
    for (const one of [...earlierJobs(job), job]) computesWhatOneRankComputes(one)
  })
