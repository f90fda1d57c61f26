/** Peak memory against the memory that can be used. */

/** Bytes left of what a rank may use beside its peak: negative if it does not fit. */
export const headroomOf = (peak: number, usable: number): number => usable - peak
