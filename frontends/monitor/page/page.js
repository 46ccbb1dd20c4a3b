// The page: the list of runs, what is chosen, and the table of what they were given.
'use strict';

addEventListener('DOMContentLoaded', () => {
  const $ = id => document.getElementById(id);
  const runs = new Map();  // by id; those chosen have a slot, which is their colour
  let version = 0, known = new Map(), asking = false, askAgain = false, isFirst = true, tableTurn = 0;
  const view = {zoom: {}, axis: 'step', smoothing: 0, isLog: false, zoomTo};

  const seen = new IntersectionObserver(entries => {
    for (const entry of entries) {
      const panel = [...known.values()].find(one => one.element === entry.target);
      if (!panel) continue;
      panel.isSeen = entry.isIntersecting;
      if (panel.isSeen && panel.isStale) panel.refresh();
    }
  }, {rootMargin: '200px'});

  const chosen = () => [...runs.values()].filter(run => run.slot !== undefined).sort((a, b) => a.slot - b.slot);
  const byAge = () => [...runs.values()].sort((a, b) => b.written - a.written || a.name.localeCompare(b.name));

  function choose(run, isChosen) {
    if (!isChosen) return delete run.slot;
    if (run.slot !== undefined) return;
    const taken = new Set(chosen().map(one => one.slot));
    run.slot = 0;
    while (taken.has(run.slot)) ++run.slot;
  }

  /// These and no others, with colours in this order.
  function chooseOnly(wanted) {
    for (const run of runs.values()) delete run.slot;
    wanted.forEach(run => choose(run, true));
  }

  function zoomTo(kind, range) {
    view.zoom[kind] = range;
    for (const panel of known.values()) {
      if (panel.kind === kind) panel.zoomed();
    }
  }

  const since = seconds => seconds < 90 ? `${Math.max(0, Math.round(seconds))} s` : seconds < 5400 ? `${Math.round(seconds / 60)} minutes`
    : seconds < 129600 ? `${Math.round(seconds / 3600)} hours` : `${Math.round(seconds / 86400)} days`;

  function statusOf(run) {
    const age = run.age === null ? null : run.age + (source.isLive ? (performance.now() - run.at) / 1000 : 0);
    const lasted = run.seconds ? ` after ${since(run.seconds)}` : '';
    if (run.status === 'ok') return [`ended${lasted}`, false];
    if (run.status) return [`${run.status}${lasted}`, true];
    if (age === null) return ['no end written; another run follows in its file', true];
    if (age < 120 && source.isLive) return [`running, last line ${since(age)} ago`, false];
    return [`no end written, last line ${since(age)} ${source.isLive ? 'ago' : 'before this page was made'}`, true];
  }

  function lastOf(run) {
    const value = name => run.series.find(s => s.event === name[0] && s.name === name[1]);
    const words = [run.model, run.parallel && run.parallel !== 'none' ? run.parallel : '', run.ranks > 1 ? `${run.ranks} ranks` : ''];
    if (run.last_step) words.push(`step ${run.last_step.toLocaleString('en')}`);
    for (const [label, ...name] of [['loss', 'step', 'loss'], ['val. accuracy', 'epoch', 'val_accuracy']]) {
      const found = value(name);
      if (found) words.push(`${label} ${panels.shown(found.value, found.name)}`);
    }
    return words.filter(Boolean).join(' · ');
  }

  function sample(run) {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    svg.setAttribute('viewBox', '0 0 26 8');
    svg.setAttribute('aria-hidden', 'true');
    if (run.slot === undefined) return svg;
    const {colour, dash} = panels.style(run.slot);
    const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
    for (const [name, value] of Object.entries({x1: 0, x2: 26, y1: 4, y2: 4, stroke: colour, 'stroke-width': 3, 'stroke-dasharray': (dash || []).join(' ')}))
      line.setAttribute(name, value);
    svg.append(line);
    return svg;
  }

  const made = (tag, name, text) => Object.assign(document.createElement(tag), {className: name, textContent: text});

  function listed() {
    const wanted = $('filter').value.trim().toLowerCase();
    return byAge().filter(run => `${run.name} ${run.model || ''}`.toLowerCase().includes(wanted));
  }

  function showList() {
    const focus = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.run : undefined;
    const items = listed().slice(0, 1000).map(run => {
      const item = document.createElement('li'), label = document.createElement('label'), box = document.createElement('input');
      box.type = 'checkbox';
      box.checked = run.slot !== undefined;
      box.dataset.run = run.id;
      box.onchange = () => {
        isFirst = false;
        choose(run, box.checked);
        show();
      };
      label.append(box, sample(run), made('span', 'name', run.name));
      const about = made('p', 'about', ''), [words, isBad] = statusOf(run);
      about.append(made('span', isBad ? 'status bad' : 'status', words), document.createElement('br'), lastOf(run));
      for (const [step, text] of run.marks.slice(-3)) about.append(document.createElement('br'), `▾ step ${step.toLocaleString('en')}: ${text}`);
      item.append(label, about);
      return item;
    });
    $('list').replaceChildren(...items);
    $('count').textContent = `(${chosen().length} of ${runs.size} drawn)`;
    if (focus) {
      const box = $('list').querySelector(`[data-run="${CSS.escape(focus)}"]`);
      if (box) box.focus({preventScroll: true});
    }
  }

  const whyEmpty = () => !runs.size ? 'No run.jsonl is here yet; `gemel train --log-dir DIR` writes one.' : chosen().length ? 'Nothing to draw yet.' : 'Choose runs to draw them.';

  function showPanels(changed) {
    const before = known;
    known = panels.arranged(before, chosen(), view);
    for (const [key, panel] of before)
      if (!known.has(key)) {
        seen.unobserve(panel.element);
        if (panel.graph) panel.graph.destroy();
      }
    const elements = [...known.values()].map(panel => panel.element);
    const isSame = elements.length === $('panels').children.length && elements.every((element, i) => element === $('panels').children[i]);
    if (!isSame) $('panels').replaceChildren(...elements);
    if (!elements.length) $('panels').replaceChildren(made('p', 'empty', whyEmpty()));
    for (const [key, panel] of known) {
      if (!before.has(key)) seen.observe(panel.element);
      if (!changed || !before.has(key) || panel.lines.some(line => changed.has(line.run.id))) panel.refresh();
    }
  }

  /// {a: {b: 1}} as ["a.b", "1"]
  function flat(value, prefix, out) {
    for (const [key, inner] of Object.entries(value || {}))
      if (inner !== null && typeof inner === 'object' && !Array.isArray(inner)) flat(inner, `${prefix}${key}.`, out);
      else out.set(prefix + key, Array.isArray(inner) ? inner.map(one => typeof one === 'object' ? JSON.stringify(one) : one).join(' ') : String(inner));
    return out;
  }

  async function showTable() {
    const shown = chosen().slice(0, 12), turn = ++tableTurn;
    const columns = await Promise.all(shown.map(async run => {
      const key = `${run.status}/${run.marks.length}`;
      if (!run.about || run.aboutKey !== key) [run.about, run.aboutKey] = [await source.about(run.id).catch(() => ({})), key];
      return {start: flat(run.about.start, '', new Map()), results: flat(run.about.results, '', new Map())};
    }));
    if (turn !== tableTurn) return;  // asked for anew since
    const head = document.createElement('tr');
    head.append(made('th', '', ''), ...shown.map(run => made('th', '', run.name)));
    const rows = [];
    for (const [title, part] of [['Configuration', 'start'], ['Results', 'results']]) {
      const keys = [...new Set(columns.flatMap(column => [...column[part].keys()]))].filter(key => key !== 'event');
      const lines = keys.map(key => [key, columns.map(column => column[part].get(key) ?? '–')])
        .filter(([, values]) => !$('differences').checked || values.length < 2 || values.some(value => value !== values[0]));
      if (!lines.length) continue;
      const row = made('tr', 'head', '');
      row.append(made('th', '', title), ...shown.map(() => made('td', '', '')));
      rows.push(row, ...lines.map(([key, values]) => {
        const line = document.createElement('tr');
        line.append(made('th', '', key), ...values.map(value => made('td', '', value)));
        return line;
      }));
    }
    const top = document.createElement('thead'), body = document.createElement('tbody');
    top.append(head);
    body.append(...rows);
    $('table').replaceChildren(...(shown.length ? [top, body] : []));
  }

  function show(changed) {
    showList();
    showPanels(changed);
    showTable();
  }

  /// Asks for what is new; at most one question is under way.
  async function look() {
    if (asking) return askAgain = true;
    asking = true;
    try {
      const news = await source.runs(version);
      version = news.version;
      const changed = new Set();
      for (const run of news.runs) {
        const old = runs.get(run.id);
        runs.set(run.id, Object.assign(old || {}, run, {at: performance.now(), version: news.version}));
        changed.add(run.id);
        if (!old && !isFirst && !run.status && run.age < 60 && chosen().length < 10) choose(runs.get(run.id), true);  // one that has just begun
      }
      if (news.ids) {
        const there = new Set(news.ids);
        for (const id of [...runs.keys()]) if (!there.has(id)) runs.delete(id);
      }
      const isWhole = news.files >= news.of_files;
      const choosesAnew = isFirst;
      if (choosesAnew) chooseOnly(byAge().slice(0, 5));
      isFirst = isFirst && !(isWhole && runs.size);
      $('folder').textContent = news.folder;
      $('state').textContent = !isWhole ? `reading: ${news.files} of ${news.of_files} records`
        : source.isLive ? '' : `written to a file${source.leftOut ? `; ${source.leftOut} runs do not fit` : ''}`;
      show(choosesAnew ? undefined : changed);
    } catch (error) {
      $('state').textContent = `no answer from the monitor (${error.message})`;
    } finally {
      asking = false;
      if (askAgain) setTimeout(look, 500);
      askAgain = false;
    }
  }

  $('filter').oninput = showList;
  const choosing = wanted => () => {
    isFirst = false;
    chooseOnly(wanted());
    show();
  };
  $('newest').onclick = choosing(() => listed().slice(0, 5));
  $('shown').onclick = choosing(() => listed().slice(0, 120));
  $('none').onclick = choosing(() => []);
  const redraw = () => known.forEach(panel => panel.refresh());
  $('smoothing').oninput = event => {
    view.smoothing = Number(event.target.value);
    $('weight').textContent = view.smoothing;
    redraw();
  };
  $('axis').onchange = event => {
    view.axis = event.target.value;
    redraw();
  };
  $('log').onchange = event => {
    view.isLog = event.target.checked;
    redraw();
  };
  $('whole').onclick = () => ['step', 'time', 'epoch', 'usage'].forEach(kind => zoomTo(kind, null));
  $('differences').onchange = showTable;
  $('controls').onsubmit = event => event.preventDefault();
  if (matchMedia('(max-width:800px)').matches) $('runs').open = false;
  if (source.isLive) setInterval(showList, 10000);
  source.listen(newest => newest !== version && look(), look, () => $('state').textContent = 'no answer from the monitor; trying again');
  look();
});
