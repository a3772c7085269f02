// Before the first paint: the selected colours, or the colours of the system.
(() => {
  try {
    const chosen = localStorage.getItem("liststore.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Without storage the page has the system's colours.
  }
})();
