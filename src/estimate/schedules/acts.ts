/**
 * What a block does in one task, as a row of pairs: so many seconds of work, the start of a collective that takes so many
 * (over the links of tp, or over others), or the wait for the collective that was started as the so-manieth.
 */
export type Acts = Float64Array

export const works = 0
export const starts = 1
export const waits = 2
export const startsApart = 3
