"""Reports derived from a model: each takes a `System` and returns values, which the CLI prints.

examples        the operation that each pattern builds from its example
resources       the tables, queues, buckets, SQL tables and cache keys that an operation touches
sql_statements  the words of a SQL statement and the privileges that it needs
pattern_list    the patterns as rows, for `holdfast patterns`
measurement/    run the patterns and record units, items and time
design/         the design check: one function per rule
cost/           monthly cost from measured units, declared rates and a price list
iac/            CloudFormation templates and Terraform modules
iam/            least-privilege policies and SQL grants
docs/           Markdown pages with Mermaid diagrams
"""
