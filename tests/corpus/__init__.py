"""The compatibility corpus: data folders that released versions wrote, and tests that continue their work.

Each version has a folder (`v0_1`). Each archive in it is a data folder with work in flight; the JSON file
next to it contains what a client of that version kept: cursors, tokens, ids, and the time at which the folder
was written.

Never rewrite the files of a released version. With a new version, run every generator once into a new folder:
`python -m tests.corpus.write_library tests/corpus/v0_3`. Then freeze the folder:
`sha256sum *.* > SHA256SUMS`.
"""
