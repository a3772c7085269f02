// Before the first paint: the selected colours, or those of the system.
(() => {
  try {
    const chosen = localStorage.getItem("liststore.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // A browser that keeps nothing shows the system's colours.
  }
})();
