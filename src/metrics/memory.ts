/** Peak memory against the memory that can be used. */

/** Usable bytes minus the peak: negative if the plan does not fit. */
export const headroomOf = (peak: number, usable: number): number => usable - peak
