// What pages do in the browser beyond links and forms: times in the user's zone, live parts, charts, dialogs.
// Pages declare it with data-… attributes; there is no inline script.
"use strict";

// --- times -------------------------------------------------------------------------------------------------

const timeFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Show each time in the user's zone. The title keeps it in UTC. */
function localizeTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]:not([data-localized])")) {
    const at = new Date(element.dateTime);
    if (!Number.isNaN(at.getTime())) {
      element.textContent = timeFormat.format(at);
      element.dataset.localized = "";
    }
  }
}

// --- live parts --------------------------------------------------------------------------------------------

let stream = null;
let followed = "";
let isLeaving = false; // a form was sent, and its answer will replace the page

/** Return the topics of the page's live parts. */
function listTopics() {
  const elements = document.querySelectorAll("[data-live]");
  return [...new Set([...elements].flatMap((each) => each.dataset.live.split(" ").filter(Boolean)))].sort();
}

/** Follow the topics of the page: an element with data-live="work" gets the event `live-work`. */
function followTopics() {
  const query = listTopics().map((topic) => `topic=${encodeURIComponent(topic)}`).join("&");
  if (query === followed) return;
  unfollow();
  if (!query || document.hidden || isLeaving) return;
  followed = query;
  const opened = new EventSource(`/live?${query}`);
  let wasOpen = false;
  opened.addEventListener("open", () => {
    document.documentElement.dataset.stream = "open";
    if (wasOpen) refreshLiveParts(); // changes may have been missed while the connection was lost
    wasOpen = true;
  });
  opened.addEventListener("change", (event) => htmx.trigger(document.body, `live-${event.data}`));
  // The sign-in is over: the page leads to a new one, and what it showed is gone.
  opened.addEventListener("signed-out", () => {
    opened.close();
    location.reload();
  });
  stream = opened;
}

function unfollow() {
  if (stream) stream.close();
  stream = null;
  followed = "";
}

function refreshLiveParts() {
  for (const topic of listTopics()) htmx.trigger(document.body, `live-${topic}`);
}

// A browser opens few connections to one server: a page that nobody sees gives its own back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) unfollow();
  else if (listTopics().length) {
    followTopics();
    refreshLiveParts();
  }
});
// A live part stays as it is while the user reads details of it, or is in it by keyboard: focus would be lost. A page
// that has sent a form is about to be left. With data-keep-open, what the user opened is opened again instead.
document.addEventListener("htmx:beforeRequest", (event) => {
  const part = event.target.closest("[data-live]");
  if (part !== event.target || !part) return;
  if (isRead(part) || document.querySelector("form[data-sent]")) event.preventDefault();
});
// The user may have begun to read the part after it was asked for.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const asked = detail.requestConfig?.elt;
  if (asked?.matches("[data-live]") && isRead(asked)) detail.shouldSwap = false;
});

function isRead(part) {
  const details = "keepOpen" in part.dataset ? "" : "details[open][data-read], ";
  return part.querySelector(`dialog[open], ${details}:focus-visible`) !== null;
}
document.addEventListener("click", (event) => {
  // Details that the user opened, and not the page.
  const details = event.target.closest("[data-live] summary")?.parentElement;
  if (details) details.toggleAttribute("data-read", !details.open);
});

const openBefore = new WeakMap();

function listDetails(part) {
  return [...part.querySelectorAll("details")].map((each) => [each, `${each.closest("[id]")?.id} ${each.querySelector("summary")?.textContent}`]);
}

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if ("keepOpen" in detail.target.dataset) openBefore.set(detail.target, new Set(listDetails(detail.target).filter(([each]) => each.open).map(([, name]) => name)));
});

document.addEventListener("htmx:afterSwap", ({ detail }) => {
  const names = openBefore.get(detail.target);
  if (names) for (const [each, name] of listDetails(detail.target)) if (names.has(name)) each.open = true;
});

// --- charts ------------------------------------------------------------------------------------------------

const plots = new Map();

/** Return a colour of the theme. */
function readColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Draw a chart into each figure that has none. */
function drawCharts(root) {
  for (const figure of root.querySelectorAll("figure[data-chart]")) {
    const holder = figure.querySelector(".chart-plot");
    if (plots.has(holder)) continue;
    plots.set(holder, drawChart(holder, JSON.parse(figure.dataset.chart)));
    observer.observe(holder);
  }
}

function drawChart(holder, chart) {
  const axis = { stroke: readColour("--text-quiet"), grid: { stroke: readColour("--line"), width: 1 }, ticks: { show: false } };
  const options = {
    width: holder.clientWidth || 300,
    height: chart.height,
    cursor: { y: false },
    legend: { live: true },
    axes: [axis, { ...axis, size: 60, values: (_, values) => values.map((value) => formatValue(value, chart.unit)) }],
    series: [
      {},
      ...chart.series.map((each, index) => ({
        label: each.label,
        stroke: readColour(`--chart-${each.kind || index + 1}`),
        width: 2,
        points: { show: chart.times.length < 3 },
        value: (_, value) => (value === null ? "–" : formatValue(value, chart.unit)),
      })),
    ],
    scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.1 : 1] } },
  };
  return new uPlot(options, [chart.times, ...chart.series.map((each) => each.values)], holder);
}

function formatValue(value, unit) {
  const text = Math.abs(value) >= 10000 ? Intl.NumberFormat(undefined, { notation: "compact" }).format(value) : String(Math.round(value * 1000) / 1000);
  return unit === "$" ? `$${text}` : unit ? `${text} ${unit}` : text;
}

/** Draw every chart again, because the theme has changed or a part of the page was replaced. */
function redrawCharts() {
  for (const [holder, plot] of plots) {
    plot.destroy();
    observer.unobserve(holder);
  }
  plots.clear();
  drawCharts(document);
}

const observer = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const plot = plots.get(target);
    if (plot && target.clientWidth && plot.width !== target.clientWidth) {
      plot.setSize({ width: target.clientWidth, height: plot.height });
    }
  }
});

// --- buttons -----------------------------------------------------------------------------------------------

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.dialog) openDialog(button);
  else if ("close" in button.dataset) button.closest("dialog").close();
  else if (button.dataset.toggle) toggle(button);
  else if ("themeSwitch" in button.dataset) switchTheme();
  else if (button.dataset.copy) copy(button);
});

/** Copy the button's text, and say so on the button for a moment. */
async function copy(button) {
  await navigator.clipboard.writeText(button.dataset.copy);
  button.dataset.title ||= button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = button.dataset.title), 2000);
}

/** Open a dialog; data-fill='{"id": …}' puts the values of a row into its fields and texts of these names. */
function openDialog(button) {
  const dialog = document.getElementById(button.dataset.dialog);
  for (const [name, value] of Object.entries(JSON.parse(button.dataset.fill || "{}"))) {
    for (const field of dialog.querySelectorAll(`input[name="${name}"]`)) field.value = value;
    for (const text of dialog.querySelectorAll(`[data-fill="${name}"]`)) text.textContent = value;
  }
  dialog.showModal();
}

function toggle(button) {
  const isOpen = button.getAttribute("aria-expanded") !== "true";
  button.setAttribute("aria-expanded", String(isOpen));
  document.getElementById(button.dataset.toggle).classList.toggle("open", isOpen);
}

function switchTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(isDark ? "light" : "dark");
}

/** Use a theme, or that of the device, and keep the choice in this browser. */
function setTheme(theme) {
  if (theme) {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
  } else {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("theme");
  }
  showTheme();
  redrawCharts();
}

/** Check the button of the chosen theme, where a page has them. */
function showTheme() {
  const chosen = document.documentElement.dataset.theme || "";
  for (const input of document.querySelectorAll("[data-theme-choice] input")) input.checked = input.value === chosen;
}

// A form is sent once: a second click while the first is under way does nothing.
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented) return; // htmx sends it
  if (event.target.dataset.sent) event.preventDefault();
  else if (event.target.method === "post") {
    event.target.dataset.sent = "true";
    isLeaving = true; // that the sign-in ends must not reload the page meanwhile
    unfollow();
  }
});
addEventListener("pageshow", (event) => {
  if (!event.persisted) return; // only a page that the browser kept, and shows again, has sent forms
  isLeaving = false;
  followTopics();
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// A choice that applies at once: the form is sent when a field of it changes.
document.addEventListener("change", (event) => {
  if (event.target.closest("[data-theme-choice]")) setTheme(event.target.value);
  const form = event.target.closest("form[data-submit-on-change]");
  if (form) form.requestSubmit();
});

// --- start -------------------------------------------------------------------------------------------------

function prepare(root) {
  localizeTimes(root);
  for (const holder of [...plots.keys()]) if (!holder.isConnected) plots.delete(holder);
  drawCharts(root);
  followTopics();
  showTheme();
}

document.addEventListener("DOMContentLoaded", () => prepare(document));
document.addEventListener("htmx:afterSettle", () => prepare(document));
