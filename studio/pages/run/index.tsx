import { Soon } from '../soon.js'

export default function Run() {
  return <Soon name="run" />
}
