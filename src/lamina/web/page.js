"use strict";
// Everything works without this script: it makes typing, keys and news quicker.
(() => {
  const live = document.getElementById("live");
  const said = document.getElementById("said");
  const here = () => location.pathname + location.search;
  const fetchPart = async (address, signal) => {
    const answer = await fetch(address, { headers: { "X-Fragment": "1" }, signal });
    if (!answer.ok) throw new Error(answer.statusText);
    return answer.text();
  };

  // ---- search as you type
  let typing = null;
  const search = async (field) => {
    typing?.abort();
    typing = new AbortController();
    const address = new URL(field.form.action);
    address.searchParams.set("q", field.value);
    try {
      document.getElementById(field.dataset.search).innerHTML = await fetchPart(address, typing.signal);
      if (!field.value) address.searchParams.delete("q");
      history.replaceState(null, "", address);
    } catch (error) {
      if (error.name !== "AbortError") said.textContent = "The page did not answer.";
    }
  };
  document.addEventListener("input", (event) => {
    if (event.target.dataset.search) search(event.target);
  });

  // ---- what is loaded when it is opened
  document.addEventListener("toggle", async (event) => {
    const box = event.target;
    if (!box.open || !box.dataset.src || box.dataset.loaded) return;
    box.dataset.loaded = "1";
    const place = box.querySelector("[data-into]");
    try { place.innerHTML = await fetchPart(box.dataset.src); } catch { place.textContent = "The page did not answer."; }
  }, true);

  // ---- news
  let source = null, waiting = false, fetching = false;
  const busy = () => {
    const active = document.activeElement;
    return live.querySelector("textarea") || live.querySelector(".sure[open]")
      || (active && live.contains(active) && active.matches("input") && active.value);
  };
  const renew = async () => {
    if (fetching) { waiting = true; return; }
    if (busy()) return;
    fetching = true;
    try {
      const fresh = await fetchPart(here());
      const open = [...live.querySelectorAll("details[open][id]")].map((one) => one.id);
      const held = document.activeElement?.closest?.("[href]")?.getAttribute("href");
      if (live.querySelector(":active")) waiting = true;  // what is being pressed stays until it is let go
      else if (!busy() && fresh.trim() !== live.dataset.last) {
        live.dataset.last = fresh.trim();
        live.innerHTML = fresh;
        for (const id of open) document.getElementById(id)?.setAttribute("open", "");
        if (held) [...live.querySelectorAll("a")].find((one) => one.getAttribute("href") === held)?.focus();
        said.textContent = "Updated.";
      }
    } catch { /* the next change asks again */ }
    fetching = false;
    if (waiting) { waiting = false; setTimeout(renew, 300); }
  };
  const listen = () => {
    source?.close();
    source = null;
    // A hidden page lets go of its connection: a browser has few for one address.
    if (document.hidden || !document.body.dataset.events) return;
    source = new EventSource(document.body.dataset.events);
    source.addEventListener("changed", renew);
  };
  document.addEventListener("visibilitychange", () => { listen(); if (!document.hidden) renew(); });
  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", listen);

  // ---- on a narrow screen the menu scrolls
  const nav = document.querySelector("header nav");
  const current = nav?.querySelector("[aria-current]");
  if (current && nav.scrollWidth > nav.clientWidth) nav.scrollLeft = current.offsetLeft - nav.clientWidth / 2;

  // ---- keys
  let leader = false;
  const move = (step) => {
    const rows = [...document.querySelectorAll(".row > a")];
    if (!rows.length) return;
    const at = rows.indexOf(document.activeElement);
    rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + step))].focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const writing = event.target.matches("input, textarea, select");
    if (writing && event.key === "Escape") event.target.blur();
    if (writing) {
      if (event.key === "ArrowDown" && event.target.dataset.search) { event.preventDefault(); move(1); }
      return;
    }
    const field = document.querySelector("[data-search]");
    if (leader) {
      leader = false;
      document.querySelector(`header [data-key="${CSS.escape(event.key)}"]`)?.click();
    } else if (event.key === "g") leader = true;
    else if (event.key === "/" && field) { event.preventDefault(); field.focus(); field.select(); }
    else if (event.key === "j" || event.key === "ArrowDown" && event.target.closest(".row")) { event.preventDefault(); move(1); }
    else if (event.key === "k" || event.key === "ArrowUp" && event.target.closest(".row")) { event.preventDefault(); move(-1); }
    else if (event.key === "e") live.querySelector('[data-key="e"]')?.click();
    else if (event.key === "?") document.getElementById("keys")?.showModal();
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(".switch[open], .sure[open]")) {
      if (!menu.contains(event.target)) menu.removeAttribute("open");
    }
  });
})();
