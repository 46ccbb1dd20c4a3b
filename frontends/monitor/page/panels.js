// Panels: a plot for each kind of number, with a line for each run and rank.
'use strict';

const panels = (() => {
  const kTitles = {
    'step/loss': 'Loss', 'epoch/loss': 'Loss by epoch', 'epoch/accuracy': 'Accuracy by epoch', 'step/samples_per_s': 'Samples/s',
    'usage/cpu': 'Processor busy', 'usage/device_busy': 'Device busy', 'usage/device_bytes': 'Device memory', 'usage/resident_bytes': 'Memory of the process',
    'usage/watts': 'Power (W)', 'step/lr': 'Learning rate', 'step/ms': 'Time of a step (ms)', 'step/exposed_comm_ms': 'Exposed communication (ms)',
    'step/staleness': 'Staleness (updates)', 'epoch/samples_per_s': 'Samples/s by epoch', 'epoch/seconds': 'Time of an epoch (s)',
    'epoch/device_busy': 'Device busy by epoch', 'epoch/peak_device_bytes': 'Peak device memory by epoch',
  };
  const kOrder = Object.keys(kTitles);
  const kColours = ['#0b3c8c', '#d2480b', '#1f7a36', '#9c36b5', '#b3124d', '#0b7285', '#6b4f1d', '#444444'];
  const kDashes = [null, [7, 3], [2, 2], [9, 3, 2, 3], [16, 5]];
  const kMostLines = 120, kMostBands = 12, kMostPoints = 24000;
  // No touch: one finger scrolls the page, and buttons zoom.
  const kNumber = new Intl.NumberFormat('en');
  const kMouse = Object.fromEntries(Object.entries(Dygraph.defaultInteractionModel).filter(([name]) => !name.startsWith('touch')));

  // The library's legend is not used, and writes styles that the page's policy refuses.
  Dygraph.PLUGINS = Dygraph.PLUGINS.filter(plugin => plugin !== Dygraph.Plugins.Legend);

  /// 40 slots look different from each other, the first five of them in grey too.
  const style = slot => {
    const round = Math.floor(slot / kColours.length);
    return {colour: kColours[slot % kColours.length], dash: kDashes[(slot + round) % kDashes.length]};
  };
  const isShare = name => name === 'cpu' || name.endsWith('busy') || name.endsWith('accuracy');
  const isBytes = name => name.endsWith('bytes');

  const shown = (value, name) => {
    if (value === null || !isFinite(value)) return '–';
    if (isBytes(name)) {
      const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
      let i = 0;
      for (; Math.abs(value) >= 1024 && i < 4; ++i) value /= 1024;
      return `${Number(value.toPrecision(4))} ${units[i]}`;
    }
    if (isShare(name)) return `${Number((100 * value).toPrecision(4))} %`;
    if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(2);
    return Math.abs(value) >= 1e5 ? kNumber.format(Math.round(value)) : String(Number(value.toPrecision(5)));
  };

  /// Which panel shows a series, and as which of its lines.
  const placeOf = series => {
    if (series.event === 'step' && series.name === 'seconds') return null;  // what time is counted by
    if (series.event !== 'epoch') return {key: `${series.event}/${series.name}`, name: series.name, part: ''};
    const [, part, name] = /^(train_|val_)?(.*)$/.exec(series.name);
    return {key: `epoch/${name}`, name, part: part === 'val_' ? 'validation' : part ? 'training' : ''};
  };

  const mixed = (colour, share) => '#' + [1, 3, 5].map(i => {
    const value = parseInt(colour.slice(i, i + 2), 16);
    return Math.round(value + (200 - value) * share).toString(16).padStart(2, '0');
  }).join('');

  class Panel {
    constructor(key, name, view) {
      this.key = key;
      this.name = name;
      this.event = key.split('/')[0];
      this.view = view;  // what is shown of all panels: page.js
      this.lines = [];
      this.isStale = true;
      this.isSeen = false;
      this.undrawn = 0;  // lines beyond kMostLines
      this.element = document.createElement('article');
      this.element.className = 'panel';
      this.element.innerHTML = '<header><h3></h3><button type="button">+</button><button type="button">−</button></header>' +
        '<div class="readout"></div><div class="plot" tabindex="0" role="img"></div>';
      const title = kTitles[key] || name.replaceAll('_', ' ') + (this.event === 'epoch' ? ' by epoch' : '');
      this.element.querySelector('h3').textContent = title;
      this.plot = this.element.querySelector('.plot');
      this.plot.setAttribute('aria-label', `Plot of ${title}`);
      this.readout = this.element.querySelector('.readout');
      const [nearer, farther] = this.element.querySelectorAll('button');
      nearer.setAttribute('aria-label', `Zoom in on ${title}`);
      farther.setAttribute('aria-label', `Zoom out of ${title}`);
      nearer.onclick = () => this.scale(0.5, 0);
      farther.onclick = () => this.scale(2, 0);
      this.plot.onkeydown = event => this.keyed(event);
      this.plot.onmousemove = event => this.pointed(event);
      this.plot.onmouseleave = () => this.left();
    }

    /// What x counts: "step", "time" (trained), "epoch", "usage" (seconds). Panels of one kind zoom together.
    get kind() { return this.event === 'step' && this.view.axis === 'time' ? 'time' : this.event; }

    keyed(event) {
      const action = {'+': [0.5, 0], '=': [0.5, 0], '-': [2, 0], ArrowLeft: [1, -0.25], ArrowRight: [1, 0.25]}[event.key];
      if (action) this.scale(...action);
      else if (event.key === '0' || event.key === 'Escape') this.view.zoomTo(this.kind, null);
      else return;
      event.preventDefault();
    }

    scale(factor, shift) {
      const [from, to] = this.range(), middle = (from + to) / 2 + shift * (to - from), half = factor * (to - from) / 2;
      const [first, last] = this.whole();
      const range = [Math.max(first, middle - half), Math.min(last, middle + half)];
      this.view.zoomTo(this.kind, range[0] <= first && range[1] >= last ? null : range);
    }

    /// Of all lines. Time ends where the last run's does.
    whole() {
      const ends = this.lines.map(line => this.kind === 'time' ? [0, line.clock ? line.clock.value : 0] : [line.series.first, line.series.last]);
      return ends.length ? [Math.min(...ends.map(e => e[0])), Math.max(...ends.map(e => e[1]))] : [0, 1];
    }
    range() { return this.view.zoom[this.kind] || this.whole(); }

    /// The part of a run's steps that lies in a part of its time.
    async stepsOf(line, from, to) {
      const {first, last} = line.series;
      if (!this.view.zoom.time) return [first, last];
      const all = await curves.fetched({id: `${line.run.id}`, version: `${line.run.version}/all`}, line.clock.id,
                                       {from: first, to: last, width: curves.cellWidth(first, last, true, 500)});
      return [Math.floor(curves.at(all.mean, all.x, from)), Math.ceil(curves.at(all.mean, all.x, to))];
    }

    async curveOf(line, most) {
      const isTime = this.kind === 'time';
      const [from, to] = isTime ? await this.stepsOf(line, ...this.range()) : this.range();
      if (!(from <= to)) return {x: [], mean: []};
      const part = {from, to, width: curves.cellWidth(from, to, this.event !== 'usage', most)};
      const curve = await curves.fetched(line.run, line.series.id, part);
      if (!isTime) return curve;
      const clock = await curves.fetched(line.run, line.clock.id, part);
      return {...curve, x: curve.x.map(x => curves.at(clock.x, clock.mean, x)), clock};
    }

    /// Draws the new range at once from the points that are there, and again when finer ones have come.
    zoomed() {
      if (this.graph && this.isSeen) {
        const [from, to] = this.range(), [first, last] = this.drawnRange, whole = this.drawnWhole;
        const isWithin = from >= first && to <= last;
        if (!isWithin && whole && whole.kind === this.kind && whole.names === this.namesOf(this.drawn)) this.drawn = whole.drawn;
        this.redraw();
      }
      this.refresh();
    }

    namesOf(drawn) { return drawn.map(line => `${line.run.id}/${line.series.id}`).join(); }

    async refresh() {
      this.isStale = true;
      if (!this.isSeen) return;
      this.isStale = false;
      const turn = this.turn = (this.turn || 0) + 1;
      const all = this.lines.filter(line => this.kind !== 'time' || line.clock), wanted = all.slice(0, kMostLines);
      this.undrawn = all.length - wanted.length;
      const pixels = this.plot.clientWidth * (window.devicePixelRatio || 1);
      const most = Math.round(Math.min(2000, Math.max(300, pixels), Math.max(100, kMostPoints / Math.max(1, wanted.length))));
      let got;
      try {
        got = await Promise.all(wanted.map(line => this.curveOf(line, most)));
      } catch (error) {  // the run is being read anew, or the server is gone: the next version brings it
        this.isStale = true;
        return;
      }
      if (turn === this.turn) this.draw(wanted, got);
    }

    draw(wanted, got) {
      const drawn = wanted.map((line, i) => ({...line, curve: got[i]})).filter(line => line.curve.x.length).map(line => this.styled(line));
      this.drawn = drawn;
      this.drawnRange = this.range();
      if (!this.view.zoom[this.kind]) this.drawnWhole = {kind: this.kind, drawn, names: this.namesOf(drawn)};
      if (!drawn.length) {
        if (this.graph) this.graph.destroy();
        this.graph = null;
        this.plot.textContent = this.kind === 'time' ? 'These runs have no times of their steps.' : 'Nothing in this range.';
        return;
      }
      this.redraw();
      this.tell();
    }

    /// Many lines are one pixel of the screen thin, which is drawn several times as fast.
    lineWidth(wide) { return this.lines.length > kMostBands ? 1 / (window.devicePixelRatio || 1) : wide; }

    styled(line) {
      const {colour, dash} = style(line.run.slot), {x, low, high} = line.curve, isValidation = line.part === 'validation';
      return {...line, x, low, high, y: curves.smoothed(line.curve.mean, this.view.smoothing), colour: mixed(colour, line.fade), dash,
              width: this.lineWidth(isValidation ? 2.6 : 1.4), dots: isValidation ? 3 : x.length < 3 ? 2 : 0};
    }

    /// Draws what there is in the range that is shown.
    redraw() {
      const {file, ...options} = this.options();
      if (this.graph) return this.graph.updateOptions({...options, file});
      this.plot.textContent = '';
      this.graph = new Dygraph(this.plot, file, options);
    }

    /// The library gets the least and the greatest value alone, by which it sets the range of y.
    options() {
      const [from, to] = this.range(), room = this.view.zoom[this.kind] ? 0 : (to - from) * 0.01 || 0.5;
      const {name, drawn} = this, {isLog} = this.view, isSmall = this.plot.clientWidth < 420, hasBands = drawn.length <= kMostBands;
      const [least, greatest] = lines.extent(drawn, from - room, to + room, hasBands, isLog);
      return {
        file: [[from - room, least], [to + room, greatest]], labels: ['x', 'range'], legend: 'never', logscale: isLog,
        plotter: event => lines.paint(event.drawingContext, event.plotArea, event.dygraph, this.drawn, hasBands, isLog),
        highlightCircleSize: 0, gridLineColor: '#ddd', axisLineColor: '#777',
        dateWindow: [from - room, to + room], yRangePad: 6, rightGap: 8, xRangePad: 0, animatedZooms: false,
        includeZero: (isShare(name) || isBytes(name)) && !isLog,
        xlabel: {step: 'step', epoch: 'epoch', time: 'seconds trained', usage: 'seconds'}[this.kind], xLabelHeight: 17,
        axes: {
          x: {axisLabelFormatter: x => kNumber.format(Number(x.toPrecision(7))), pixelsPerLabel: isSmall ? 60 : 75},
          y: {axisLabelFormatter: y => shown(y, name), axisLabelWidth: 66, pixelsPerLabel: 34, labelsKMG2: isBytes(name)},
        },
        interactionModel: {...kMouse, dblclick: () => this.view.zoomTo(this.kind, null)},
        zoomCallback: (low, high) => this.view.zoomTo(this.kind, [low, high]),
        underlayCallback: (context, area, graph) => this.mark(context, area, graph),
      };
    }

    /// Lines where a run went on, or lost a rank.
    mark(context, area, graph) {
      if (this.event !== 'step') return;
      for (const line of this.drawn) {
        const {run} = line;
        if (!run.marks.length || line !== this.drawn.find(one => one.run === run)) continue;
        for (const [step] of run.marks) {
          const x = Math.round(graph.toDomXCoord(this.kind === 'time' ? curves.at(line.curve.clock.x, line.curve.clock.mean, step) : step)) + 0.5;
          if (!(x >= area.x && x <= area.x + area.w)) continue;
          context.save();
          context.strokeStyle = context.fillStyle = style(run.slot).colour;
          context.setLineDash([3, 3]);
          context.beginPath();
          context.moveTo(x, area.y);
          context.lineTo(x, area.y + area.h);
          context.stroke();
          context.beginPath();
          context.moveTo(x - 4, area.y);
          context.lineTo(x + 4, area.y);
          context.lineTo(x, area.y + 7);
          context.fill();
          context.restore();
        }
      }
    }

    nameOf(line) {
      return [line.run.name, line.part, line.series.rank > 0 || this.hasRanks ? (line.series.rank >= 0 ? `rank ${line.series.rank}` : '') : ''].filter(Boolean).join(', ');
    }

    /// The point of a line that stands for x; that of an export covers as many steps as its run's length asks for. -1: none
    indexAt(line, x, width) {
      const next = lines.before(line.x, x), index = next > 0 && (next === line.x.length || x - line.x[next - 1] < line.x[next] - x) ? next - 1 : next;
      const within = this.kind === 'step' ? Math.max(width, line.curve.width || 1) / 2 : 0;
      return index < line.x.length && (line.x[index] === x || Math.abs(line.x[index] - x) < within) ? index : -1;
    }

    /// The line nearest to the pointer, and all that have a point for its x. Not while a drag zooms, which draws on the same canvas.
    pointed(event) {
      if (!this.graph || event.buttons) return;
      const {graph, view: {isLog}} = this, {x, y, w, h} = graph.getArea(), area = {x, y, w, h};
      const found = lines.nearest(area, graph, this.drawn, isLog, graph.eventToDomCoords(event));
      if (!found) return this.left();
      const at = found.line.x[found.index];
      const others = this.drawn.filter(line => line !== found.line).map(line => ({line, index: this.indexAt(line, at, found.line.curve.width || 1)}));
      const entries = [found, ...others.filter(({index}) => index >= 0)];
      this.clear();
      lines.point(graph.canvas_ctx_, area, graph, isLog, found.line, entries);
      this.tell(at, entries);
    }

    left() {
      if (!this.graph) return;
      this.clear();
      this.tell();
    }

    clear() { this.graph.canvas_ctx_.clearRect(0, 0, this.plot.clientWidth, this.plot.clientHeight); }

    /// Says what the pointer is at, the nearest line first; without one, the last values.
    tell(x, points) {
      this.readout.textContent = '';
      if (!this.drawn.length) return;
      const entries = points ? points.map(({line, index}) => ({line, index, y: line.y[index]})) : this.drawn.map(line => ({line, y: line.series.value}));
      if (x !== undefined) {
        const width = entries.length ? entries[0].line.curve.width || 1 : 1;
        const at = this.kind === 'step' && width > 1 ? `${x - (width - 1) / 2}–${x + (width - 1) / 2}` : Number(x.toPrecision(6));
        this.readout.append(`${{step: 'step', epoch: 'epoch', time: 's', usage: 's'}[this.kind]} ${at}`);
      }
      if (this.undrawn) this.readout.append(` (${this.undrawn} more lines are not drawn)`);  // first: what does not fit here is hidden
      for (const {line, index, y} of entries.slice(0, 6)) {
        const swatch = document.createElement('span');
        swatch.className = 'swatch';
        swatch.style.background = line.colour;
        const {low, high} = line.curve;
        const between = index !== undefined && low && low[index] !== high[index] ? ` (${shown(low[index], this.name)} to ${shown(high[index], this.name)})` : '';
        this.readout.append(swatch, `${this.nameOf(line)} ${shown(y, this.name)}${between}`);
      }
      if (entries.length > 6) this.readout.append(` and ${entries.length - 6} more`);
    }
  }

  /// The panels that a set of runs needs, in order, each with its lines; those that there are go on.
  const arranged = (before, runs, view) => {
    const made = new Map();
    for (const run of runs) {
      const clock = run.series.find(s => s.event === 'step' && s.name === 'seconds');
      for (const series of run.series) {
        const place = placeOf(series);
        if (!place) continue;
        if (!made.has(place.key)) {
          const panel = before.get(place.key) || new Panel(place.key, place.name, view);
          panel.lines = [];
          made.set(place.key, panel);
        }
        const ranks = series.rank < 0 ? 1 : run.series.filter(s => s.event === series.event && s.name === series.name).length;
        made.get(place.key).lines.push({run, series, part: place.part, clock, fade: series.rank > 0 ? 0.75 * series.rank / ranks : 0});
      }
    }
    for (const panel of made.values()) panel.hasRanks = panel.lines.some(line => line.series.rank > 0);
    const order = key => (kOrder.indexOf(key) + 1 || kOrder.length + 1);
    return new Map([...made].sort(([a], [b]) => order(a) - order(b) || a.localeCompare(b)));
  };

  return {arranged, style, shown};
})();
