// The roofline: products a cycle of each layer over products a byte, below what the DMA and the array can do.

const ROOF = { width: 760, height: 440, left: 64, right: 96, top: 20, bottom: 50 };

// Bytes of the busier way of the DMA, as each way has an engine of its own.
const busierBytes = (layer) => Math.max(layer.inBytes, layer.outBytes);
const isOnRoofline = (layer) => layer.macs > 0 && layer.cycles > 0 && busierBytes(layer) > 0;

class Roofline {
  constructor(place, grid, choose) {
    this.place = place;
    this.grid = grid;
    this.choose = choose;
    this.frame = this.limits();
  }

  // Powers of ten around all layers on all devices, so that marks move and axes stay.
  limits() {
    const { records, lists, tiles } = this.grid.data;
    const [arrays, , widths] = this.grid.stops;
    let [left, right, low] = [1, 1, 1];
    for (const record of records) {
      const sum = (place) => lists[record[12]].reduce((all, i) => all + tiles[i][TILE.count] * tiles[i][place], 0);
      const layer = { macs: record[4], cycles: record[5], inBytes: sum(TILE.inBytes), outBytes: sum(TILE.outBytes) };
      if (!isOnRoofline(layer)) continue;
      left = Math.min(left, layer.macs / busierBytes(layer));
      right = Math.max(right, layer.macs / busierBytes(layer));
      low = Math.min(low, layer.macs / layer.cycles);
    }
    const decades = (value, round) => 10 ** round(Math.log10(value));
    const x = [decades(left, Math.floor), decades(right, Math.ceil)];
    if (x[0] === x[1]) x[1] *= 10;
    const y = [decades(Math.min(low, widths[0] * x[0]), Math.floor), decades(2 * arrays.at(-1) ** 2, Math.ceil)];
    return { x, y };
  }

  x(value) {
    const [from, to] = this.frame.x;
    return ROOF.left + (Math.log(value / from) / Math.log(to / from)) * (ROOF.width - ROOF.left - ROOF.right);
  }

  y(value) {
    const [from, to] = this.frame.y;
    return ROOF.height - ROOF.bottom - (Math.log(value / from) / Math.log(to / from)) * (ROOF.height - ROOF.top - ROOF.bottom);
  }

  draw(device, chosen) {
    const shown = device.layers ? device.layers.filter(isOnRoofline) : [];
    const more = `${shown.length} layers with products; the layer table has their numbers`;
    const made = chart(ROOF.width, ROOF.height, "Roofline", more);
    this.axes(made);
    this.ceilings(made, device.hardware);
    for (const layer of shown) made.append(this.mark(layer, layer.number === chosen));
    const last = shown.find((layer) => layer.number === chosen);
    if (last) made.append(this.mark(last, true));
    this.place.replaceChildren(made);
    return shown.length;
  }

  axes(made) {
    const [left, right] = this.frame.x;
    const [low, high] = this.frame.y;
    const bottom = ROOF.height - ROOF.bottom;
    for (let value = left; value <= right * 1.001; value *= 10) {
      const x = this.x(value);
      made.append(svg("path", { class: "grid", d: `M${x} ${ROOF.top}V${bottom}` }));
      made.append(svg("text", { class: "tick", x, y: bottom + 18, "text-anchor": "middle" }, power(value)));
    }
    for (let value = low; value <= high * 1.001; value *= 10) {
      const y = this.y(value);
      made.append(svg("path", { class: "grid", d: `M${ROOF.left} ${y}H${ROOF.width - ROOF.right}` }));
      made.append(svg("text", { class: "tick", x: ROOF.left - 8, y: y + 4, "text-anchor": "end" }, power(value)));
    }
    const middle = (ROOF.left + ROOF.width - ROOF.right) / 2;
    const across = { class: "label", x: middle, y: ROOF.height - 10, "text-anchor": "middle" };
    made.append(svg("text", across, "products a byte of the DMA's busier way"));
    const up = { class: "label", transform: `translate(14 ${(ROOF.top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" };
    made.append(svg("text", up, "products a cycle"));
  }

  ceilings(made, hardware) {
    const [left, right] = this.frame.x;
    const end = ROOF.width - ROOF.right;
    const top = hardware.array ** 2;
    const slope = (width, until) => `M${this.x(left)} ${this.y(width * left)}L${this.x(until)} ${this.y(width * until)}`;
    for (const width of this.grid.stops[2]) {
      const until = Math.min(right, this.frame.y[1] / width);
      const wide = width === hardware.dma_bytes_per_cycle;
      made.append(svg("path", { class: "reference", d: slope(width, until) }));
      const place = { class: wide ? "label strong" : "label", x: ROOF.left + 5, y: this.y(width * left) - 5 };
      made.append(svg("text", place, `${count(width)} B`));
    }
    for (const array of this.grid.stops[0]) {
      const y = this.y(array ** 2);
      const text = { class: array === hardware.array ? "label strong" : "label", x: end + 6, y: y + 4 };
      made.append(svg("path", { class: "reference", d: `M${ROOF.left} ${y}H${end}` }));
      made.append(svg("text", text, `${array} × ${array}`));
    }
    const width = hardware.dma_bytes_per_cycle;
    const ridge = Math.min(right, top / width);
    made.append(svg("path", { class: "roof", d: `${slope(width, ridge)}${ridge < right ? `H${end}` : ""}` }));
    const slow = top / hardware.matrix_f32_factor;
    if (slow / width < right) {
      const from = this.x(Math.max(left, slow / width));
      made.append(svg("path", { class: "roof d1", d: `M${from} ${this.y(slow)}H${end}` }));
      made.append(svg("text", { class: "label", x: end - 4, y: this.y(slow) - 5, "text-anchor": "end" }, "float32"));
    }
  }

  mark(layer, isChosen) {
    const x = this.x(layer.macs / busierBytes(layer));
    const y = this.y(layer.macs / layer.cycles);
    const size = isChosen ? 8 : 5;
    const shape = { class: `mark ${layer.usesMatrix ? "s0" : "s1"}${isChosen ? " chosen" : ""}`, "data-number": layer.number };
    const made = layer.usesMatrix
      ? svg("circle", { ...shape, cx: x, cy: y, r: size })
      : svg("rect", { ...shape, x: x - size, y: y - size, width: 2 * size, height: 2 * size });
    made.append(svg("title", {}, `#${layer.number} ${layer.operation} ${layer.node}: ${count(layer.cycles)} cycles`));
    made.addEventListener("click", () => this.choose(layer.number));
    return made;
  }
}

// A power of ten as an axis shows it.
function power(value) {
  const exponent = Math.round(Math.log10(value));
  if (exponent >= -2 && exponent <= 4) return count(Number(value.toPrecision(1)));
  const raised = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  return `10${[...String(exponent)].map((letter) => raised[letter]).join("")}`;
}
