/* Fetches the changing part of the overview again and again, as often as somebody chooses. Whoever has
   no JavaScript has the link. Nothing is asked for while the page cannot be seen. */
"use strict";

(() => {
  const KEY = "graphile-worker-interval";
  const PATIENCE = 30000;

  const part = document.getElementById("graphile-worker-overview");
  const choice = document.getElementById("graphile-worker-choice");
  const interval = document.getElementById("graphile-worker-interval");
  const trouble = document.getElementById("graphile-worker-trouble");
  if (!part || !choice || !interval || !trouble) {
    return;
  }

  let timer = null;
  let asked = null;
  let askedAt = Date.now();

  // A browser may forbid it to keep anything.
  function kept() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  }

  function keep(value) {
    try {
      localStorage.setItem(KEY, value);
    } catch {
      // Then it holds for this page only.
    }
  }

  function say(text) {
    if (trouble.textContent !== text) {
      trouble.textContent = text;
    }
  }

  // What somebody has opened, scrolled to or is at, by what stays the same in the next one.
  function replace(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    for (const details of part.querySelectorAll("details[open]")) {
      fresh.getElementById(details.id)?.setAttribute("open", "");
    }
    const scrolled = [...part.querySelectorAll("[tabindex]")].map((frame) => [
      frame.id,
      frame.scrollLeft,
    ]);
    const at = part.contains(document.activeElement) ? document.activeElement : null;
    part.replaceChildren(...fresh.body.childNodes);
    for (const [id, left] of scrolled) {
      const frame = document.getElementById(id);
      if (frame) {
        frame.scrollLeft = left;
      }
    }
    if (at) {
      const href = at.getAttribute("href");
      const same = at.id
        ? document.getElementById(at.id)
        : [...part.querySelectorAll("a")].find((link) => link.getAttribute("href") === href);
      same?.focus({ preventScroll: true });
    }
  }

  function isSelecting() {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  }

  async function refresh() {
    askedAt = Date.now();
    asked = new AbortController();
    const late = setTimeout(() => asked?.abort(), PATIENCE);
    try {
      const response = await fetch(part.dataset.url, {
        credentials: "same-origin",
        redirect: "manual",
        signal: asked.signal,
      });
      // A redirection leads to the login.
      if (response.type === "opaqueredirect" || response.status === 403) {
        interval.value = "0";
        say(trouble.dataset.end);
        return;
      }
      if (!response.ok) {
        throw new Error(String(response.status));
      }
      const html = await response.text();
      if (!isSelecting()) {
        replace(html);
      }
      say("");
    } catch {
      if (!document.hidden) {
        say(trouble.dataset.text);
      }
    } finally {
      clearTimeout(late);
      asked = null;
      plan();
    }
  }

  // From when it was asked for last: coming back to a page refreshes it at once if it is time.
  function plan() {
    clearTimeout(timer);
    timer = null;
    const pause = Number(interval.value) * 1000;
    if (pause > 0 && !document.hidden && asked === null) {
      timer = setTimeout(refresh, Math.max(0, askedAt + pause - Date.now()));
    }
  }

  const chosen = kept();
  if ([...interval.options].some((option) => option.value === chosen)) {
    interval.value = chosen;
  }
  interval.addEventListener("change", () => {
    keep(interval.value);
    say("");
    plan();
  });
  document.addEventListener("visibilitychange", plan);
  choice.hidden = false;
  plan();
})();
