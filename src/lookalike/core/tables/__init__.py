"""Tables of results: a value that says what is in a table, and how it looks as text, LaTeX, Markdown, CSV and HTML."""
