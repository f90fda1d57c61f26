/** Loaded first by every process and thread of a test: the module that LOCKSTEP_MUTANT names is read with one part replaced. */
import { register } from 'node:module'
import process from 'node:process'

const given = process.env.LOCKSTEP_MUTANT
if (given) register(new URL('loader.mjs', import.meta.url), { data: JSON.parse(given) })
