// The analytic model of atalla.device.analytic, with the same numbers: tiles pass engines as jobs pass a flow shop.
"use strict";

const ALIKE = 64; // tiles that are alike are looked at one by one up to here; the rest is multiplied
const PERIOD = 24; // tiles after which those that are alike repeat themselves
const ENGINES = ["load", "store", "matrix", "vector"];

// Places of a tile's numbers: how many follow each other, cycles and operations of each engine, and what else it costs.
const TILE = {
  count: 0, cycles: 1, operations: 5, inBytes: 9, outBytes: 10, late: 11, spread: 12, before: 13, early: 14,
  bias: 15, drain: 16, flags: 17,
};
const BEGINS_FRAME = 1;
const LOADS_WEIGHTS = 2;

// As Python rounds: halves go to the even neighbour.
function roundHalfEven(value) {
  const low = Math.floor(value);
  const rest = value - low;
  if (rest !== 0.5) return rest < 0.5 ? low : low + 1;
  return low % 2 === 0 ? low : low + 1;
}

// What an engine has done with the tiles so far.
class Engine {
  constructor() {
    this.free = 0;
    this.count = 0;
    this.works = []; // first operation, begin, cycles, operations
  }

  work(begin, cycles, operations) {
    const from = Math.max(begin, this.free);
    this.works.push([this.count, from, cycles, operations]);
    this.count += operations;
    this.free = from + cycles;
    return this.free;
  }

  // When no more operations wait than its queue holds.
  hasRoom(queue) {
    const wanted = this.count - queue;
    let gone = 0;
    while (gone < this.works.length && this.works[gone][0] + this.works[gone][3] <= wanted) gone++;
    if (gone) this.works.splice(0, gone);
    if (wanted < 0 || !this.works.length) return 0;
    const [first, begin, cycles, operations] = this.works[0];
    return begin + (cycles * (wanted - first)) / operations;
  }

  shift(cycles) {
    this.free += cycles;
    for (const work of this.works) work[1] += cycles;
  }
}

// When each engine is done with the tiles so far, and when what has room leaves.
class Shop {
  constructor(hardware, slots) {
    this.hardware = hardware;
    this.issued = 0;
    this.engines = ENGINES.map(() => new Engine());
    [this.load, this.store, this.matrix, this.vector] = this.engines;
    this.room = { ...slots, frames: Math.max(1, slots.frames), weights: Math.max(1, slots.weights) };
    this.room.late = slots.ring;
    this.left = { frames: [], ring: [], late: [], parts: [], weights: [] };
  }

  // Notes when what has room so far is gone; returns when there is room for one more.
  leaves(name, time) {
    const left = this.left[name];
    const room = this.room[name];
    left.push(time);
    if (left.length <= room) return 0;
    const found = left[left.length - room];
    left.shift();
    return found;
  }

  // Lets one more tile pass.
  add(tile) {
    const [load, store, matrix, vector] = ENGINES.map((_, i) => tile[TILE.cycles + i]);
    const [loads, stores, matrices, vectors] = ENGINES.map((_, i) => tile[TILE.operations + i]);
    const [late, spread, bias, drain] = [tile[TILE.late], tile[TILE.spread], tile[TILE.bias], tile[TILE.drain]];
    let ready = this.loaded(tile, load, loads, loads + stores + matrices + vectors);
    if (spread) {
      let begin = this.load.free - (load - late - tile[TILE.before]);
      // It goes where the products before it still read.
      if (!(tile[TILE.flags] & BEGINS_FRAME)) begin = Math.max(begin, this.matrix.free);
      ready = Math.max(ready, this.vector.work(begin, spread, 1));
    }
    const others = matrices - (bias ? 1 : 0) - (drain ? 1 : 0);
    if (others) ready = this.matrix.work(ready, matrix - bias - drain, others);
    if (store && this.room.ring) ready = Math.max(ready, this.leaves("ring", this.store.free));
    if (drain) ready = this.matrix.work(ready, drain, 1);
    if (late) {
      const gone = this.room.ring ? this.leaves("late", this.vector.free) : 0;
      ready = Math.max(ready, this.load.work(Math.max(this.issued, gone), late, 1));
    }
    if (vector > spread) ready = this.vector.work(ready, vector - spread, Math.max(1, vectors - (spread ? 1 : 0)));
    if (stores) this.store.work(Math.max(ready, this.issued), store, stores);
  }

  // Issues a tile, as soon as queues and scratchpads have room for it; returns when it is loaded.
  loaded(tile, load, loads, operations) {
    const { queue, issue_cycles: issue } = this.hardware;
    const [flags, early, late, bias] = [tile[TILE.flags], tile[TILE.early], tile[TILE.late], tile[TILE.bias]];
    for (const engine of this.engines) this.issued = Math.max(this.issued, engine.hasRoom(queue));
    if (early) {
      this.issued = Math.max(this.issued, this.leaves("weights", this.matrix.free));
      this.load.work(this.issued + issue, early, 1);
    }
    if (flags & BEGINS_FRAME) {
      const gone = Math.max(this.matrix.free, this.vector.free, this.store.free);
      this.issued = Math.max(this.issued, this.leaves("frames", gone));
      for (const name of ["ring", "late", "parts"]) this.left[name] = [];
    }
    if (flags & LOADS_WEIGHTS && !early) this.issued = Math.max(this.issued, this.leaves("weights", this.matrix.free));
    let ready = this.issued + issue;
    if (flags & LOADS_WEIGHTS && this.room.parts) ready = Math.max(ready, this.leaves("parts", this.matrix.free));
    if (bias) this.matrix.work(ready, bias, 1);
    this.issued += operations * issue;
    if (!loads) return ready;
    return this.load.work(ready, load - late - early, Math.max(1, loads - (late ? 1 : 0) - (early ? 1 : 0)));
  }

  shift(cycles) {
    this.issued += cycles;
    for (const engine of this.engines) engine.shift(cycles);
    for (const name of Object.keys(this.left)) this.left[name] = this.left[name].map((time) => time + cycles);
  }

  get end() {
    return Math.max(this.issued, ...this.engines.map((engine) => engine.free));
  }
}

// Cycles of an instruction: its tiles in order, and how many have room at once.
function instructionCycles(tiles, hardware, slots) {
  const shop = new Shop(hardware, slots);
  for (const tile of tiles) {
    const count = tile[TILE.count];
    let before = 0;
    for (let i = 0; i < Math.min(count, ALIKE); i++) {
      if (i === ALIKE - PERIOD) before = shop.end;
      shop.add(tile);
    }
    if (count > ALIKE) shop.shift(((shop.end - before) / PERIOD) * (count - ALIKE));
  }
  return roundHalfEven(shop.end);
}

// What has most to do for tiles: an engine, or "issue".
function boundOf(tiles, hardware) {
  const sums = [0, 0, 0, 0];
  let issued = 0;
  for (const tile of tiles) {
    for (let i = 0; i < ENGINES.length; i++) {
      sums[i] += tile[TILE.count] * tile[TILE.cycles + i];
      issued += tile[TILE.count] * tile[TILE.operations + i];
    }
  }
  let [name, most] = ["issue", issued * hardware.issue_cycles];
  ENGINES.forEach((engine, i) => {
    if (sums[i] > most) [name, most] = [engine, sums[i]];
  });
  return name;
}
