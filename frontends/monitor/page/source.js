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
  return {
    isLive: true,
    leftOut: 0,
    runs: since => ask(`api/runs?since=${since}`),
    about: id => ask(`api/about?run=${id}`),
    curve: (id, series, part) => ask(`api/curve?run=${id}&series=${series}&from=${part.from}&to=${part.to}&width=${part.width}`),
    // A page that nobody looks at asks for nothing: a browser has six connections to a server for all of its pages.
    listen(onVersion, onLost) {
      let events = null;
      const follow = () => {
        if (document.hidden) {
          if (events) events.close();
          events = null;
        } else if (!events) {
          events = new EventSource('events');
          events.onmessage = event => onVersion(Number(event.data));
          events.onerror = onLost;
        }
      };
      document.addEventListener('visibilitychange', follow);
      follow();
    },
  };
})();
