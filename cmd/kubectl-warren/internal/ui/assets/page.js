// Shows and hides the notice about a refresh that failed.
const setStale = (failed) => { document.getElementById("stale").hidden = !failed }
for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout", "htmx:sseError"]) {
  document.addEventListener(name, () => setStale(true))
}
for (const name of ["htmx:afterSwap", "htmx:sseMessage"]) {
  document.addEventListener(name, () => setStale(false))
}

// Keeps a refresh from replacing what the user presses: the browser would drop the click.
let isPressed = false
addEventListener("pointerdown", (event) => { isPressed = event.button === 0 })
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { isPressed = false })
document.addEventListener("htmx:beforeSwap", (event) => { if (isPressed) event.detail.shouldSwap = false })

// Shows that a form was sent: to count messages may take a minute.
addEventListener("submit", () => { document.body.ariaBusy = "true" })
addEventListener("pageshow", () => { document.body.ariaBusy = null })

// Enables the buttons for chosen messages while a message is chosen. Without this script, the next page asks to choose.
const updateChoice = () => {
  const form = document.getElementById("dead-letters")
  if (!form) return
  const boxes = [...form.querySelectorAll("input[name=id]")]
  const chosen = boxes.filter((box) => box.checked).length
  for (const button of form.querySelectorAll("button")) button.disabled = chosen === 0
  const all = document.getElementById("choose-all")
  all.hidden = false
  all.checked = chosen === boxes.length
  all.indeterminate = chosen > 0 && chosen < boxes.length
}
document.addEventListener("change", (event) => {
  if (event.target.id === "choose-all") {
    for (const box of event.target.form.querySelectorAll("input[name=id]")) box.checked = event.target.checked
  }
  updateChoice()
})
for (const name of ["htmx:afterSwap", "pageshow"]) addEventListener(name, updateChoice)
updateChoice()
