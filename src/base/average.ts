/** The middle of several numbers. Of none there is none: NaN, or undefined behind the type. */

export const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length

/** The middle value; of an even count, the greater of the two in the middle. */
export const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]
