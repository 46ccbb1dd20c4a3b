// Where the page's data come from: the server, or, in a page that was written to a file, the page itself.
'use strict';

const source = (() => {
  const element = document.getElementById('data');
  if (element) {
    const held = JSON.parse(element.textContent);
    return {
      isLive: false,
      leftOut: held.all.left_out,
      runs: async () => ({...held.all, ids: held.all.runs.map(run => run.id)}),
      about: async id => held.data[id].about,
      curve: async (id, series) => held.data[id].curves[series] || {width: 1, x: [], mean: []},
      listen() {},
    };
  }
  const ask = async path => {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer.json();
  };
  // Curves that are wanted at once, as by a zoom of several plots, are one question.
  const kMostCurves = 500;
  let wanted = [];
  const askForCurves = async some => {
    const {from, to, width} = some[0].part;
    try {
      const answers = await ask(`api/curves?of=${some.map(one => one.name).join(',')}&from=${from}&to=${to}&width=${width}`);
      some.forEach((one, i) => answers[i] ? one.resolve(answers[i]) : one.reject(new Error('the run is being read anew')));
    } catch (error) {
      some.forEach(one => one.reject(error));
    }
  };
  const askForAll = () => {
    const groups = Map.groupBy ? Map.groupBy(wanted, one => one.key) : new Map(wanted.map(one => [one.key, wanted.filter(other => other.key === one.key)]));
    wanted = [];
    for (const group of groups.values())
      for (let i = 0; i < group.length; i += kMostCurves) askForCurves(group.slice(i, i + kMostCurves));
  };
  const curve = (id, series, part) => new Promise((resolve, reject) => {
    if (!wanted.length) queueMicrotask(askForAll);
    wanted.push({name: `${id}.${series}`, part, key: `${part.from}/${part.to}/${part.width}`, resolve, reject});
  });
  return {
    isLive: true,
    leftOut: 0,
    runs: since => ask(`api/runs?since=${since}`),
    about: id => ask(`api/about?run=${id}`),
    curve,
    // A page that nobody looks at asks for nothing: a browser has six connections to a server for all of its pages.
    listen(onVersion, onOpen, onLost) {
      const kAgainAfter = 5000;  // ms
      let events = null;
      const close = () => {
        if (events) events.close();
        events = null;
      };
      const follow = () => {
        if (document.hidden) return close();
        if (events) return;
        events = new EventSource('events');
        events.onmessage = event => onVersion(Number(event.data));
        events.onopen = () => onOpen();
        events.onerror = () => {
          onLost();
          if (!events || events.readyState !== EventSource.CLOSED) return;  // a browser asks again by itself, but not where it was refused
          close();
          setTimeout(follow, kAgainAfter);
        };
      };
      document.addEventListener('visibilitychange', follow);
      follow();
    },
  };
})();
