// A schedule is rows of tasks. Write one in PyTorch's notation; it is validated, timed, and compiled like any other.
import { draw, parseSchedule, timing } from '../src/index.js'

const { schedule, problems } = parseSchedule(
  `
0F0,0F1,0I0,0W0,0I1,0W1
1F0,1I0,1F1,1I1,1W0,1W1`.trim(),
)
if (!schedule) throw new Error(problems.map(problem => problem.message).join('\n'))
console.log(draw(schedule))
const { makespan, idle, peak } = timing(schedule)
console.log({ makespan, idle, peak })

console.log(
  parseSchedule('0F0,0B0\n1B0,1F0')
    .problems.map(problem => problem.message)
    .join('; '),
)

//> 0 | F0 F1 I0 W0 I1 W1
//> 1 | F0 I0 F1 I1 W0 W1
//> { makespan: 7, idle: [ 1, 1 ], peak: [ 2, 2 ] }
//> stage 1 microbatch 0 has its backward before its forward on rank 1
