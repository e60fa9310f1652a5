// Brings the parts marked data-live up to date whenever the gateway reports new figures (GET /live).
// Focus, typed text and open details stay. The page is whole without it.
"use strict";

// On a phone the links that choose scroll sideways: what is chosen is brought into view.
for (const chosen of document.querySelectorAll("nav.views [aria-current], .tabs.choose [aria-current]")) {
  const row = chosen.closest("nav.views, .tabs");
  row.scrollLeft = chosen.offsetLeft - row.offsetLeft - (row.clientWidth - chosen.offsetWidth) / 2;
}

(() => {
  const url = document.body.dataset.liveUrl;
  const button = document.getElementById("pause");
  const state = document.getElementById("live-state");
  if (!url || !button || !window.EventSource || !window.Idiomorph) return;

  const PAUSED = "live-paused";
  const remembered = {
    get: () => { try { return localStorage.getItem(PAUSED) === "yes"; } catch { return false; } },
    set: (paused) => { try { localStorage.setItem(PAUSED, paused ? "yes" : "no"); } catch { /* not remembered */ } },
  };
  let paused = remembered.get();
  let stream = null;
  let fetching = false;
  let again = false;
  let waiting = 0;

  // What a person did stays: text in fields, ticked boxes, opened details.
  const isTouched = (node) =>
    (node instanceof HTMLInputElement && (node.value !== node.defaultValue || node.checked !== node.defaultChecked)) ||
    (node instanceof HTMLTextAreaElement && node.value !== node.defaultValue) ||
    (node instanceof HTMLSelectElement && [...node.options].some((each) => each.selected !== each.defaultSelected));
  const callbacks = {
    beforeNodeMorphed: (old) =>
      !(old instanceof Element) || !(old.hasAttribute("data-static") || old === document.activeElement && old.matches("input, textarea, select") || isTouched(old)),
    beforeAttributeUpdated: (name, node) => !(name === "open" && (node instanceof HTMLDetailsElement || node instanceof HTMLDialogElement)),
  };

  function morph(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(part.id);
      if (next) window.Idiomorph.morph(part, next, { morphStyle: "outerHTML", callbacks });
    }
  }

  // Figures that are costly are shown again for a while: ask when newer ones can be had.
  function later() {
    const seconds = Number(document.getElementById("made").dataset.freshInS);
    clearTimeout(waiting);
    if (seconds > 0) waiting = setTimeout(() => { if (stream) update(); }, seconds * 1000);
  }

  async function update() {
    if (fetching) { again = true; return; }
    fetching = true;
    try {
      const answer = await fetch(url, { headers: { Accept: "text/html", "X-Live-Update": "1" }, credentials: "same-origin" });
      if (answer.status === 401) { stop("Logged out"); return; }
      if (answer.ok && !paused) { morph(await answer.text()); later(); }
    } catch { /* the stream connects again, and asks then */ } finally {
      fetching = false;
      if (again) { again = false; update(); }
    }
  }

  function show(text) { state.textContent = text; }
  function stop(text) { if (stream) stream.close(); stream = null; show(text); }

  function start() {
    if (stream || paused || document.hidden) return;
    stream = new EventSource("/live");
    stream.addEventListener("change", update);
    stream.addEventListener("open", () => show("Live"));
    stream.addEventListener("error", () => {
      if (stream && stream.readyState === EventSource.CLOSED) stop("Not live: reload for new figures");
      else show("Connecting again");
    });
  }

  function apply() {
    button.setAttribute("aria-pressed", String(paused));
    if (paused) stop("Paused"); else { start(); later(); }
  }

  button.hidden = false;
  button.addEventListener("click", () => { paused = !paused; remembered.set(paused); apply(); if (!paused) update(); });
  document.addEventListener("visibilitychange", () => { if (document.hidden) { if (stream) stop(""); } else if (!paused) { start(); update(); } });
  apply();
})();
