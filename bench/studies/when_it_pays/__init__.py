r"""When RAHBO, TRUVAR and UHE-BO pay: a sweep each over what their papers leave open."""
