// Shows and hides the notice about a refresh that failed.
const setStale = (failed) => { document.getElementById("stale").hidden = !failed }
for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout", "htmx:sseError"]) {
  document.addEventListener(name, () => setStale(true))
}
for (const name of ["htmx:afterSwap", "htmx:sseMessage"]) {
  document.addEventListener(name, () => setStale(false))
}
