/** What lessons ask of the core: each family of lessons has a module, loaded when the first of its lessons is opened. */
export const lessonModules = {
  batch: () => import('./batch-lessons.js'),
  cases: () => import('./cases-lessons.js'),
  clinic: () => import('./clinic-lessons.js'),
  collectives: () => import('./collectives.js'),
  compared: () => import('./compared.js'),
  cut: () => import('./layer-cut.js'),
  data: () => import('./data-parallel.js'),
  excerpts: () => import('./excerpts.js'),
  hardware: () => import('./hardware-lessons.js'),
  measures: () => import('./measures.js'),
  exercises: () => import('./exercises/index.js'),
  memory: () => import('./memory-lessons.js'),
  placement: () => import('./placement.js'),
  rounding: () => import('./rounding.js'),
  steps: () => import('./steps.js'),
  tensor: () => import('./tensor-parallel.js'),
}
