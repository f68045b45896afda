// The devices of the page: what a program takes on each, from the tiles that the file holds.

const STALLS = ["dma_in", "dma_out", "matrix", "vector", "scratchpad", "issue"];
const AXES = ["array", "scratchpad_bytes", "dma_bytes_per_cycle"];

class Grid {
  constructor(data) {
    this.data = data;
    this.known = new Map();
    this.stops = AXES.map((name) => data.axes[name]);
  }

  // The hardware of the file with the values of three stops.
  hardware(places) {
    const changed = AXES.map((name, i) => [name, this.stops[i][places[i]]]);
    return { ...this.data.hardware, ...Object.fromEntries(changed) };
  }

  // A device: its layers and totals, or the reason why the program does not run on it.
  device(places) {
    const key = places.join();
    if (!this.known.has(key)) this.known.set(key, this.workOut(places));
    return this.known.get(key);
  }

  // What the file holds of a device: its records, or a reason.
  cell(places) {
    const [, second, third] = this.stops.map((stops) => stops.length);
    return this.data.cells[(places[0] * second + places[1]) * third + places[2]];
  }

  // Cycles of the event simulation; null where the program does not run.
  cycles(places) {
    const cell = this.cell(places);
    if (typeof cell === "string") return null;
    return cell.reduce((all, record) => all + this.data.records[record][5], 0);
  }

  workOut(places) {
    const hardware = this.hardware(places);
    const cell = this.cell(places);
    if (typeof cell === "string") return { hardware, reason: cell };
    const layers = cell.map((record, number) => this.layer(number, this.data.records[record], hardware));
    return { hardware, layers, totals: this.totals(layers, hardware) };
  }

  layer(number, record, hardware) {
    const [operation, node, line, shape, dtype, isHost] = this.data.instructions[number];
    const [frames, ring, parts, weights, macs, cycles] = record;
    const stalls = record.slice(6, 12);
    const tiles = this.data.lists[record[12]].map((i) => this.data.tiles[i]);
    const sum = (place) => tiles.reduce((all, tile) => all + tile[TILE.count] * tile[place], 0);
    const usesMatrix = sum(TILE.cycles + ENGINES.indexOf("matrix")) > 0;
    const most = STALLS.reduce((best, _, i) => (stalls[i] > stalls[best] ? i : best), 0);
    const made = {
      number, operation, node, line, shape, dtype, isHost, macs, cycles, stalls, usesMatrix,
      inBytes: sum(TILE.inBytes),
      outBytes: sum(TILE.outBytes),
      stall: stalls[most] ? STALLS[most] : "",
      stalled: stalls[most],
      utilisation: usesMatrix ? macs / (cycles * hardware.array ** 2) : 0,
    };
    if (isHost) return { ...made, analytic: 0, bound: "", differs: 0 };
    const analytic = instructionCycles(tiles, hardware, { frames, ring, parts, weights });
    return { ...made, analytic, bound: boundOf(tiles, hardware), differs: cycles ? analytic / cycles - 1 : 0 };
  }

  totals(layers, hardware) {
    const sum = (get) => layers.reduce((all, layer) => all + get(layer), 0);
    const cycles = sum((layer) => layer.cycles);
    for (const layer of layers) layer.share = cycles ? layer.cycles / cycles : 0;
    return {
      cycles,
      analytic: sum((layer) => layer.analytic),
      milliseconds: cycles / (hardware.clock_mhz * 1000),
      utilisation: cycles ? sum((layer) => (layer.usesMatrix ? layer.macs : 0)) / (cycles * hardware.array ** 2) : 0,
      inBytes: sum((layer) => layer.inBytes),
      outBytes: sum((layer) => layer.outBytes),
      stalls: STALLS.map((_, i) => sum((layer) => layer.stalls[i])),
    };
  }
}
