/** A step in letters: every kind of work has as many letters as its share of the time. */
import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { stepRow } from '../src/report/index.js'

/** `F2 B4 .2`: tasks one after the other, `.` is idle. */
function boxes(drawn: string) {
  let at = 0
  return drawn.split(' ').flatMap(task => {
    const [kind, length] = [task[0] as 'F' | 'B', Number(task.slice(1))]
    at += length
    return task[0] === '.' ? [] : [{ kind, start: at - length, end: at }]
  })
}

const count = (row: string, letter: string) => row.split(letter).length - 1

test('tasks longer than a column are drawn where they are', () => {
  equal(stepRow(boxes('F2 .2 B4'), 8, 8), 'FF··BBBB')
})

test('of 100 forwards of 1 and backwards of 2 a third of the columns are F, however narrow the picture', () => {
  const row = stepRow(boxes(Array(100).fill('F1 B2').join(' ')), 300, 90)
  equal(count(row, 'F'), 30)
  equal(count(row, 'B'), 60)
})

test('short waits between short tasks are drawn too', () => {
  equal(count(stepRow(boxes(Array(100).fill('F2 .1').join(' ')), 300, 60), '·'), 20)
})
