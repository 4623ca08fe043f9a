r"""Text of others, such as names and causes of failures, as a terminal may show it."""


def printable(text: object, kept: str = "") -> str:
    r"""The text with every character escaped that a terminal would act on or not show.

    Args:
        kept: Characters that stay as they are, such as the ends of lines of a page.

    Example:
        >>> printable("red \\x1b[31m")
        'red \\x1b[31m'
    """
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode()
        for each in str(text)
    )
