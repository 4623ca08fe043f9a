// What a user looks for before what was measured: studies, reproductions and the changelog come last.
Scorer = {
  score: ([page, title, anchor, description, score]) =>
    /^(bench\/|CHANGELOG|CONTRIBUTING|docs\/upstream)/.test(page) ? score / 10 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
