// Texts: what the scripts say, in the language of the page; English where its catalogue has no translation.

const catalogue = JSON.parse(document.getElementById("texts")?.textContent ?? "{}");

/** Return a text with its `%(name)s` filled in. */
export function _(text, values = {}) {
  return (catalogue[text] ?? text).replace(/%(?:\((\w+)\)s|%)/g, (_whole, name) => (name ? values[name] : "%"));
}
