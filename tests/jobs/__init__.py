r"""Jobs that people come with, done by the code of one or two pages, and judged by the truth."""
