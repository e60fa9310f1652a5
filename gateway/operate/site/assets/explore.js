// The time zone of who looks, where the address has none; and a form that is sent when its menu changes.
// The page is whole without it.
"use strict";

(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const address = new URL(location.href);
  if (zone && zone !== "UTC" && zone !== "Etc/Unknown" && !address.searchParams.has("time_zone")) {
    address.searchParams.set("time_zone", zone);
    location.replace(address);
    return;
  }
  const zones = document.getElementById("zones");
  if (zones && Intl.supportedValuesOf) {
    zones.append(...Intl.supportedValuesOf("timeZone").map((name) => Object.assign(document.createElement("option"), { value: name })));
  }
  document.addEventListener("change", (event) => {
    if (event.target instanceof HTMLSelectElement && event.target.hasAttribute("data-submits")) event.target.form.requestSubmit();
  });
})();
