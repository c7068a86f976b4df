// Set the theme that the user chose before the page is drawn.
"use strict";
const chosenTheme = localStorage.getItem("theme");
if (chosenTheme === "light" || chosenTheme === "dark") {
  document.documentElement.dataset.theme = chosenTheme;
}
