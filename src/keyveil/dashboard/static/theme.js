// Before the first paint, so that a dark page does not flash: the choice of this tab's owner, if there is one.
{
  const chosen = localStorage.getItem("keyveil-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
}
