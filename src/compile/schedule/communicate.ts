import { type CommAction, type Schedule, type Task, tasksOf } from './task.js'
export function tempSchedule(p: number, m: number, split = false): Schedule {
  const rows = Array.from({ length: p }, (_, r) => {
    const row: Task[] = []
    const w = Math.min(m, p - r)
    let [f, b] = [0, 0]
    const back = (mb: number) =>
      split
        ? row.push({ kind: 'I', stage: r, microbatch: mb }, { kind: 'W', stage: r, microbatch: mb })
        : row.push({ kind: 'B', stage: r, microbatch: mb })
    while (f < w) row.push({ kind: 'F', stage: r, microbatch: f++ })
    while (b < m) {
      back(b++)
      if (f < m) row.push({ kind: 'F', stage: r, microbatch: f++ })
    }
    return row
  })
  return { stages: p, microbatches: m, rows }
}
export function communicate(s: Schedule): CommAction[][] {
  const rank = new Map<string, number>()
  s.rows.forEach((row, r) => tasksOf(row).forEach(t => rank.set(`${t.stage}.${t.microbatch}`, r)))
  const out: CommAction[][] = s.rows.map(() => [])
  const next = s.rows.map(() => 0)
  const done = new Set<string>()
  for (let moved = true; moved; ) {
    moved = false
    for (const [r, row] of s.rows.entries()) {
      if (next[r] >= row.length) continue
      const a = row[next[r]]
      const ts = tasksOf([a])
      const ready = ts.every(t =>
        t.kind === 'F'
          ? t.stage === 0 || done.has(`F${t.stage - 1}.${t.microbatch}`)
          : t.kind === 'W' || t.stage === s.stages - 1 || done.has(`B${t.stage + 1}.${t.microbatch}`),
      )
      if (!ready) continue
      next[r]++
      moved = true
      out[r].push(a)
      for (const t of ts) {
        if (t.kind === 'F') {
          done.add(`F${t.stage}.${t.microbatch}`)
          const q = rank.get(`${t.stage + 1}.${t.microbatch}`)
          if (q !== undefined && q !== r) {
            out[r].push({ kind: 'SEND_F', stage: t.stage, microbatch: t.microbatch, peer: q })
            out[q].push({ kind: 'RECV_F', stage: t.stage + 1, microbatch: t.microbatch, peer: r })
          }
        } else if (t.kind !== 'W') {
          done.add(`B${t.stage}.${t.microbatch}`)
          const q = rank.get(`${t.stage - 1}.${t.microbatch}`)
          if (q !== undefined && q !== r) {
            out[r].push({ kind: 'SEND_B', stage: t.stage, microbatch: t.microbatch, peer: q })
            out[q].push({ kind: 'RECV_B', stage: t.stage - 1, microbatch: t.microbatch, peer: r })
          }
        }
      }
    }
  }
  return out
}
