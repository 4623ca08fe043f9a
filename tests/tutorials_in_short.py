r"""The tutorials in a short form, for the tests: what is replaced before a notebook runs."""

SHORT = {
    "01": [("num_rounds = 30", "num_rounds = 3")],
    "02": [("num_seasons = 40", "num_seasons = 3"), ("num_rounds = 40", "num_rounds = 2")],
    "03": [
        ("num_queries = 24", "num_queries = 3"),
        ("shown = (0, 8, 24)", "shown = (0, 1, 3)"),
        ("num_rounds = 40", "num_rounds = 2"),
    ],
    "04": [
        ("num_own = 30", "num_own = 3"),
        ("seeds = list(range(8))", "seeds = list(range(2))"),
        ("num_rounds = 40", "num_rounds = 4"),
        ("sizes = (10, 20, 30, 46)", "sizes = (8, 10)"),
        ("even_X = torch.rand(300, 2, dtype=to", "even_X = torch.rand(60, 2, dtype=to"),
        ("for t in range(1 + 30):", "for t in range(1 + 2):"),
    ],
    "05": [
        ("some = slice(None, None, 4)", "some = slice(None, None, 60)"),
        ("num_samples = 90", "num_samples = 12"),
        ("num_rounds = (95, 60)", "num_rounds = (4, 4)"),
        ("num_rounds = 130", "num_rounds = 4"),
        ("rounds = int(budget / levels.costs[k])", "rounds = 4"),
        ("rounds = 60", "rounds = 3"),
    ],
    "06": [
        (
            '"raw_samples": 48, "options": {"maxiter": 40}',
            '"raw_samples": 8, "options": {"maxiter": 5}',
        ),
        (" range(len(X), len(X) + num_days):", " range(len(X), len(X) + 1):"),
        ("for seed in range(3):", "for seed in range(1):"),
        ("seeds = range(20)", "seeds = range(3)"),
        ("for day in range(1 + 24):  # ten rand", "for day in range(1 + 1):  # ten rand"),
    ],
    "07": [
        ("first, second = (9, 8)", "first, second = (7, 1)"),
        ("for seed in range(1, 3):", "for seed in range(1, 2):"),
        ("go_on(client, 12, 0)", "go_on(client, 5, 0)"),
        ("for _ in range(10):", "for _ in range(6):"),
    ],
    "08": [
        ("search = {}", 'search = {"num_restarts": 3, "raw_samples": 32}'),
        ("num_points = 4", "num_points = 2"),
    ],
    "09": [
        ("def loop(step, seed, num_rounds=15):", "def loop(step, seed, num_rounds=2):"),
        ("own_seeds = range(8)", "own_seeds = range(2)"),
        ("seeds, num_rounds = range(8), 60", "seeds, num_rounds = range(2), 3"),
        (", branin_rounds = range(16), 60", ", branin_rounds = range(2), 3"),
    ],
    "10": [
        (
            '"raw_samples": 64, "options": {"maxiter": 50}',
            '"raw_samples": 16, "options": {"maxiter": 5}',
        ),
        ("def loop(step, seed, num_rounds=20):", "def loop(step, seed, num_rounds=2):"),
        ("seeds = range(12)", "seeds = range(2)"),
        ("num_rounds = 24", "num_rounds = 2"),
    ],
    "11": [
        ("while len(steps) < 6:", "while len(steps) < 2:"),
        ("seeds = range(5)", "seeds = range(1)"),
        ("num_plates = 6", "num_plates = 1"),
    ],
    "12": [("num_rounds = 50", "num_rounds = 4")],
}
