// Lists that are longer than what is asked for at once.

/**
 * The next entries behind `offset` that are not `known` by their ids, with the total; none at the end. What came
 * in at the top meanwhile moves all others down: what is shown already is asked for again, and passed over.
 */
export async function nextOf(ask, offset, known) {
  for (let from = offset; ; ) {
    const { data, total } = await ask(from);
    const fresh = data.filter((entry) => !known.has(String(entry.id)));
    if (fresh.length || !data.length) return { data: fresh, total };
    from += data.length;
  }
}
