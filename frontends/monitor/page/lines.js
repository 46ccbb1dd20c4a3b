// Lines: the curves of a plot on its canvas, and which of them the pointer is near. The plotting library draws what is around them and zooms by drags: its own
// lines need the same x for all, and take most of a second for a hundred of them in some plots.
'use strict';

const lines = (() => {
  /// How many of xs, which ascend, are less than x.
  const before = (xs, x) => {
    let low = 0, high = xs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (xs[middle] < x) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  /// The points first..end of a line that are needed for a range: those in it, and one at either side where the line goes on.
  const within = (line, from, to) => {
    const end = before(line.x, to);
    return [Math.max(0, before(line.x, from) - 1), Math.min(line.x.length, end + 1)];
  };

  /// The least and the greatest value in a range: [0.1, 1] if there is none that can be drawn. @param drawn  {x, y, low, high}
  const extent = (drawn, from, to, hasBands, isLog) => {
    let least = Infinity, greatest = -Infinity;
    for (const line of drawn) {
      const [first, end] = within(line, from, to);
      for (const ys of hasBands && line.low ? [line.y, line.low, line.high] : [line.y])
        for (let i = first; i < end; ++i) {
          if (isLog && ys[i] <= 0) continue;
          if (ys[i] < least) least = ys[i];
          if (ys[i] > greatest) greatest = ys[i];
        }
    }
    return least <= greatest ? [least, greatest] : [0.1, 1];
  };

  /// From numbers to pixels. What a logarithm has no place for is NaN.
  const placing = (graph, area, isLog) => {
    const [from, to] = graph.xAxisRange(), range = graph.yAxisRange();
    const of = isLog ? y => (y > 0 ? Math.log10(y) : NaN) : y => y;
    const bottom = of(range[0]), wide = area.w / (to - from), high = area.h / (of(range[1]) - bottom);
    return {from, to, x: x => area.x + (x - from) * wide, y: y => area.y + area.h - (of(y) - bottom) * high};
  };

  const trace = (context, place, xs, ys, first, end) => {
    let isBegun = false;
    for (let i = first; i < end; ++i) {
      const y = place.y(ys[i]);
      if (y !== y) continue;
      if (isBegun) context.lineTo(place.x(xs[i]), y);
      else context.moveTo(place.x(xs[i]), y);
      isBegun = true;
    }
  };

  const dot = (context, place, line, i, radius) => {
    const y = place.y(line.y[i]);
    if (y !== y) return;
    context.beginPath();
    context.arc(place.x(line.x[i]), y, radius, 0, 2 * Math.PI);
    context.fill();
  };

  const stroke = (context, place, line, width) => {
    const [first, end] = within(line, place.from, place.to);
    context.strokeStyle = context.fillStyle = line.colour;
    context.lineWidth = width;
    context.setLineDash(line.dash || []);
    context.beginPath();
    trace(context, place, line.x, line.y, first, end);
    context.stroke();
    if (line.dots) for (let i = first; i < end; ++i) dot(context, place, line, i, line.dots);
  };

  const band = (context, place, line) => {
    const [first, end] = within(line, place.from, place.to);
    context.beginPath();
    for (let i = first; i < end; ++i) context.lineTo(place.x(line.x[i]), place.y(line.high[i]));
    for (let i = end; i-- > first;) context.lineTo(place.x(line.x[i]), place.y(line.low[i]));
    context.fillStyle = line.colour;
    context.globalAlpha = 0.16;
    context.fill();
    context.globalAlpha = 1;
  };

  const clip = (context, area) => {
    context.beginPath();
    context.rect(area.x, area.y, area.w, area.h);
    context.clip();
  };

  /// @param drawn  {x, y, low, high, colour, dash, width, dots}
  const paint = (context, area, graph, drawn, hasBands, isLog) => {
    const place = placing(graph, area, isLog);
    context.save();
    clip(context, area);
    context.lineJoin = 'round';
    if (hasBands) for (const line of drawn) if (line.low) band(context, place, line);
    for (const line of drawn) stroke(context, place, line, line.width);
    context.restore();
  };

  /// The line whose point is nearest to a pixel, and which point: {line, index}; null without any.
  const nearest = (area, graph, drawn, isLog, [left, top]) => {
    const place = placing(graph, area, isLog), x = place.from + (left - area.x) * (place.to - place.from) / area.w;
    let found = null, least = Infinity;
    for (const line of drawn) {
      const next = before(line.x, x);
      for (let i = Math.max(0, next - 1); i < Math.min(line.x.length, next + 1); ++i) {
        if (line.x[i] < place.from || line.x[i] > place.to) continue;
        const distance = Math.hypot(place.x(line.x[i]) - left, place.y(line.y[i]) - top);
        if (distance < least) [least, found] = [distance, {line, index: i}];
      }
    }
    return found;
  };

  /// Draws one line thicker, and the points at one x of all.
  const point = (context, area, graph, isLog, line, at) => {
    const place = placing(graph, area, isLog);
    context.save();
    clip(context, area);
    stroke(context, place, line, 2.6);
    for (const {line, index} of at) {
      context.fillStyle = line.colour;
      dot(context, place, line, index, 3);
    }
    context.restore();
  };

  return {before, extent, paint, nearest, point};
})();
