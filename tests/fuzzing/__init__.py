"""Fuzzing: valid files and requests, changed by chance, given to every reader and every page; seeded and bounded.

`changing` changes files, `seeds` makes valid ones, `targets` says what reads them, `visits` asks the pages, and
`running` runs cases in processes that may crash, hang or eat memory, and judges them. bench/fuzz.py and
tests/test_fuzzing.py use it.
"""
