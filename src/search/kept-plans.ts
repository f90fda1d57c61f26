/** How many plans a search keeps at least, so that what is listed is the best of what differs. */
export const keptPlans = 100
