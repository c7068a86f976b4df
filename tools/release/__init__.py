"""Build the files of a release, and look up the locked packages in a database of vulnerabilities."""
