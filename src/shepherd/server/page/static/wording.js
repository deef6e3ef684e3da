// What is stored, said to a person: names of facts without underscores, and what was learned as part of a sentence.

/** The name of a fact in words: "dog name" of dog_name. */
export function named(key) {
  return key.replaceAll("_", " ").replace(/\s+/g, " ").trim() || key;
}

const ABOUT_YOU = /^(what|which|who|when|where|why|how)( [^?]+?)? (does|is|was|has) the user (.+)$/i;
const OF_YOURS = /^(?:what|who|when|where) (?:is|are) the user['’]s (.+?)( called| named)?$/i;
const YOU = { does: "you", is: "you are", was: "you were", has: "you have" };

/**
 * What a question asks for: "which tea you like" of "Which tea does the user like?". "" if it isn't one of those
 * that a model writes about its user.
 */
export function askedFor(question) {
  const text = question.replace(/\s+/g, " ").trim().replace(/[ ?]+$/, "");
  const about = ABOUT_YOU.exec(text);
  if (about) return `${about[1].toLowerCase()}${about[2] ?? ""} ${YOU[about[3].toLowerCase()]} ${yours(about[4])}`;
  const owned = OF_YOURS.exec(text);
  if (!owned) return "";
  const [, thing, called = ""] = owned;
  return called ? `what your ${yours(thing)} is${called}` : `your ${yours(thing)}`;
}

function yours(text) {
  return text.replace(/\bthe user['’]s\b/gi, "your").replace(/\bthe user\b/gi, "you");
}
