"""The parts that all verbs share: arguments, output, progress and errors. Words of the command line come in and become
parsed options and a client; values of verbs leave as aligned text, colours where a terminal shows them, or JSON. A
user's mistake becomes one line, a fault of ours one line and a file of evidence. Read `parsing.py` first, whose
`Command` is the form of every verb, then `output.py`."""
