// Buttons that copy the text of a field: data-copy holds the field's id. Without scripts they are hidden.
"use strict";

for (const button of document.querySelectorAll("button[data-copy]")) {
  const field = document.getElementById(button.dataset.copy);
  const state = button.parentElement.querySelector("[role=status]");
  button.hidden = false;
  button.addEventListener("click", async () => {
    if (field.select) field.select();
    else window.getSelection().selectAllChildren(field);
    try {
      await navigator.clipboard.writeText(field.value ?? field.textContent);
      state.textContent = "Copied";
    } catch {
      state.textContent = document.execCommand("copy") ? "Copied" : "Selected: copy it with the keyboard";
    }
  });
}
