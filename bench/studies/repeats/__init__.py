r"""How often should I repeat? Fixed and chosen numbers of readings at an equal budget."""
