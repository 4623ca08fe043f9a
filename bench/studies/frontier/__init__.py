r"""What risk aversion buys and what it costs: portfolios of stocks and a random forest."""
