// Before anything is drawn, so that nothing flashes.
const chosen = localStorage.getItem("diana-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
