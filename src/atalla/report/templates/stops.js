// Cycles at every stop of a slider, the other two as they are: where more of something stops to help.

const BAR = { width: 460, left: 110, right: 96, high: 18, gap: 8, top: 4 };

// One chart a slider; a click on a bar chooses its stop.
function stopCharts(grid, places, titles, texts, choose) {
  return grid.stops.map((stops, axis) => {
    const cycles = stops.map((_, stop) => grid.cycles(places.map((place, i) => (i === axis ? stop : place))));
    const made = chart(BAR.width, BAR.top + stops.length * (BAR.high + BAR.gap), titles[axis], "Cycles of the event simulation");
    const most = Math.max(1, ...cycles.filter((one) => one !== null));
    stops.forEach((stop, i) => {
      const y = BAR.top + i * (BAR.high + BAR.gap);
      const isChosen = i === places[axis];
      const style = isChosen ? "label strong" : "label";
      made.append(svg("text", { class: style, x: BAR.left - 8, y: y + 14, "text-anchor": "end" }, texts[axis](stop)));
      const long = cycles[i] === null ? 0 : (cycles[i] / most) * (BAR.width - BAR.left - BAR.right);
      const told = cycles[i] === null ? "does not run" : count(cycles[i]);
      const bar = svg("rect", { class: isChosen ? "stop now" : "stop", x: BAR.left, y, width: long, height: BAR.high });
      bar.addEventListener("click", () => choose(axis, i));
      made.append(bar, svg("text", { class: style, x: BAR.left + long + 6, y: y + 14 }, told));
    });
    return html("figure", {}, html("figcaption", {}, titles[axis]), made);
  });
}
