// Reads Prometheus' text: name{label="value"} number.

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

class Metrics {
  constructor(samples) {
    this.samples = samples;
  }

  named(name) {
    return this.samples.filter((sample) => sample.name === name);
  }

  /** The sum of a figure over its labels; 0 where there is none. */
  value(name) {
    return this.named(name).reduce((sum, sample) => sum + sample.value, 0);
  }

  /** A figure by one of its labels. */
  byLabel(name, label) {
    const sums = {};
    for (const { labels, value } of this.named(name)) sums[labels[label]] = (sums[labels[label]] ?? 0) + value;
    return sums;
  }

  /** A histogram, with how many are in each bucket alone; but one, those at both ends that are empty are left out. */
  histogram(name) {
    let before = 0;
    const all = this.named(`${name}_bucket`).map(({ labels, value }) => {
      const n = value - before;
      before = value;
      return { upTo: labels.le === "+Inf" ? Infinity : Number(labels.le), n };
    });
    const first = all.findIndex(({ n }) => n > 0);
    const last = all.findLastIndex(({ n }) => n > 0);
    return {
      total: before,
      buckets: first < 0 ? [] : all.slice(Math.max(first - 1, 0), last + 2),
      /** The bound that so large a share is within. */
      quantile(share) {
        let seen = 0;
        return all.find(({ n }) => (seen += n) >= share * before)?.upTo ?? 0;
      },
    };
  }
}

/** The figures of a text. Lines that are none are left out. */
export function readMetrics(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const found = LINE.exec(line);
    if (!found) continue;
    const labels = Object.fromEntries([...(found[2] ?? "").matchAll(LABEL)].map(([, name, value]) => [name, value]));
    samples.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return new Metrics(samples);
}
