"""Are the file-name templates right?

`sources` turn Python, YAML, notebooks and live objects into calls (`calls`). `uses` finds the
templates among their arguments, by the `table` of what is legal where. `rules` judge each one, with
`grammar` and `formatter` as their model of what Composer makes of it. `lint` brings that together
for one text, `project` for many files; `linter` is the Callback, and alone knows Composer.
"""
