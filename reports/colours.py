"""The colours of lines, in pictures and in the browser."""

# Okabe and Ito's colours, which colour-blind readers can distinguish too; the most different ones first.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8C6D1F", "#555555")
