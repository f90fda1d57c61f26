/** Reading jobs as text, with a word for everything that is wrong: a chunk of its own, which a link that is fine never loads. */
export { parseJob } from 'lockstep'
