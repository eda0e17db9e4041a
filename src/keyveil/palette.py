"""The colours and markers of every plot."""

# Colours that stay apart for colour-blind readers (Okabe and Ito), and markers for print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
MARKERS = "osD^vP*X"
