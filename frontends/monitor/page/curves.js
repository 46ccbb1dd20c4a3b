// Curves: which part is asked for, how fine, and smoothed.
'use strict';

const curves = (() => {
  /// The least power of two at which from..to has at most `most` cells: as the server chooses, so that runs share their cells.
  const cellWidth = (from, to, isCounted, most) => {
    let width = isCounted ? 1 : 1 / 1024;
    while (Math.floor(to / width) - Math.floor(from / width) + 1 > most) width *= 2;
    return width;
  };

  /// Exponential mean of what came before, as others have it: free of the bias to zero at the start.
  const smoothed = (values, weight) => {
    if (!weight) return values;
    let sum = 0, scale = 0;
    return values.map(value => {
      sum = weight * sum + (1 - weight) * value;
      scale = weight * scale + (1 - weight);
      return sum / scale;
    });
  };

  /// y at x between known points, which ascend.
  const at = (xs, ys, x) => {
    if (!xs.length) return NaN;
    let low = 0, high = xs.length - 1;
    if (x <= xs[0]) return ys[0];
    if (x >= xs[high]) return ys[high];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle;
      else high = middle;
    }
    return ys[low] + (ys[high] - ys[low]) * (x - xs[low]) / (xs[high] - xs[low]);
  };

  // What was fetched last of each curve; it holds as long as its run has not changed.
  const known = new Map();
  const fetched = async (run, series, part) => {
    const key = `${run.id}/${series}`, wanted = `${run.version}/${part.from}/${part.to}/${part.width}`;
    const held = known.get(key);
    if (held && held.wanted === wanted) return held.curve;
    const curve = source.curve(run.id, series, part);
    known.set(key, {wanted, curve});
    curve.catch(() => known.delete(key));
    return curve;
  };

  return {cellWidth, smoothed, at, fetched};
})();
