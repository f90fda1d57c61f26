/**
 * Looking up rows and scoring labels. A rank may hold a run of the rows (classes): an id is a number of the whole
 * table, and one that lies outside the rank's run contributes 0, so the true value is the sum over ranks.
 * An id that is NaN was never written, or freed: it makes NaN of what it touches.
 */
import { elementsOf } from '../../base/index.js'
import { along, missingDim, offsets, sizeIn, strideOf, within, without } from '../../geometry/index.js'
import { aligned } from './elementwise.js'
import type { Prepare } from './kernel.js'

/** What an id that is not this rank's gives. */
const none = (id: number): number => (Number.isNaN(id) ? id : 0)

export const embed: Prepare<'embed'> = (_, [ids, table], [out]) => {
  const vocab = missingDim(table.dims, out.dims)
  const columns = without(table.dims, [{ name: vocab, size: 0 }])
  const [rows, stride] = [sizeIn(table.dims, vocab)!, strideOf(table.dims, vocab)]
  const [outRows, outCols] = [offsets(ids.dims, out.dims), offsets(columns, out.dims)]
  const tableCols = offsets(columns, table.dims)
  return (cells, [atIds, atTable], [to]) => {
    const { origin } = along(table, atTable, vocab)
    for (let i = 0; i < outRows.length; i++) {
      const row = cells[atIds.at + i] - origin
      const mine = row >= 0 && row < rows
      for (let c = 0; c < outCols.length; c++)
        cells[to.at + outRows[i] + outCols[c]] = mine ? cells[atTable.at + row * stride + tableCols[c]] : none(row)
    }
  }
}

export const embedGrad: Prepare<'embedGrad'> = (_, [ids, dout], [dtable]) => {
  const vocab = missingDim(dtable.dims, dout.dims)
  const columns = without(dtable.dims, [{ name: vocab, size: 0 }])
  const [rows, stride] = [sizeIn(dtable.dims, vocab)!, strideOf(dtable.dims, vocab)]
  const [doutRows, doutCols] = [offsets(ids.dims, dout.dims), offsets(columns, dout.dims)]
  const tableCols = offsets(columns, dtable.dims)
  const sums = new Float64Array(elementsOf(dtable.dims))
  return (cells, [atIds, atDout], [to]) => {
    const { origin } = along(dtable, to, vocab)
    sums.fill(0)
    for (let i = 0; i < doutRows.length; i++) {
      const row = cells[atIds.at + i] - origin
      if (Number.isNaN(row)) sums.fill(row)
      if (!(row >= 0 && row < rows)) continue
      for (let c = 0; c < doutCols.length; c++)
        sums[row * stride + tableCols[c]] += cells[atDout.at + doutRows[i] + doutCols[c]]
    }
    cells.set(sums, to.at)
  }
}

export const sumExp: Prepare<'sumExp'> = (_, [logits, max], [out]) => {
  const [rows, classes] = [offsets(out.dims, logits.dims), offsets(without(logits.dims, out.dims), logits.dims)]
  const [maxes] = aligned([max], out)
  return (cells, [atLogits, atMax], [to]) => {
    for (let i = 0; i < rows.length; i++) {
      const greatest = cells[atMax.at + maxes[i]]
      let sum = 0
      for (let c = 0; c < classes.length; c++) sum += Math.exp(cells[atLogits.at + rows[i] + classes[c]] - greatest)
      cells[to.at + i] = sum
    }
  }
}

export const pick: Prepare<'pick'> = (_, [logits, labels], [out]) => {
  const vocab = missingDim(logits.dims, out.dims)
  const [classes, stride] = [sizeIn(logits.dims, vocab)!, strideOf(logits.dims, vocab)]
  const rows = offsets(out.dims, logits.dims)
  const [ids] = aligned([labels], out)
  return (cells, [atLogits, atLabels], [to]) => {
    const { origin } = along(logits, atLogits, vocab)
    for (let i = 0; i < rows.length; i++) {
      const label = cells[atLabels.at + ids[i]] - origin
      const mine = label >= 0 && label < classes
      cells[to.at + i] = mine ? cells[atLogits.at + rows[i] + label * stride] : none(label)
    }
  }
}

export const tokenLoss: Prepare<'tokenLoss'> = (_, ins, [loss]) => {
  const labels = ins[3]
  const tokens = [...loss.dims, ...without(labels.dims, loss.dims)]
  const [maxes, sums, picks, ids] = ins.map(operand => offsets(tokens, operand.dims))
  const perLoss = ids.length / elementsOf(loss.dims)
  within(loss, labels)
  return (cells, [atMax, atSum, atPicked, atLabels], [to]) => {
    for (let i = 0; i < ids.length / perLoss; i++) {
      let total = 0
      for (let j = i * perLoss; j < (i + 1) * perLoss; j++)
        if (!(cells[atLabels.at + ids[j]] < 0))
          total += Math.log(cells[atSum.at + sums[j]]) + cells[atMax.at + maxes[j]] - cells[atPicked.at + picks[j]]
      cells[to.at + i] = total
    }
  }
}

export const tokenLossGrad: Prepare<'tokenLossGrad'> = (_, [logits, max, sum, labels], [dlogits]) => {
  const vocab = missingDim(logits.dims, labels.dims)
  const classes = [{ name: vocab, size: sizeIn(logits.dims, vocab)! }]
  const [maxes, sums, rows, outRows] = [max, sum, logits, dlogits].map(operand => offsets(labels.dims, operand.dims))
  const [cols, outCols] = [offsets(classes, logits.dims), offsets(classes, dlogits.dims)]
  return (cells, [atLogits, atMax, atSum, atLabels, atCount], [to]) => {
    const { origin } = along(logits, atLogits, vocab)
    const count = cells[atCount.at]
    for (let i = 0; i < rows.length; i++) {
      const label = cells[atLabels.at + i]
      const [greatest, total] = [cells[atMax.at + maxes[i]], cells[atSum.at + sums[i]]]
      for (let c = 0; c < cols.length; c++) {
        const softmax = Math.exp(cells[atLogits.at + rows[i] + cols[c]] - greatest) / total
        const slope = (softmax - (label === origin + c ? 1 : none(label))) / count
        cells[to.at + outRows[i] + outCols[c]] = label < 0 ? 0 : slope
      }
    }
  }
}

export const squaredError: Prepare<'squaredError'> = (_, [x, target], [loss]) => {
  const elements = [...loss.dims, ...without(x.dims, loss.dims)]
  const [xs, targets] = [offsets(elements, x.dims), offsets(elements, target.dims)]
  const perLoss = xs.length / elementsOf(loss.dims)
  within(loss, x)
  return (cells, [atX, atTarget], [to]) => {
    for (let i = 0; i < xs.length / perLoss; i++) {
      let total = 0
      for (let j = i * perLoss; j < (i + 1) * perLoss; j++)
        total += (cells[atX.at + xs[j]] - cells[atTarget.at + targets[j]]) ** 2
      cells[to.at + i] = total
    }
  }
}
