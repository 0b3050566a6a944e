"""The colours and dashes of lines, in pictures and in the browser."""

# Okabe and Ito's colours, which colour-blind readers can distinguish too; the most different ones first.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8C6D1F", "#555555")

DASH, DOT, GAP = 3.0, 1.0, 1.2  # in widths of the line


def dashes(place: int) -> tuple[float, ...]:
    """How a picture's line at this place is interrupted: lengths that are drawn and left out in turn.

    Empty for the first lines, which are solid. When all colours are used, they begin again with dashes, then with a
    dash and a dot, a dash and two dots, and so on.
    """
    repeats = place // len(COLOURS)
    return (DASH, GAP, *(DOT, GAP) * (repeats - 1)) if repeats else ()
