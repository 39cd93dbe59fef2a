// Keys, theme and places: what must happen in the browser itself.
(() => {
  const base = document.currentScript.dataset.base;
  const places = { o: "/", p: "/plan", q: "/queries", c: "/costs", s: "/sysstream" };
  let leader = 0;

  window.millraceTheme = () => {
    const dark = !document.body.classList.contains("body--dark");
    document.cookie = `millrace_theme=${dark ? "dark" : "light"}; path=${base}; max-age=31536000; samesite=strict`;
    setDark(dark); // NiceGUI's own, which tells Quasar too
    emitEvent("millrace-theme", dark);
  };

  // The dataflow is made as small as it takes to be seen whole, as long as it can be read.
  window.millraceFit = () => {
    const place = document.querySelector(".mr-plan"), canvas = place && place.querySelector(".mr-canvas");
    if (!canvas) return;
    canvas.style.zoom = 1;
    canvas.style.zoom = Math.max(0.7, Math.min(1, place.clientWidth / canvas.offsetWidth));
  };
  window.addEventListener("resize", () => window.millraceFit());

  const typing = (target) =>
    target.isContentEditable || target.closest("input, textarea, select, .cm-editor") !== null;

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    const press = (id) => { const found = document.getElementById(id); if (found) { event.preventDefault(); found.click(); found.focus(); } };
    if (Date.now() - leader < 1500 && places[event.key]) {
      leader = 0;
      window.location.href = base + places[event.key];
    } else if (event.key === "g") leader = Date.now();
    else if (event.key === "/") { const box = document.querySelector(".mr-search input"); if (box) { event.preventDefault(); box.focus(); } else window.location.href = `${base}/queries?focus=search`; }
    else if (event.key === "n") window.location.href = `${base}/queries/new`;
    else if (event.key === "t") window.millraceTheme();
    else if (event.key === "?") press("mr-help");
  });

  // Times are written as instants and shown as how long ago they were; the instant is the tooltip.
  const ago = (then) => {
    const seconds = (Date.now() - then) / 1000;
    if (seconds < 2) return "just now";
    for (const [scale, word] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]])
      if (seconds >= scale) return `${Math.floor(seconds / scale)} ${word} ago`;
    return "just now";
  };
  const tick = () => document.querySelectorAll("time[datetime]").forEach((each) => {
    const then = Date.parse(each.getAttribute("datetime"));
    if (!Number.isNaN(then)) { each.textContent = ago(then); each.title = new Date(then).toISOString().replace("T", " ").replace("Z", " UTC"); }
  });
  setInterval(tick, 1000);

  // Editors are told by the server which colours to use, and only the browser knows.
  const tellTheme = () => {
    if (window.did_handshake)
      emitEvent("millrace-theme", document.body.classList.contains("body--dark"));
    else setTimeout(tellTheme, 100);
  };
  tellTheme();
})();
