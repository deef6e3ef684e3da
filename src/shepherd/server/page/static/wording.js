// What is stored, said to a person.

/** The name of a fact in words: "dog name" of dog_name. */
export function named(key) {
  return key.replaceAll("_", " ").replace(/\s+/g, " ").trim() || key;
}
