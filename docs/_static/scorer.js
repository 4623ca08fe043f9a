// Guides come first, and what was measured last: studies, reproductions and the changelog.
Scorer = {
  score: ([page, title, anchor, description, score]) =>
    /^(bench\/|CHANGELOG|CONTRIBUTING|docs\/upstream)/.test(page)
      ? score / 10
      : /^docs\/\w+$/.test(page) ? 2 * score : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
