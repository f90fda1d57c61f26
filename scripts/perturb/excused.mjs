/** Values of fixtures that no test needs to notice, each pattern with its reason. A pattern that matches nothing is an error. */
export const excused = []
