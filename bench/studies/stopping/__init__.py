r"""Whether the gap of a recommendation holds, and what stopping by it saves."""
