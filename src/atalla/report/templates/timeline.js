// The timeline: what each engine did when, on the hardware of the file; the whole run, or a part of it.

const LANE = { left: 64, width: 1000, right: 12, high: 30, gap: 10, top: 12 };
const MOST_SPANS = 3000; // drawn one by one; more are summed up in columns
const COLUMNS = 450;

class Timeline {
  constructor(place, data, choose) {
    this.place = place;
    this.data = data.timeline;
    this.instructions = data.instructions;
    this.choose = choose;
    this.end = Math.max(1, (this.data.begins.at(-1) ?? 0) + (this.data.cycles.at(-1) ?? 0)); // 1 of what has no cycle
    this.lanes = ENGINES.map((_, lane) => this.decoded(lane));
    this.view = [0, this.end];
  }

  // A lane's spans as columns of numbers, by time.
  decoded(lane) {
    const length = this.data.spans.reduce((all, lanes) => all + lanes[lane].length / 4, 0);
    const made = { begin: new Float64Array(length), end: new Float64Array(length), busy: new Float64Array(length) };
    made.kind = new Int32Array(length);
    made.instruction = new Int32Array(length);
    let at = 0;
    this.data.spans.forEach((lanes, number) => {
      let time = this.data.begins[number];
      for (let i = 0; i < lanes[lane].length; i += 4) {
        const [gap, long, idle, kind] = lanes[lane].slice(i, i + 4);
        made.begin[at] = time + gap;
        time += gap + long;
        made.end[at] = time;
        made.busy[at] = long - idle;
        made.kind[at] = kind;
        made.instruction[at++] = number;
      }
    });
    return made;
  }

  x(time) {
    const [from, to] = this.view;
    return LANE.left + ((time - from) / (to - from)) * (LANE.width - LANE.left - LANE.right);
  }

  // Shows cycles from…to, which are within the run and at least eight.
  show(from, to) {
    const long = Math.min(this.end, Math.max(8, to - from));
    const begin = Math.min(Math.max(0, from), this.end - long);
    this.view = [begin, begin + long];
    this.draw();
  }

  showLayer(number) {
    const long = this.data.cycles[number];
    if (!long) return;
    const margin = Math.max(1, long * 0.02);
    this.show(this.data.begins[number] - margin, this.data.begins[number] + long + margin);
  }

  // Zooms about the middle, or moves by a part of what is seen.
  zoom(factor) {
    const [from, to] = this.view;
    const half = ((to - from) * factor) / 2;
    this.show((from + to) / 2 - half, (from + to) / 2 + half);
  }

  move(part) {
    const [from, to] = this.view;
    this.show(from + (to - from) * part, to + (to - from) * part);
  }

  laneTop(lane) {
    return LANE.top + (lane + 1) * (LANE.high + LANE.gap);
  }

  draw() {
    const height = this.laneTop(ENGINES.length) + 26;
    const shares = this.shares();
    const [from, to] = this.view.map((time) => count(Math.round(time)));
    const busy = ENGINES.map((name, lane) => `${name} ${percent(shares[lane])}`).join(", ");
    const text = `Cycles ${from} to ${to}. Busy: ${busy}.`;
    const made = chart(LANE.width, height, "Timeline", text);
    const bottom = this.laneTop(ENGINES.length);
    for (const time of ticks(...this.view)) {
      const x = this.x(time);
      made.append(svg("path", { class: "grid", d: `M${x} ${LANE.top}V${bottom}` }));
      const anchor = x > LANE.width - 60 ? "end" : "middle";
      made.append(svg("text", { class: "tick", x, y: bottom + 16, "text-anchor": anchor }, count(time)));
    }
    this.drawLayers(made);
    ENGINES.forEach((name, lane) => {
      const y = this.laneTop(lane);
      made.append(svg("text", { class: "label", x: LANE.left - 8, y: y + 19, "text-anchor": "end" }, name));
      made.append(svg("path", { class: "axis", d: `M${LANE.left} ${y + LANE.high}H${LANE.width - LANE.right}` }));
      made.append(svg("path", { class: `span s${lane}`, "data-lane": name, d: this.spansPath(lane) }));
    });
    this.place.replaceChildren(made);
    this.drawn = made;
    get("timeline-text").textContent = text;
  }

  drawLayers(made) {
    const [from, to] = this.view;
    const style = { class: "label", x: LANE.left - 8, y: LANE.top + 19, "text-anchor": "end" };
    made.append(svg("text", style, "layers"));
    let drawn = -Infinity;
    this.data.begins.forEach((begin, number) => {
      const end = begin + this.data.cycles[number];
      if (end <= from || begin >= to || begin === end) return;
      const [x, right] = [this.x(Math.max(begin, from)), this.x(Math.min(end, to))];
      if (right - drawn < 1) return; // narrower than a pixel beside the last one
      drawn = right;
      const shape = { class: `layer l${number % 2}`, x, y: LANE.top, width: right - x, height: LANE.high, "data-number": number };
      const [operation, node] = this.instructions[number];
      const box = svg("rect", shape, svg("title", {}, `#${number} ${operation} ${node}`));
      box.addEventListener("click", () => this.choose(number));
      made.append(box);
      const text = `#${number} ${operation}`;
      if (right - x > 8 * text.length) made.append(svg("text", { class: "inside", x: x + 4, y: LANE.top + 19 }, text));
    });
  }

  // First and last of a lane's spans that can be seen.
  seen(lane) {
    const { begin, end } = this.lanes[lane];
    const [from, to] = this.view;
    return [firstAbove(end, from), firstAbove(begin, to - 1e-9)];
  }

  // Which part of the time that is seen each engine works.
  shares() {
    return this.lanes.map((spans, lane) => {
      const [first, last] = this.seen(lane);
      let sum = 0;
      for (let i = first; i < last; i++) sum += this.overlap(spans, i, ...this.view);
      return sum / (this.view[1] - this.view[0]);
    });
  }

  // Cycles of work of a span between two times.
  overlap(spans, i, from, to) {
    const long = spans.end[i] - spans.begin[i];
    const inside = Math.min(spans.end[i], to) - Math.max(spans.begin[i], from);
    return long > 0 && inside > 0 ? (spans.busy[i] * inside) / long : 0;
  }

  spansPath(lane) {
    const [first, last] = this.seen(lane);
    const [from, to] = this.view;
    const bottom = this.laneTop(lane) + LANE.high;
    const box = (begin, end, share) => {
      const [x, right] = [this.x(Math.max(begin, from)), this.x(Math.min(end, to))];
      const high = LANE.high * Math.min(1, share);
      return `M${x.toFixed(2)} ${bottom}v${(-high).toFixed(2)}h${(right - x).toFixed(2)}v${high.toFixed(2)}z`;
    };
    const spans = this.lanes[lane];
    const parts = [];
    if (last - first <= MOST_SPANS) {
      for (let i = first; i < last; i++) {
        const long = spans.end[i] - spans.begin[i];
        if (long > 0) parts.push(box(spans.begin[i], spans.end[i], spans.busy[i] / long));
      }
      return parts.join("");
    }
    const step = (to - from) / COLUMNS;
    const sums = new Float64Array(COLUMNS);
    for (let i = first; i < last; i++) {
      const stop = Math.min(COLUMNS - 1, Math.floor((spans.end[i] - from) / step));
      for (let c = Math.max(0, Math.floor((spans.begin[i] - from) / step)); c <= stop; c++) {
        sums[c] += this.overlap(spans, i, from + c * step, from + (c + 1) * step);
      }
    }
    sums.forEach((sum, c) => {
      if (sum > 0) parts.push(box(from + c * step, from + (c + 1) * step, sum / step));
    });
    return parts.join("");
  }

  // What is drawn at a place of the picture, in words; empty where nothing is.
  told(x, y) {
    const lane = ENGINES.findIndex((_, i) => y >= this.laneTop(i) && y <= this.laneTop(i) + LANE.high);
    const part = (x - LANE.left) / (LANE.width - LANE.left - LANE.right);
    const time = this.view[0] + part * (this.view[1] - this.view[0]);
    if (lane < 0 || part < 0 || part > 1) return "";
    const spans = this.lanes[lane];
    const i = firstAbove(spans.end, time);
    if (i >= spans.begin.length || spans.begin[i] > time) return "";
    const kind = spans.kind[i];
    const what = kind < 0 ? `${count(-kind)} micro-operations` : this.data.kinds[kind];
    const [operation, node] = this.instructions[spans.instruction[i]];
    const cycles = `cycles ${count(spans.begin[i])} to ${count(spans.end[i])}`;
    return `${what}, ${cycles}, of #${spans.instruction[i]} ${operation} ${node}`;
  }
}

// Place of the first number of a rising list that is above a limit.
function firstAbove(list, limit) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}
