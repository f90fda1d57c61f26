import { Soon } from '../soon.js'

export default function Clusters() {
  return <Soon name="clusters" />
}
